//! Checks, benchmarks and generators of this repository: `cargo xtask --help`.

mod bench_core; // decisions only, no API
mod schema; // reads the Kubernetes schema file from the Go module

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, benchmarks and generators of this repository")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measures; prints a table and, with --json, one object a line
    #[command(subcommand)]
    Bench(Bench),
    /// Writes the compact schema file from the Go module k8s.io/kubernetes
    Schema(schema::Args),
}

#[derive(Subcommand)]
enum Bench {
    /// The scheduler's decisions alone, no API: milliseconds per group for each shape
    Core(bench_core::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Bench(Bench::Core(args)) => bench_core::run(&args),
        Task::Schema(args) => schema::run(&args),
    }
}
