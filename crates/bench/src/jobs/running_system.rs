//! What runs: everything in one process of ours, or the real server with parts beside it.

use anyhow::{Context, ensure};
use supervisor::kubernetes::{self, ControlPlaneConfig, KubeControlPlane};
use supervisor::{SupervisedProcess, UpConfig, UpProcess, resolve_program, start_component};

use super::{Args, JobsSystem};

/// A running system. Dropping it ends all of it.
pub enum RunningSystem {
    /// `phalanx up`, its data on disk.
    Embedded(Box<UpProcess>),
    /// The real server, and parts of ours beside it.
    OnKube {
        /// Dropped first: they talk to the server.
        components: Vec<SupervisedProcess>,
        control_plane: Box<KubeControlPlane>,
    },
}

impl RunningSystem {
    /// Starts `system` and returns when its parts are ready; `None` where the real programs cannot be had.
    pub(super) fn start(args: &Args, system: JobsSystem, gates: &str) -> anyhow::Result<Option<RunningSystem>> {
        RunningSystem::start_with_nodes(args, system, gates, args.nodes)
    }

    /// The same with another number of nodes.
    pub(super) fn start_with_nodes(
        args: &Args,
        system: JobsSystem,
        gates: &str,
        nodes: u32,
    ) -> anyhow::Result<Option<RunningSystem>> {
        let nodes = nodes.to_string();
        let phalanx = resolve_program(&args.phalanx)?;
        let folder = args.folder.join(system.name());
        if system == JobsSystem::PhalanxEmbedded {
            // Each start on an empty directory.
            let _ = std::fs::remove_dir_all(&folder);
            let mut plan = UpConfig::new(&phalanx, &folder)?;
            plan.options = ["--nodes", &nodes, "--feature-gates", gates].map(str::to_owned).to_vec();
            plan.options.extend(settings(args)?);
            return Ok(Some(RunningSystem::Embedded(Box::new(UpProcess::start(&plan, "127.0.0.1:0")?))));
        }
        ensure!(gates == super::WITH_GROUPS, "the real server is measured with groups only");
        let ours = system == JobsSystem::Phalanx;
        let without_controllers = if ours { vec!["job-controller"] } else { Vec::new() };
        let plan = ControlPlaneConfig {
            controllers: true,
            disabled_controllers: without_controllers,
            ..ControlPlaneConfig::default()
        };
        if !kubernetes::ensure_programs(&plan.required_programs())? {
            return Ok(None);
        }
        let control_plane = Box::new(KubeControlPlane::start("bench-jobs", &plan)?);
        let kubeconfig = control_plane.kubeconfig();
        std::fs::create_dir_all(&folder)?;
        let settings = settings(args)?;
        let start = |name: &'static str, options: &[&str]| {
            let options = [options, &settings.iter().map(String::as_str).collect::<Vec<_>>()].concat();
            start_component(&phalanx, name, &options, &kubeconfig, &folder)
        };
        // Nobody else wants to lead, here or there.
        let alone = ["--leader-elect=false"];
        let mut parts = vec![start("nodes", &["--nodes", &nodes])?, start("scheduler", &alone)?];
        if ours {
            parts.push(start("controllers", &alone)?);
        }
        Ok(Some(RunningSystem::OnKube { components: parts, control_plane }))
    }

    /// A new client of the server.
    pub async fn client(&self) -> anyhow::Result<::kube::Client> {
        match self {
            RunningSystem::Embedded(up) => up.client().await,
            RunningSystem::OnKube { control_plane, .. } => control_plane.client().await,
        }
    }

    /// The process that has the Job controller.
    pub fn controllers_pid(&self) -> u32 {
        match self {
            RunningSystem::Embedded(up) => up.pid(),
            RunningSystem::OnKube { components: parts, control_plane } => {
                let ours = parts.iter().find(|part| part.name() == "controllers").map(SupervisedProcess::pid);
                ours.or(control_plane.pid("kube-controller-manager")).expect("one of the two runs the Jobs")
            }
        }
    }

    /// An error when a process has ended.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        let RunningSystem::OnKube { components: parts, control_plane } = self else { return Ok(()) };
        control_plane.check_running()?;
        parts.iter_mut().try_for_each(SupervisedProcess::check_running)
    }

    /// What the parts said last.
    pub fn log_tail(&self) -> String {
        let RunningSystem::OnKube { components: parts, .. } = self else { return "phalanx up".to_owned() };
        parts.iter().map(|part| format!("{}: {}\n", part.name(), part.log_tail())).collect()
    }

    /// Ends all of it.
    pub fn stop(self) -> anyhow::Result<()> {
        match self {
            RunningSystem::Embedded(up) => up.stop(),
            RunningSystem::OnKube { components: parts, control_plane } => {
                drop(parts);
                drop(control_plane);
                Ok(())
            }
        }
    }
}

fn settings(args: &Args) -> anyhow::Result<Vec<String>> {
    let Some(file) = &args.config else { return Ok(Vec::new()) };
    let file = file.canonicalize().with_context(|| format!("--config {}", file.display()))?;
    Ok(vec!["--config".to_owned(), file.display().to_string()])
}
