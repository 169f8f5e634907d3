//! Compares Phalanx with the real Kubernetes. `cargo xtask` passes its commands `conformance`, `kube`, `protobuf`, `rbac` and
//! `schema` on to this program.

mod api_server; // kube-apiserver and our server, with the same requests; read this first
mod builder; // scheduling objects of kube-controller-manager and ours
mod cron; // schedules of the CronJob library and ours
mod scheduler_plugins; // filters and scores of kube-scheduler, and ours
mod go_program; // a Go program that calls the library or the plugins
mod protobuf; // objects in protobuf, encoded by Go and decoded by us
mod kube; // the real programs: built, and run as a temporary control plane
mod test_suites; // tests of testkit on the real control plane
mod upstream; // Kubernetes' own integration suites on our components
mod schema; // the schema files of the kinds, from the OpenAPI documents and Go types of Kubernetes
mod rbac; // the ClusterRoles of the guide
mod document; // docs/conformance.md: each requirement and the tests that show it

use clap::{Parser, Subcommand};

/// The command line, in the form of `cargo xtask`, which passes it on.
#[derive(Parser)]
#[command(name = "cargo xtask", about = "Compares Phalanx with the real Kubernetes")]
struct ConformanceCli {
    #[command(subcommand)]
    command: ConformanceCommand,
}

#[derive(Subcommand)]
enum ConformanceCommand {
    /// Writes docs/conformance.md: each requirement and the tests that show it; `api` compares with kube-apiserver
    Conformance(ConformanceArgs),
    /// The protobuf form of the kinds that the server accepts
    #[command(subcommand)]
    Protobuf(ProtobufTask),
    /// The programs of Kubernetes, for the suites that need them
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

/// The comparisons with Kubernetes.
#[derive(clap::Subcommand)]
enum ConformanceSuite {
    /// Sends mutated objects to kube-apiserver and to our server, and compares the responses
    Api(api_server::Args),
    /// Compares Workloads and PodGroups of kube-controller-manager for generated Jobs with ours
    Builder(builder::Args),
    /// Compares the library of CronJobs with our parser on generated schedules
    Cron(cron::Args),
    /// Compares the plugins of kube-scheduler with ours on generated clusters
    Scheduler(scheduler_plugins::Args),
}

/// `cargo xtask protobuf`.
#[derive(Subcommand)]
enum ProtobufTask {
    /// Writes the file of messages and fields from the types of the Go module k8s.io/api
    Table,
    /// Decodes an object with every field, filled and zero, of each kind that the server accepts, and compares it with
    /// its JSON
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
