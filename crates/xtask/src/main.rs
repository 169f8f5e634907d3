//! Project rules and generators of this repository, and the front of its other tools: `cargo xtask --help`.
//!
//! This crate uses no crate of the product, so `cargo xtask tidy` builds in seconds. Benchmarks, comparisons and
//! end-to-end suites are programs of their own; their commands are passed on.

mod check; // the checks before a push
mod picture; // the README's picture, from the program's output
mod tidy; // project rules that no compiler checks
mod tool; // the other programs

use clap::{Parser, Subcommand};

use tool::{BENCH, CONFORMANCE, E2E, ToolArgs};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, benchmarks and generators of this repository")]
struct XtaskCli {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Measures; prints a table and, with --json, one object per line
    #[command(disable_help_flag = true)]
    Bench(ToolArgs),
    /// Runs format, tidy, clippy and the unit tests of the crates that changed, and prints the time of each
    Check(check::Args),
    /// Checks the project rules: layering, module docs, lengths, banned calls, names, codemap, links
    Tidy,
    /// Writes docs/conformance.md: each requirement and the tests that show it; `api` compares with the real server
    #[command(disable_help_flag = true)]
    Conformance(ToolArgs),
    /// Writes docs/images/run.svg from the terminal output of `phalanx run`
    Picture(picture::Args),
    /// Writes the ClusterRoles of docs/guides/cluster.md from the control loops
    #[command(disable_help_flag = true)]
    Rbac(ToolArgs),
    /// Writes the schema files of the registry's kinds from the Go modules of Kubernetes
    #[command(disable_help_flag = true)]
    Schema(ToolArgs),
    /// The protobuf form of the kinds that the server accepts: `table` writes its file, `check` compares it with Go
    #[command(disable_help_flag = true)]
    Protobuf(ToolArgs),
    /// The programs of Kubernetes, for the suites that need them
    #[command(disable_help_flag = true)]
    Kube(ToolArgs),
    /// Runs kubectl against `phalanx up` and checks the output of every command
    #[command(disable_help_flag = true)]
    Tour(ToolArgs),
    /// Fuzzes external input: bodies, patches, selectors, continue tokens, the file of the store
    #[command(disable_help_flag = true)]
    Fuzz(ToolArgs),
    /// Kills `phalanx up` while Jobs are submitted: no acknowledged write may be lost
    #[command(disable_help_flag = true)]
    Kill(ToolArgs),
    /// Runs the steps that are too long for CI, within a number of minutes
    #[command(disable_help_flag = true)]
    Long(ToolArgs),
    /// Watches `phalanx up` during interruptions and restarts: ordered, unique, complete, resumable or 410
    #[command(disable_help_flag = true)]
    WatchCheck(ToolArgs),
}

fn main() -> std::process::ExitCode {
    match run(XtaskCli::parse().command) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(task: XtaskCommand) -> anyhow::Result<()> {
    match task {
        XtaskCommand::Check(args) => check::run(&args),
        XtaskCommand::Tidy => tidy::run(),
        XtaskCommand::Picture(args) => picture::run(&args),
        XtaskCommand::Bench(_) => BENCH.replace_process(),
        XtaskCommand::Conformance(_)
        | XtaskCommand::Kube(_)
        | XtaskCommand::Protobuf(_)
        | XtaskCommand::Rbac(_)
        | XtaskCommand::Schema(_) => CONFORMANCE.replace_process(),
        XtaskCommand::Tour(_)
        | XtaskCommand::Fuzz(_)
        | XtaskCommand::Kill(_)
        | XtaskCommand::Long(_)
        | XtaskCommand::WatchCheck(_) => E2E.replace_process(),
    }
}

/// The folder of the workspace, independent of the current folder.
fn repository_root() -> anyhow::Result<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok(root.canonicalize()?)
}
