//! `phalanx scheduler`, `controllers` or `nodes` as a child process, on a server that is there already.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::guard::guarded;

/// How long a part may take to start: it makes the nodes, too.
const START_TIMEOUT_SECONDS: u64 = 60;
const POLL: Duration = Duration::from_millis(20);
/// How much of a log is told when its process fails.
const MAX_LOG_TAIL_LINES: usize = 15;

/// A part of ours as a process. Dropping it kills it.
pub struct SpawnedComponent {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl SpawnedComponent {
    /// Starts the part and returns when it says that it is ready.
    pub fn start(
        phalanx: &Path,
        name: &'static str,
        options: &[&str],
        kubeconfig: &Path,
        folder: &Path,
    ) -> anyhow::Result<SpawnedComponent> {
        let (said, log) = (folder.join(format!("{name}.stdout")), folder.join(format!("{name}.stderr")));
        let child = guarded(phalanx)?
            .arg(name)
            .args(options)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stdout(File::create(&said)?)
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("starting phalanx {name}"))?;
        let mut part = SpawnedComponent { name, child, log };
        let deadline = Instant::now() + Duration::from_secs(START_TIMEOUT_SECONDS);
        while !std::fs::read_to_string(&said)?.starts_with("ready ") {
            part.check_running()?;
            if Instant::now() > deadline {
                bail!("phalanx {name} was not ready within {START_TIMEOUT_SECONDS} s:\n{}", part.log_tail());
            }
            std::thread::sleep(POLL);
        }
        Ok(part)
    }

    /// `nodes`, `scheduler` or `controllers`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The line with which it said that it is ready.
    pub fn ready_line(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.log.with_extension("stdout"))?.trim_end().to_owned())
    }

    /// An error when it has ended, with its last words.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("phalanx {} ended with {status}:\n{}", self.name, self.log_tail()),
        }
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        tail_of(&self.log)
    }
}

impl Drop for SpawnedComponent {
    fn drop(&mut self) {
        // Both fail only when the process has already ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program under test, which must be there.
pub fn resolve_program(path: &Path) -> anyhow::Result<PathBuf> {
    let advice = || format!("--phalanx {}: build it first, with cargo build --release", path.display());
    path.canonicalize().with_context(advice)
}

/// The end of a log, for people who want to know why its process ended.
pub fn tail_of(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(MAX_LOG_TAIL_LINES)..].join("\n")
}
