//! The command line. `phalanx run`, `up` and `compile` need no cluster. `apply`, `get`, `delete`, `wait`, `explain`, `logs`
//! and the components `scheduler`, `controllers` and `nodes` work with any cluster.
//!
//! In: arguments, files. Out: results on standard output, progress and problems on standard error, an exit code.
//! Promises: exit 0 done; 1 a workload failed or time ran out; 2 bad usage or a bad manifest; 3 cannot start.
//! Never: decides anything about scheduling.

// Unlike the macros of the standard library these never panic: the reader of a pipe may close it at any time. They are
// defined before all modules, so that every module uses them.
macro_rules! eprintln {
    ($($text:tt)*) => { crate::print::message(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! print {
    ($($text:tt)*) => { crate::print::result(format_args!($($text)*)) };
}
macro_rules! println {
    ($($text:tt)*) => { crate::print::result(format_args!("{}\n", format_args!($($text)*))) };
}

mod cli; // commands and their help
mod run; // manifests on an in-memory cluster, until all work has ended
mod apply; // creates or updates the objects of manifests
mod three_way_merge; // the patch of `apply`, from last applied, live and new object
mod dropped; // fields of a manifest that the server dropped
mod get; // objects as a table, documents or names, once or as a watch
mod delete; // deletes objects and waits until they are gone
mod wait; // waits until a condition holds
mod explain; // why a group or pod waits: collects the objects
mod explanation; // the explanation from these objects, as text and JSON
mod scheduler_query; // queries a scheduler about it
mod local_core; // computes the same without a scheduler
mod logs; // logs of a pod, or the state of a simulated one
mod client; // from a kubeconfig to a client
mod deadline; // how long a request may take
mod kinds; // the kinds of a server, by any of their names
mod api_request; // single requests
mod list_watch; // a collection and its changes
mod table; // prints rows and columns
mod json_path; // JSON paths into one object
mod command_error; // why a command failed, with its exit code
#[cfg(test)]
mod test_cluster; // a cluster for the tests of commands
mod manifest; // parses files into documents with line numbers
mod print; // to standard output and standard error, without panics
mod log; // the log on standard error, as text or JSON
mod progress; // the state of all work
mod ended_jobs; // Jobs that ended and were deleted since
mod obstacles; // why work can never end
mod run_outcome; // the result of a run
mod warnings; // Warning Events of the objects of a run
mod progress_view; // draws progress on a terminal
mod report; // where each pod is, as table and JSON
mod compile; // the scheduling objects of a Job, without a server
mod up; // the control plane, until a signal
mod components; // one component for an existing cluster
mod wall_clock; // the machine's clock
mod config; // the configuration file
mod gates; // the feature gates of a command
mod store_check; // verifies a data directory

use std::process::ExitCode;

/// The allocator of the system takes a quarter of the CPU time per pod; docs/decisions/0004 has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
