//! What runs: everything in one process of ours, or the real server with parts beside it.

use anyhow::{Context, ensure};

use super::{Args, System};
use crate::kube::{self, ControlPlane};
use crate::part::{self, Part};
use crate::up::{self, Up};

/// A running system. Dropping it ends all of it.
pub enum Home {
    /// `phalanx up`, its data on disk.
    Embedded(Box<Up>),
    /// The real server, and parts of ours beside it.
    Real {
        /// Dropped first: they talk to the server.
        parts: Vec<Part>,
        control_plane: Box<ControlPlane>,
    },
}

impl Home {
    /// Starts `system` and returns when its parts are ready; `None` where the real programs cannot be had.
    pub(super) fn start(args: &Args, system: System, gates: &str) -> anyhow::Result<Option<Home>> {
        Home::start_with_nodes(args, system, gates, args.nodes)
    }

    /// The same with another number of nodes.
    pub(super) fn start_with_nodes(
        args: &Args,
        system: System,
        gates: &str,
        nodes: u32,
    ) -> anyhow::Result<Option<Home>> {
        let nodes = nodes.to_string();
        let phalanx = part::program(&args.phalanx)?;
        let folder = args.folder.join(system.name());
        if system == System::PhalanxEmbedded {
            // Each start on an empty directory.
            let _ = std::fs::remove_dir_all(&folder);
            let mut plan = up::Plan::new(&phalanx, &folder)?;
            plan.options = ["--nodes", &nodes, "--feature-gates", gates].map(str::to_owned).to_vec();
            plan.options.extend(settings(args)?);
            return Ok(Some(Home::Embedded(Box::new(Up::start(&plan, "127.0.0.1:0")?))));
        }
        ensure!(gates == super::WITH_GROUPS, "the real server is measured with groups only");
        let ours = system == System::Phalanx;
        let without_controllers = if ours { vec!["job-controller"] } else { Vec::new() };
        let plan = kube::Plan { controllers: true, without_controllers, ..kube::Plan::default() };
        if !kube::programs_are_there(&plan.programs())? {
            return Ok(None);
        }
        let control_plane = Box::new(ControlPlane::start("bench-jobs", &plan)?);
        let kubeconfig = control_plane.kubeconfig();
        std::fs::create_dir_all(&folder)?;
        let settings = settings(args)?;
        let start = |name: &'static str, options: &[&str]| {
            let options = [options, &settings.iter().map(String::as_str).collect::<Vec<_>>()].concat();
            Part::start(&phalanx, name, &options, &kubeconfig, &folder)
        };
        // Nobody else wants to lead, here or there.
        let alone = ["--leader-elect=false"];
        let mut parts = vec![start("nodes", &["--nodes", &nodes])?, start("scheduler", &alone)?];
        if ours {
            parts.push(start("controllers", &alone)?);
        }
        Ok(Some(Home::Real { parts, control_plane }))
    }

    /// A new client of the server.
    pub async fn client(&self) -> anyhow::Result<::kube::Client> {
        match self {
            Home::Embedded(up) => up.client().await,
            Home::Real { control_plane, .. } => control_plane.client().await,
        }
    }

    /// The process that has the Job controller.
    pub fn controllers_id(&self) -> u32 {
        match self {
            Home::Embedded(up) => up.id(),
            Home::Real { parts, control_plane } => {
                let ours = parts.iter().find(|part| part.name() == "controllers").map(Part::id);
                ours.or(control_plane.id("kube-controller-manager")).expect("one of the two runs the Jobs")
            }
        }
    }

    /// An error when a process has ended.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        let Home::Real { parts, control_plane } = self else { return Ok(()) };
        control_plane.still_runs()?;
        parts.iter_mut().try_for_each(Part::still_runs)
    }

    /// What the parts said last.
    pub fn last_words(&self) -> String {
        let Home::Real { parts, .. } = self else { return "phalanx up".to_owned() };
        parts.iter().map(|part| format!("{}: {}\n", part.name(), part.last_words())).collect()
    }

    /// Ends all of it.
    pub fn stop(self) -> anyhow::Result<()> {
        match self {
            Home::Embedded(up) => up.stop(),
            Home::Real { parts, control_plane } => {
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
