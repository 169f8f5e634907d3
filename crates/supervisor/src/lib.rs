//! Processes that tests and benchmarks start.
//!
//! In: a program and its arguments. Out: a running process with log files, ready, killed when its value is dropped.
//! Promises: no process outlives the one that started it, even where that one is killed.
//! Never: shipped.

mod process; // a supervised child process; read this first
pub mod guard; // a program that ends with the process that started it
mod client; // clients of the servers that are started here
mod committed_head; // the commit of a recorded run
mod component; // `phalanx scheduler`, `controllers`, `nodes`
mod folders; // the repository, the cache, scratch folders
pub mod guides; // the commands of README and guides, for the tests that run them
pub mod kubernetes; // the real Kubernetes: its programs built, and run as a control plane
mod up; // `phalanx up`

use std::process::ExitCode;

pub use committed_head::committed_head;
pub use component::{resolve_program, start_component};
pub use folders::{ScratchDir, cache_folder, repository_root};
pub use process::SupervisedProcess;
pub use up::{UpConfig, UpProcess};

/// The `main` of a program that starts processes: the program itself also serves as their guard.
pub fn main(run: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    match guard::run_if_requested().unwrap_or_else(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
