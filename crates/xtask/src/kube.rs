//! The real Kubernetes: its programs built from the Go module in tests/kube, and a throw-away control plane of them.

mod build; // the programs, built into the user's cache folder
mod control_plane; // etcd, kube-apiserver and more, for as long as a value lives
mod guard; // a program that does not outlive who started it
mod suites; // what is checked against the real thing
mod upstream; // Kubernetes' own integration suites on our components

use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

pub use control_plane::{ControlPlaneConfig, KubeControlPlane, TOKEN};
pub use guard::command as guarded;
pub use suites::runs_on_kube;
pub use upstream::{SuiteRecord, records as suite_records};

/// The release; tests/kube/go.mod pins the same.
pub const VERSION: &str = "1.37.1";

/// What `cargo xtask kube` can do.
#[derive(clap::Subcommand)]
pub enum KubeTask {
    /// Builds the real programs of Kubernetes 1.37.1 into the cache folder, where they are not there yet
    Build(build::Args),
    /// Runs a throw-away control plane on loopback until Ctrl-C, SIGTERM or the end of its parent
    Up(KubeUpArgs),
    /// Runs the suites that hold this project against the real control plane
    Test(suites::Args),
    /// Runs Kubernetes' own integration suites on our components
    Upstream(upstream::Args),
    /// Runs a program that ends with its parent
    #[command(hide = true)]
    Guard(guard::Args),
}

/// Options of `cargo xtask kube up`.
#[derive(clap::Args)]
pub struct KubeUpArgs {
    /// Also run kube-scheduler
    #[arg(long)]
    scheduler: bool,
    /// Also run kube-controller-manager
    #[arg(long)]
    controllers: bool,
    /// Make this many ready Nodes (8 CPUs, 32 GiB, 110 pods each), which no kubelet stands behind
    #[arg(long, default_value_t = 0)]
    nodes: usize,
}

/// Runs what was asked for.
pub fn run(task: &KubeTask) -> anyhow::Result<()> {
    match task {
        KubeTask::Build(args) => build::run(args),
        KubeTask::Up(args) => run_up(args),
        KubeTask::Test(args) => suites::run(args),
        KubeTask::Upstream(args) => upstream::run(args),
        KubeTask::Guard(args) => guard::run(args),
    }
}

/// Whether the programs are there, building what is missing. Where Go is missing it says so, and CI must not rest on that.
pub fn ensure_programs(names: &[&str]) -> anyhow::Result<bool> {
    build::ensure_built(names, build::PARALLEL)
}

/// Runs every suite of Kubernetes on each of its homes; with `record` the results go into docs/upstream.yaml.
pub fn run_upstream(record: bool) -> anyhow::Result<()> {
    upstream::run(&upstream::Args::all_suites(record))
}

/// Whether there is such a suite of Kubernetes.
pub fn has_suite(name: &str) -> bool {
    upstream::has_suite(name)
}

/// Whether Go is there. Where it is missing it says so, and CI must not rest on that.
pub fn has_go() -> anyhow::Result<bool> {
    build::has_go()
}

fn run_up(args: &KubeUpArgs) -> anyhow::Result<()> {
    // Whoever started this may be killed and not get to say goodbye.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let mut plan = ControlPlaneConfig {
        scheduler: args.scheduler,
        controllers: args.controllers,
        ..ControlPlaneConfig::default()
    };
    plan.nodes = args.nodes;
    if !ensure_programs(&plan.required_programs())? {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Before the programs start: a signal that comes meanwhile must not leave them behind.
    let mut terminate = runtime.block_on(async { signal(SignalKind::terminate()) })?;
    let mut interrupt = runtime.block_on(async { signal(SignalKind::interrupt()) })?;
    let mut control_plane = KubeControlPlane::start("kube-up", &plan)?;
    println!("ready https://{} kubeconfig={}", control_plane.address(), control_plane.kubeconfig().display());
    runtime.block_on(async {
        loop {
            tokio::select! {
                biased;
                _ = terminate.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                () = tokio::time::sleep(Duration::from_secs(1)) => control_plane.check_running().context("kube up")?,
            }
        }
    })
}
