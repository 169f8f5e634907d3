//! Compares Phalanx with the real Kubernetes. `cargo xtask` passes its commands `conformance`, `kube`, `protobuf`, `rbac` and
//! `schema` on to this program.

mod api_server; // kube-apiserver and ours, the same requests; read this first
mod builder; // what kube-controller-manager makes of Jobs, and what we do
mod cron; // schedules as the library behind CronJobs reads them, and as we do
mod scheduler_plugins; // filters and scores of kube-scheduler, and ours
mod go_program; // a Go program with the library's or the plugins' responses
mod protobuf; // objects in protobuf, as Go writes them and as we read them
mod kube; // the real programs: built, and run as a throw-away control plane
mod test_suites; // tests of testkit on the real control plane
mod upstream; // Kubernetes' own integration suites on our components
mod schema; // the schema files of the kinds, from the OpenAPI documents and Go types of Kubernetes
mod rbac; // the ClusterRoles of the guide
mod document; // docs/conformance.md: each requirement and the tests that show it

use clap::{Parser, Subcommand};

/// The command line, with the same words as `cargo xtask`, which passes them on.
#[derive(Parser)]
#[command(name = "cargo xtask", about = "Compares Phalanx with the real Kubernetes")]
struct ConformanceCli {
    #[command(subcommand)]
    command: ConformanceCommand,
}

#[derive(Subcommand)]
enum ConformanceCommand {
    /// Writes docs/conformance.md: each requirement and the tests that show it; `api` compares with the real server
    Conformance(ConformanceArgs),
    /// The protobuf form of the kinds that the server takes
    #[command(subcommand)]
    Protobuf(ProtobufTask),
    /// The real Kubernetes programs, for the suites that run against the real thing
    #[command(subcommand)]
    Kube(kube::KubeTask),
    /// Writes the ClusterRoles of docs/guides/cluster.md from the control loops
    Rbac(rbac::Args),
    /// Writes the schema files of the registry's kinds from the Go modules of Kubernetes
    Schema,
}

/// Options of `cargo xtask conformance`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
struct ConformanceArgs {
    /// Changes nothing; fails when the file is not up to date
    #[arg(long)]
    check: bool,
    #[command(subcommand)]
    suite: Option<ConformanceSuite>,
}

/// What is held against the real Kubernetes.
#[derive(clap::Subcommand)]
enum ConformanceSuite {
    /// Sends mutated objects to the real kube-apiserver and to ours, and compares what they say
    Api(api_server::Args),
    /// Lets the real controllers make Workloads and PodGroups of generated Jobs, and compares them with ours
    Builder(builder::Args),
    /// Asks the library behind CronJobs and our parser about generated schedules, and compares what they say
    Cron(cron::Args),
    /// Asks the real kube-scheduler's plugins and ours about generated clusters, and compares verdicts and scores
    Scheduler(scheduler_plugins::Args),
}

/// `cargo xtask protobuf`.
#[derive(Subcommand)]
enum ProtobufTask {
    /// Writes the file of messages and fields from the types of the Go module k8s.io/api
    Table,
    /// Reads an object with every field, filled and zero, of each kind that the server takes, and compares it with its
    /// JSON
    Check,
}

fn main() -> std::process::ExitCode {
    supervisor::main(|| match ConformanceCli::parse().command {
        ConformanceCommand::Conformance(args) => run_conformance(&args),
        ConformanceCommand::Protobuf(ProtobufTask::Table) => protobuf::table::write(),
        ConformanceCommand::Protobuf(ProtobufTask::Check) => protobuf::check(),
        ConformanceCommand::Kube(task) => kube::run(&task),
        ConformanceCommand::Rbac(args) => rbac::run(&args),
        ConformanceCommand::Schema => schema::run(),
    })
}

fn run_conformance(args: &ConformanceArgs) -> anyhow::Result<()> {
    match &args.suite {
        Some(ConformanceSuite::Api(args)) => api_server::run(args),
        Some(ConformanceSuite::Builder(args)) => builder::run(args),
        Some(ConformanceSuite::Cron(args)) => cron::run(args),
        Some(ConformanceSuite::Scheduler(args)) => scheduler_plugins::run(args),
        None => document::update(args.check),
    }
}
