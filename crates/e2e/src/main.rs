//! End-to-end suites of the built program. `cargo xtask` passes its commands on to this program.

mod kill; // real SIGKILLs while Jobs are submitted
mod watch_check; // watches during interruptions and restarts
mod tour; // a real kubectl, every command's output checked
mod fuzz; // runs the fuzz targets
mod long; // runs that are too long for CI

use clap::{Parser, Subcommand};

/// The command line, in the form of `cargo xtask`, which passes it on.
#[derive(Parser)]
#[command(name = "cargo xtask", about = "End-to-end suites of the built program")]
struct E2eCli {
    #[command(subcommand)]
    command: E2eCommand,
}

#[derive(Subcommand)]
enum E2eCommand {
    /// Kills `phalanx up` while Jobs are submitted: no acknowledged write may be lost
    Kill(kill::Args),
    /// Watches `phalanx up` during interruptions and restarts: ordered, unique, complete, resumable or 410
    WatchCheck(watch_check::Args),
    /// Runs kubectl against `phalanx up` and checks the output of every command
    Tour(tour::Args),
    /// Fuzzes external input: bodies, patches, selectors, continue tokens, the file of the store
    Fuzz(fuzz::Args),
    /// Runs the steps that are too long for CI, within a number of minutes
    Long(long::Args),
}

fn main() -> std::process::ExitCode {
    supervisor::main(|| match E2eCli::parse().command {
        E2eCommand::Kill(args) => kill::run(&args),
        E2eCommand::WatchCheck(args) => watch_check::run(&args),
        E2eCommand::Tour(args) => tour::run(&args),
        E2eCommand::Fuzz(args) => fuzz::run(&args),
        E2eCommand::Long(args) => long::run(&args),
    })
}
