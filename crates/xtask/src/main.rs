//! Checks, benchmarks and generators of this repository: `cargo xtask --help`.

mod bench_core; // decisions only, no API
mod bench_api; // the API server with its durable store
mod bench_life; // a pod's whole life, everything in one process
mod bench_kube; // the real server, kube-scheduler and ours in turn
mod bench_jobs; // Jobs from creation to end, beside the real controllers
mod bench_store; // the store on disk
mod bench_builder; // compiling a workload
mod conformance; // each requirement and the tests that show it; our API held against the real one
mod fuzz; // runs the fuzz targets
mod kill; // real SIGKILLs while Jobs are submitted
mod long; // what is too long for CI
mod kube; // the real Kubernetes programs: built, and run as a throw-away control plane
mod spawned_component; // a part of ours as a child process
mod picture; // the README's picture, made from what the program prints
mod protobuf; // the protobuf form of the kinds, written and checked
mod schema; // reads the Kubernetes schema file from the Go module
mod scheduling_cases; // the loads that benchmarks of scheduling share
mod tidy; // house rules that no compiler checks
mod tour; // a real kubectl, every command's output checked
mod up_process; // `phalanx up` as a child process
mod watch_check; // watches under cuts and restarts

use clap::{Parser, Subcommand};

/// The system's allocator takes a quarter of a pod's life; docs/decisions/0004 has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, benchmarks and generators of this repository")]
struct Cli {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Measures; prints a table and, with --json, one object a line
    #[command(subcommand)]
    Bench(Bench),
    /// Checks the house rules: layering, module docs, lengths, banned calls, codemap, links
    Tidy,
    /// Writes docs/conformance.md: each requirement and the tests that show it; `api` compares with the real server
    Conformance(conformance::Args),
    /// Writes docs/images/run.svg from what `phalanx run` prints on a terminal
    Picture(picture::Args),
    /// Writes the compact schema file from the Go module k8s.io/kubernetes
    Schema(schema::Args),
    /// The protobuf form of the kinds that the server takes
    #[command(subcommand)]
    Protobuf(protobuf::ProtobufTask),
    /// The real Kubernetes programs, for the suites that run against the real thing
    #[command(subcommand)]
    Kube(kube::KubeTask),
    /// Takes a kubectl through `phalanx up` and checks what every command says
    Tour(tour::Args),
    /// Fuzzes what comes from outside: bodies, patches, selectors, continue tokens, the file of the store
    Fuzz(fuzz::Args),
    /// Kills `phalanx up` while Jobs are submitted: no acknowledged write may be lost
    Kill(kill::Args),
    /// Runs what is too long for CI, within a number of minutes
    Long(long::Args),
    /// Watches `phalanx up` through cuts and restarts: ordered, unique, complete, resumable or 410
    WatchCheck(watch_check::Args),
}

#[derive(Subcommand)]
enum Bench {
    /// The scheduler's decisions alone, no API: milliseconds per group for each shape
    Core(bench_core::Args),
    /// The API server with its durable store: creates and updates per second, start-up, memory
    Api(bench_api::Args),
    /// A pod's whole life (create, bind, run, succeed, delete), everything in one process: CPU per pod
    Life(bench_life::Args),
    /// Jobs from creation to end: Jobs per second, first pods, writes, memory; kube-controller-manager beside ours
    Jobs(bench_jobs::Args),
    /// The same groups on one real kube-apiserver, kube-scheduler and ours in turn, then on our own server
    Kube(bench_kube::Args),
    /// The store on disk: durable creates and updates per second, and how long a start takes
    Store(bench_store::Args),
    /// The workload builder: microseconds to check and to compile one workload
    Builder(bench_builder::Args),
}

fn main() -> std::process::ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(task: XtaskCommand) -> anyhow::Result<()> {
    match task {
        XtaskCommand::Bench(_) if cfg!(debug_assertions) => rerun_in_release(),
        XtaskCommand::Bench(Bench::Core(args)) => bench_core::run(&args),
        XtaskCommand::Bench(Bench::Api(args)) => bench_api::run(&args),
        XtaskCommand::Bench(Bench::Life(args)) => bench_life::run(&args),
        XtaskCommand::Bench(Bench::Jobs(args)) => bench_jobs::run(&args),
        XtaskCommand::Bench(Bench::Kube(args)) => bench_kube::run(&args),
        XtaskCommand::Bench(Bench::Store(args)) => bench_store::run(&args),
        XtaskCommand::Bench(Bench::Builder(args)) => bench_builder::run(&args),
        XtaskCommand::Tidy => tidy::run(),
        XtaskCommand::Conformance(args) => conformance::run(&args),
        XtaskCommand::Picture(args) => picture::run(&args),
        XtaskCommand::Schema(args) => schema::run(&args),
        XtaskCommand::Protobuf(task) => protobuf::run(&task),
        XtaskCommand::Kube(task) => kube::run(&task),
        XtaskCommand::Tour(args) => tour::run(&args),
        XtaskCommand::Fuzz(args) => fuzz::run(&args),
        XtaskCommand::Kill(args) => kill::run(&args),
        XtaskCommand::Long(args) => long::run(&args),
        XtaskCommand::WatchCheck(args) => watch_check::run(&args),
    }
}

/// Measures nothing in a debug build: calls the same command, built for speed.
fn rerun_in_release() -> anyhow::Result<()> {
    let status = std::process::Command::new(env!("CARGO"))
        .args(["run", "--release", "--quiet", "--package", "xtask", "--"])
        .args(std::env::args_os().skip(1))
        .status()?;
    anyhow::ensure!(status.success(), "the benchmark did not run");
    Ok(())
}

/// The folder of the workspace, whatever folder the task was called from.
fn repository_root() -> anyhow::Result<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok(root.canonicalize()?)
}

/// Where tools and programs lie that are made once: scripts look there, too.
fn cache_folder() -> anyhow::Result<std::path::PathBuf> {
    use anyhow::Context;
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => std::path::PathBuf::from(folder),
        None => std::path::PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?)
            .join(".cache"),
    };
    Ok(cache.join("phalanx"))
}
