//! A component as a process.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use controlplane::Component;
use tokio::time::Instant;

use super::kube_control_plane::Tenancy;

/// The time limit of a start, on a busy machine and with a debug build.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// How much of its log a report includes.
const MAX_LOG_LINES: usize = 15;

/// A configuration with default settings.
const DEFAULT_CONFIGURATION: &str = "apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\n";
/// A configuration with a shorter backoff, which tests read with [`super::TestCluster::pod_backoff`].
const FAST_CONFIGURATION: &str = "\
apiVersion: phalanx.dev/v1alpha1
kind: Configuration
controllers:
  podBackoff: 1s
  maxPodBackoff: 1m
";

/// A running component. Dropping it kills the process.
pub struct ComponentProcess {
    component: Component,
    /// Locked, because `try_wait` needs a mutable reference.
    child: Mutex<Child>,
    /// Its standard output, standard error, kubeconfig and configuration.
    files: [PathBuf; 4],
}

impl ComponentProcess {
    /// Starts the component and returns when it reports that it is ready.
    pub fn start(component: Component, nodes: u32, tenancy: Tenancy, kubeconfig: &str) -> ComponentProcess {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("phalanx-component-{}-{number}-{component:?}", std::process::id());
        let files =
            ["out", "err", "kubeconfig", "config"].map(|name| std::env::temp_dir().join(format!("{stem}.{name}")));
        std::fs::write(&files[2], kubeconfig).expect("the kubeconfig can be written");
        std::fs::write(&files[3], if tenancy == Tenancy::Shared { FAST_CONFIGURATION } else { DEFAULT_CONFIGURATION })
            .expect("the configuration can be written");
        let mut command = guarded_command();
        match component {
            // Without leader election: a restarted component must not wait until its own Lease expires.
            Component::Scheduler => command.args(["scheduler", "--leader-elect=false"]),
            Component::Controllers => command.args(["controllers", "--leader-elect=false"]),
            Component::Nodes => command.args(["nodes", "--nodes", &nodes.to_string()]),
        };
        if (component, tenancy) == (Component::Controllers, Tenancy::Shared) {
            command.args(["--controllers", "job,cronjob,ttl,podgc,podgroup-protection"]);
        }
        command.arg("--kubeconfig").arg(&files[2]).arg("--config").arg(&files[3]);
        let [out, err] = [0, 1].map(|index| File::create(&files[index]).expect("the log files can be created"));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = spawn(command).expect("phalanx can be started");
        let process = ComponentProcess { component, child: Mutex::new(child), files };
        process.wait_until_ready();
        process
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + READY_TIMEOUT;
        let is_ready = |output: String| output.starts_with("ready ") && output.ends_with('\n');
        while !std::fs::read_to_string(&self.files[0]).is_ok_and(is_ready) {
            if let Some(report) = self.exit_report() {
                panic!("{report}");
            }
            assert!(
                Instant::now() < deadline,
                "{:?} is not ready within {READY_TIMEOUT:?}:\n{}",
                self.component,
                self.log_tail()
            );
            std::thread::sleep(POLL);
        }
    }

    /// Exit status and log if it has ended, which it never should.
    pub fn exit_report(&self) -> Option<String> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.try_wait().expect("the status of a child can be read")?;
        Some(format!("{:?} ended with {status}:\n{}", self.component, self.log_tail()))
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.files[1]).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(MAX_LOG_LINES)..].join("\n")
    }
}

/// Spawns a process from a thread that lives as long as this process. The guard kills the process when the thread that
/// spawned it ends, and the thread of a test ends before other tests that share the component.
fn spawn(command: Command) -> std::io::Result<Child> {
    type SpawnRequest = (Command, mpsc::Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<SpawnRequest>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, reply) in requests {
                // The requester waits for the reply.
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let (reply, result) = mpsc::channel();
    spawner.send((command, reply)).expect("the spawner never ends");
    result.recv().expect("the spawner replies")
}

/// `phalanx` under a guard that kills it when this process ends, even if this process is killed.
fn guarded_command() -> Command {
    let variable = |name: &str| {
        std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: `cargo xtask kube test` does that"))
    };
    let mut command = Command::new(variable("PHALANX_GUARD"));
    command.args(["guard-child", &std::process::id().to_string()]).arg(variable("PHALANX_BIN"));
    command
}

impl Drop for ComponentProcess {
    fn drop(&mut self) {
        // These fail only if there is nothing left to clean up.
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
        for path in &self.files {
            let _ = std::fs::remove_file(path);
        }
    }
}
