//! The command line: `phalanx run`, `up` and `compile` by themselves; `apply`, `get`, `delete`, `wait`, `explain`, `logs` and
//! the parts `scheduler`, `controllers`, `nodes` against any cluster.
//!
//! In: arguments, files. Out: results on standard output, progress and problems on standard error, an exit code.
//! Promises: exit 0 done; 1 a workload failed or time ran out; 2 bad usage or a bad manifest; 3 cannot start.
//! Never: decides anything about scheduling.

// In this crate these never panic: the reader of a pipe may close it at any time. They stand before all modules, so that
// they take the place of those of the standard library everywhere.
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
mod run; // one gang on a laptop, from file to table
mod apply; // manifests to the server, problems gathered
mod three_way_merge; // what an object should become, from three forms of it
mod dropped; // fields of a manifest that the server did not keep
mod get; // objects as rows, documents or names, once or as they change
mod delete; // objects away, and waiting for it
mod wait; // until a condition holds
mod explain; // why something waits: the evidence gathered
mod explanation; // and weighed
mod scheduler_query; // what a scheduler says about it
mod local_core; // or what one would say
mod logs; // what a pod wrote, or what is known of it
mod client; // from a kubeconfig to a client
mod deadline; // how long the server has for an answer
mod kinds; // which kinds a server has, and what people call them
mod api_request; // single requests
mod list_watch; // a collection and all its changes
mod table; // rows and columns
mod json_path; // JSON paths into one object
mod command_error; // why a command ended badly
#[cfg(test)]
mod test_cluster; // a cluster for the tests of commands
mod manifest; // files into documents that know their lines
mod print; // to standard output and standard error, without panics
mod log; // the log on standard error, as text or JSON
mod progress; // where every piece of work stands
mod ended_jobs; // what ended and was deleted since
mod obstacles; // what keeps it from ever ending
mod run_outcome; // how a run ended
mod warnings; // Warning Events of its objects
mod progress_view; // draws progress on a terminal
mod report; // where each pod went: table and JSON
mod compile; // what a Job would get, without a server
mod up; // the control plane until it is told to stop
mod components; // one part of it, for a cluster that is there already
mod wall_clock; // the time that both go by
mod config; // its configuration file
mod gates; // the features that a command runs with
mod store_check; // is a data directory as it was written

use std::process::ExitCode;

/// The system's allocator takes a quarter of a pod's life; docs/decisions/0004 has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
