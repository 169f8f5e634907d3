//! A part of ours as a process of its own.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use controlplane::Part;
use tokio::time::Instant;

/// How long a start may take, a busy machine and a debug build included.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// How much of its log is told when it ends.
const TOLD_LINES_MAX: usize = 15;

/// A running part. Dropping it kills the process.
pub struct PartProcess {
    part: Part,
    /// Locked, because asking whether it has ended changes what is known of it.
    child: Mutex<Child>,
    /// What it wrote to standard output and standard error, and its kubeconfig.
    files: [PathBuf; 3],
}

impl PartProcess {
    /// Starts the part and returns when it says that it is ready.
    pub fn start(part: Part, nodes: u32, kubeconfig: &str) -> PartProcess {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("phalanx-part-{}-{number}-{part:?}", std::process::id());
        let files = ["out", "err", "kubeconfig"].map(|name| std::env::temp_dir().join(format!("{stem}.{name}")));
        std::fs::write(&files[2], kubeconfig).expect("a file for the kubeconfig");
        let mut command = guarded();
        match part {
            Part::Scheduler => command.arg("scheduler"),
            Part::Controllers => command.arg("controllers"),
            Part::Nodes => command.args(["nodes", "--nodes", &nodes.to_string()]),
        };
        command.arg("--kubeconfig").arg(&files[2]);
        let [out, err] = [0, 1].map(|index| File::create(&files[index]).expect("a file for what a part says"));
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().expect("phalanx can be started");
        let process = PartProcess { part, child: Mutex::new(child), files };
        process.wait_until_ready();
        process
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + READY_WITHIN;
        let is_ready = |said: String| said.starts_with("ready ") && said.ends_with('\n');
        while !std::fs::read_to_string(&self.files[0]).is_ok_and(is_ready) {
            if let Some(ended) = self.ended() {
                panic!("{ended}");
            }
            assert!(Instant::now() < deadline, "{:?} is not ready within {READY_WITHIN:?}:\n{}", self.part, self.log());
            std::thread::sleep(POLL);
        }
    }

    /// What is to be told if it has ended, which it never should.
    pub fn ended(&self) -> Option<String> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.try_wait().expect("a child can be asked for")?;
        Some(format!("{:?} ended with {status}:\n{}", self.part, self.log()))
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.files[1]).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TOLD_LINES_MAX)..].join("\n")
    }
}

/// `phalanx`, ended with this process even where this one has no time to do so.
fn guarded() -> Command {
    let variable = |name: &str| {
        std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: `cargo xtask kube test` does that"))
    };
    let mut command = Command::new(variable("PHALANX_XTASK"));
    command.args(["kube", "guard", "--parent", &std::process::id().to_string(), "--"]).arg(variable("PHALANX_BIN"));
    command
}

impl Drop for PartProcess {
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
