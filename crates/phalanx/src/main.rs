//! The command line. `phalanx run`, `up` and `compile` need no cluster. `apply`, `get`, `delete`, `wait`, `explain`, `logs`
//! and the components `scheduler`, `controllers` and `nodes` work with any cluster.
//!
//! In: arguments, files. Out: results on standard output, progress and problems on standard error, an exit code.
//! Promises: exit 0 done; 1 a workload failed or time ran out; 2 bad usage or a bad manifest; 3 cannot start.
//! Never: decides anything about scheduling.

// Unlike the macros of the standard library these never panic: the reader of a pipe may close it at any time. They are
// defined before all modules, so that every module uses them.
macro_rules! eprintln {
    ($($text:tt)*) => { crate::output::print::message(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! print {
    ($($text:tt)*) => { crate::output::print::result(format_args!($($text)*)) };
}
macro_rules! println {
    ($($text:tt)*) => { crate::output::print::result(format_args!("{}\n", format_args!($($text)*))) };
}

mod cli; // commands and their help
mod run; // manifests on an in-memory cluster, until all work has ended
mod commands; // the other commands, one file each
mod explain; // why a group or pod waits
mod client; // from a kubeconfig to requests and their responses
mod output; // results, messages and the log
mod manifest; // parses files into documents with line numbers
mod config; // the configuration file
mod gates; // the feature gates of a command
mod command_error; // why a command failed, with its exit code
mod wall_clock; // the machine's clock
#[cfg(test)]
mod test_cluster; // a cluster for the tests of commands

use std::process::ExitCode;

/// The allocator of the system takes a quarter of the CPU time per pod; docs/decisions/0004 has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
