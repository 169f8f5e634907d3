//! A part of ours as a process of its own.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use controlplane::Component;
use tokio::time::Instant;

use super::kube_control_plane::Tenancy;

/// How long a start may take, a busy machine and a debug build included.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// How much of its log is told when it ends.
const MAX_LOG_LINES: usize = 15;

/// The settings that a part has by itself.
const DEFAULT_CONFIGURATION: &str = "apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\n";
/// Settings with shorter waits: [`super::Home::pod_backoff`] tells tests.
const FAST_CONFIGURATION: &str = "\
apiVersion: phalanx.dev/v1alpha1
kind: Configuration
controllers:
  podBackoff: 1s
  maxPodBackoff: 1m
";

/// A running part. Dropping it kills the process.
pub struct ComponentProcess {
    component: Component,
    /// Locked, because asking whether it has ended changes what is known of it.
    child: Mutex<Child>,
    /// What it wrote to standard output and standard error, its kubeconfig, its configuration.
    files: [PathBuf; 4],
}

impl ComponentProcess {
    /// Starts the part and returns when it says that it is ready.
    pub fn start(part: Component, nodes: u32, extent: Tenancy, kubeconfig: &str) -> ComponentProcess {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("phalanx-part-{}-{number}-{part:?}", std::process::id());
        let files =
            ["out", "err", "kubeconfig", "config"].map(|name| std::env::temp_dir().join(format!("{stem}.{name}")));
        std::fs::write(&files[2], kubeconfig).expect("a file for the kubeconfig");
        std::fs::write(&files[3], if extent == Tenancy::Shared { FAST_CONFIGURATION } else { DEFAULT_CONFIGURATION })
            .expect("a file for settings");
        let mut command = guarded_command();
        match part {
            // Without election: a part that is started again must not wait for the end of its own lease.
            Component::Scheduler => command.args(["scheduler", "--leader-elect=false"]),
            Component::Controllers => command.args(["controllers", "--leader-elect=false"]),
            Component::Nodes => command.args(["nodes", "--nodes", &nodes.to_string()]),
        };
        if (part, extent) == (Component::Controllers, Tenancy::Shared) {
            command.args(["--controllers", "job,cronjob,ttl,podgc,podgroup-protection"]);
        }
        command.arg("--kubeconfig").arg(&files[2]).arg("--config").arg(&files[3]);
        let [out, err] = [0, 1].map(|index| File::create(&files[index]).expect("a file for what a part says"));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = spawn(command).expect("phalanx can be started");
        let process = ComponentProcess { component: part, child: Mutex::new(child), files };
        process.wait_until_ready();
        process
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + READY_TIMEOUT;
        let is_ready = |said: String| said.starts_with("ready ") && said.ends_with('\n');
        while !std::fs::read_to_string(&self.files[0]).is_ok_and(is_ready) {
            if let Some(ended) = self.exit_report() {
                panic!("{ended}");
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

    /// What is to be told if it has ended, which it never should.
    pub fn exit_report(&self) -> Option<String> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.try_wait().expect("a child can be asked for")?;
        Some(format!("{:?} ended with {status}:\n{}", self.component, self.log_tail()))
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.files[1]).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(MAX_LOG_LINES)..].join("\n")
    }
}

/// Starts a program from a thread that lives as long as this process. The guard ends it with the thread that started it,
/// and that of a test ends before other tests that share the part do.
fn spawn(command: Command) -> std::io::Result<Child> {
    type SpawnRequest = (Command, mpsc::Sender<std::io::Result<Child>>);
    static STARTER: OnceLock<mpsc::Sender<SpawnRequest>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (asks, asked) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, answer) in asked {
                // Whoever asked waits for it.
                let _ = answer.send(command.spawn());
            }
        });
        asks
    });
    let (answer, answered) = mpsc::channel();
    starter.send((command, answer)).expect("the starter never ends");
    answered.recv().expect("the starter answers")
}

/// `phalanx`, ended with this process even where this one has no time to do so.
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
        // All fail only where there is nothing left to be done.
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
        for path in &self.files {
            let _ = std::fs::remove_file(path);
        }
    }
}
