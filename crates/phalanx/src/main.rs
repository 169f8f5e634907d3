//! The command line: `phalanx run`, `compile`, `version`.
//!
//! In: arguments, files. Out: results on standard output, progress and problems on standard error, an exit code.
//! Promises: exit 0 done; 1 a workload failed or time ran out; 2 bad usage or a bad manifest; 3 cannot start.
//! Never: decides anything about scheduling.

mod cli; // commands and their help
mod run; // one gang on a laptop, from file to table
mod apply; // manifests to the server, problems gathered
mod manifest; // files into documents that know their lines
mod progress; // where every piece of work stands
mod view; // draws progress on a terminal
mod report; // where each pod went: table and JSON
mod compile; // what a Job would get, without a server

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
