//! The system under test: `phalanx up`, or kube-apiserver with components.

use anyhow::{Context, ensure};
use supervisor::kubernetes::{self, ControlPlaneConfig, KubeControlPlane};
use supervisor::{SupervisedProcess, UpConfig, UpProcess, resolve_program, start_component};

use super::{Args, JobsSystem};

/// A running system. Dropping it ends its processes.
pub enum RunningSystem {
    /// `phalanx up`, its data on disk.
    Embedded(Box<UpProcess>),
    /// kube-apiserver, with components of ours.
    OnKube {
        /// Dropped first, because they are clients of the server.
        components: Vec<SupervisedProcess>,
        control_plane: Box<KubeControlPlane>,
    },
}

impl RunningSystem {
    /// Starts `system` and returns when its components are ready; `None` when the real programs are not available.
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
            // Each start uses an empty directory.
            let _ = std::fs::remove_dir_all(&folder);
            let mut plan = UpConfig::new(&phalanx, &folder)?;
            plan.options = ["--nodes", &nodes, "--feature-gates", gates].map(str::to_owned).to_vec();
            plan.options.extend(settings(args)?);
            return Ok(Some(RunningSystem::Embedded(Box::new(UpProcess::start(&plan, "127.0.0.1:0")?))));
        }
        ensure!(gates == super::WITH_GROUPS, "kube-apiserver is measured with groups only");
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
        // There is no other replica, so no leader election.
        let no_election = ["--leader-elect=false"];
        let mut components = vec![start("nodes", &["--nodes", &nodes])?, start("scheduler", &no_election)?];
        if ours {
            components.push(start("controllers", &no_election)?);
        }
        Ok(Some(RunningSystem::OnKube { components, control_plane }))
    }

    /// A new client of the server.
    pub async fn client(&self) -> anyhow::Result<::kube::Client> {
        match self {
            RunningSystem::Embedded(up) => up.client().await,
            RunningSystem::OnKube { control_plane, .. } => control_plane.client().await,
        }
    }

    /// The process of the Job controller.
    pub fn controllers_pid(&self) -> u32 {
        match self {
            RunningSystem::Embedded(up) => up.pid(),
            RunningSystem::OnKube { components, control_plane } => {
                let ours =
                    components.iter().find(|component| component.name() == "controllers").map(SupervisedProcess::pid);
                ours.or(control_plane.pid("kube-controller-manager")).expect("one of the two runs the Job controller")
            }
        }
    }

    /// An error if a process has ended.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        let RunningSystem::OnKube { components, control_plane } = self else { return Ok(()) };
        control_plane.check_running()?;
        components.iter_mut().try_for_each(SupervisedProcess::check_running)
    }

    /// The last log lines of the components.
    pub fn log_tail(&self) -> String {
        let RunningSystem::OnKube { components, .. } = self else { return "phalanx up".to_owned() };
        components.iter().map(|component| format!("{}: {}\n", component.name(), component.log_tail())).collect()
    }

    /// Stops all processes.
    pub fn stop(self) -> anyhow::Result<()> {
        match self {
            RunningSystem::Embedded(up) => up.stop(),
            RunningSystem::OnKube { components, control_plane } => {
                drop(components);
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
