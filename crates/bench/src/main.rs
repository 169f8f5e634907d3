//! Benchmarks of this repository: `cargo xtask bench --help`.

mod decisions; // bench core: decisions only, no API
mod api_server; // bench api: the API server with its durable store
mod pod_life; // bench life: a pod's whole life, everything in one process
mod jobs; // bench jobs: Jobs from creation to end, our controllers and kube-controller-manager
mod real_kube; // bench kube: kube-apiserver, with kube-scheduler and our scheduler in turn
mod disk_store; // bench store: the store on disk
mod workload_builder; // bench builder: compiling a workload
mod scheduling_cases; // the loads that the benchmarks of scheduling share

use clap::{Parser, Subcommand};

/// The system allocator takes a quarter of the CPU time of a pod's life; docs/decisions/0004 has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command line, in the form of `cargo xtask`, which passes it on.
#[derive(Parser)]
#[command(name = "cargo xtask", about = "Benchmarks of this repository")]
struct BenchCli {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Measures; prints a table and, with --json, one object per line
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Bench {
    /// The scheduler's decisions alone, without the API: milliseconds per group for each shape
    Core(decisions::Args),
    /// The API server with its durable store: creates and updates per second, start-up, memory
    Api(api_server::Args),
    /// A pod's whole life (create, bind, run, succeed, delete), everything in one process: CPU per pod
    Life(pod_life::Args),
    /// Jobs from creation to completion: Jobs per second, first pods, writes, memory; ours and kube-controller-manager
    Jobs(jobs::Args),
    /// The same groups on kube-apiserver with kube-scheduler and our scheduler in turn, then on our own server
    Kube(real_kube::Args),
    /// The store on disk: durable creates and updates per second, and the duration of a start
    Store(disk_store::Args),
    /// The workload builder: microseconds to validate and to compile one workload
    Builder(workload_builder::Args),
}

fn main() -> std::process::ExitCode {
    supervisor::main(|| {
        let BenchCli { command: BenchCommand::Bench(bench) } = BenchCli::parse();
        // A debug build would not measure what users run.
        anyhow::ensure!(!cfg!(debug_assertions), "this is a debug build: use `cargo xtask bench`");
        match &bench {
            Bench::Core(args) => decisions::run(args),
            Bench::Api(args) => api_server::run(args),
            Bench::Life(args) => pod_life::run(args),
            Bench::Jobs(args) => jobs::run(args),
            Bench::Kube(args) => real_kube::run(args),
            Bench::Store(args) => disk_store::run(args),
            Bench::Builder(args) => workload_builder::run(args),
        }
    })
}
