//! The programs of Kubernetes: builds them, runs a temporary control plane of them, and the suites on it.

use std::time::Duration;

use anyhow::Context;
use supervisor::kubernetes::{
    ControlPlaneConfig, KubeControlPlane, PARALLEL, PROGRAMS, ensure_built, ensure_programs, programs_folder,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{test_suites, upstream};

/// The subcommands of `cargo xtask kube`.
#[derive(clap::Subcommand)]
pub enum KubeTask {
    /// Builds the programs of Kubernetes 1.37.1 into the cache folder, unless they exist
    Build(KubeBuildArgs),
    /// Runs a temporary control plane on loopback until Ctrl-C, SIGTERM or the end of its parent
    Up(KubeUpArgs),
    /// Runs the suites that compare this project with the real control plane
    Test(test_suites::Args),
    /// Runs Kubernetes' own integration suites on our components
    Upstream(upstream::Args),
}

/// Options of `cargo xtask kube build`.
#[derive(clap::Args)]
pub struct KubeBuildArgs {
    /// Only this program (may be given several times)
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(PROGRAMS.iter().map(|(name, _)| *name)))]
    only: Vec<String>,
    /// How many packages Go compiles at a time
    #[arg(long, default_value_t = PARALLEL)]
    parallel: u32,
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
    /// Create this many ready Nodes (8 CPUs, 32 GiB, 110 pods each) without kubelets
    #[arg(long, default_value_t = 0)]
    nodes: usize,
}

/// Runs the subcommand.
pub fn run(task: &KubeTask) -> anyhow::Result<()> {
    match task {
        KubeTask::Build(args) => run_build(args),
        KubeTask::Up(args) => run_up(args),
        KubeTask::Test(args) => test_suites::run(args),
        KubeTask::Upstream(args) => upstream::run(args),
    }
}

/// Builds the programs and prints their paths.
fn run_build(args: &KubeBuildArgs) -> anyhow::Result<()> {
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let names: Vec<&str> = PROGRAMS.iter().map(|(name, _)| *name).filter(|name| wanted(name)).collect();
    if ensure_built(&names, args.parallel)? {
        let folder = programs_folder()?;
        names.iter().for_each(|name| println!("{}", folder.join(name).display()));
    }
    Ok(())
}

fn run_up(args: &KubeUpArgs) -> anyhow::Result<()> {
    // The parent may be killed without stopping this process.
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
    // Before the programs start, so that an early signal does not leave them running.
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
