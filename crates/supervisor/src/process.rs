//! A supervised child process: output in files, readiness, an error with the log's end, killed on drop.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// The limit for a process to be gone after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);
/// How many lines of a log an error has.
const MAX_LOG_TAIL_LINES: usize = 15;

/// A running process. Dropping it kills the process.
#[derive(Debug)]
pub struct SupervisedProcess {
    name: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl SupervisedProcess {
    /// Starts `command`, mostly one of [`crate::guard::guarded`]. Its output goes to `NAME.stdout` and `NAME.stderr` in
    /// `folder`, which is created if it is missing.
    pub fn spawn(name: &str, mut command: Command, folder: &Path) -> anyhow::Result<SupervisedProcess> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let [stdout, stderr] = ["stdout", "stderr"].map(|stream| folder.join(format!("{name}.{stream}")));
        let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        command.stdin(Stdio::null()).stdout(create(&stdout)?).stderr(create(&stderr)?);
        let child = spawn_on_lasting_thread(command).with_context(|| format!("starting {name}"))?;
        Ok(SupervisedProcess { name: name.to_owned(), child, stdout, stderr })
    }

    /// The name that errors and files have.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output so far.
    pub fn stdout(&self) -> anyhow::Result<String> {
        std::fs::read_to_string(&self.stdout).with_context(|| self.stdout.display().to_string())
    }

    /// Standard error so far.
    pub fn stderr(&self) -> anyhow::Result<String> {
        std::fs::read_to_string(&self.stderr).with_context(|| self.stderr.display().to_string())
    }

    /// The end of standard error.
    pub fn log_tail(&self) -> String {
        let log = self.stderr().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(MAX_LOG_TAIL_LINES)..].join("\n")
    }

    /// Waits for a line `ready …` on standard output and returns what follows the word.
    pub fn wait_until_ready(&mut self, timeout: Duration) -> anyhow::Result<String> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(line) = ready_line(&self.stdout()?) {
                return Ok(line.to_owned());
            }
            self.check_running()?;
            if Instant::now() > deadline {
                bail!("{} was not ready within {} s:\n{}", self.name, timeout.as_secs(), self.log_tail());
            }
            std::thread::sleep(POLL);
        }
    }

    /// What follows `ready ` in the line that the process has printed.
    pub fn ready_line(&self) -> anyhow::Result<String> {
        Ok(ready_line(&self.stdout()?).with_context(|| format!("{} is not ready", self.name))?.to_owned())
    }

    /// An error with the end of the log if the process has ended.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, self.log_tail()),
        }
    }

    /// Whether the process has not ended yet.
    pub fn is_running(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for the end; `None` if the process still runs at `deadline`.
    pub fn wait(&mut self, deadline: Instant) -> anyhow::Result<Option<ExitStatus>> {
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(Some(status)),
                None if Instant::now() > deadline => return Ok(None),
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// SIGKILL, then waits for the end.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        let status = self.wait(Instant::now() + KILL_TIMEOUT)?;
        ensure!(status.is_some(), "{} still runs {} s after SIGKILL", self.name, KILL_TIMEOUT.as_secs());
        Ok(())
    }

    /// Waits until standard error has `text`.
    pub fn wait_for_log(&self, text: &str, timeout: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + timeout;
        while !self.stderr()?.contains(text) {
            ensure!(Instant::now() < deadline, "{} did not log {text:?}:\n{}", self.name, self.log_tail());
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// SIGTERM, then waits for the end. Its output can still be read.
    pub fn stop(&mut self, timeout: Duration) -> anyhow::Result<ExitStatus> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.wait(Instant::now() + timeout)?;
        status.with_context(|| format!("{} did not stop on SIGTERM", self.name))
    }

    /// SIGTERM, then waits for the end, which must be a success within `timeout`.
    pub fn terminate(mut self, timeout: Duration) -> anyhow::Result<()> {
        let status = self.stop(timeout)?;
        ensure!(status.success(), "{} ended with {status} on SIGTERM", self.name);
        Ok(())
    }
}

impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Spawns on a thread that lives as long as this process. The system ends a guarded program with the thread that spawned
/// it, and the thread of a test ends before other tests that share the process.
fn spawn_on_lasting_thread(command: Command) -> std::io::Result<Child> {
    type SpawnRequest = (Command, mpsc::Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<SpawnRequest>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, reply) in requests {
                // Fails only if the caller no longer waits, which it does.
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let (reply, replies) = mpsc::channel();
    spawner.send((command, reply)).expect("the spawner runs as long as the process");
    replies.recv().expect("the spawner replies to every request")
}

/// What follows `ready ` in the first such line that is complete.
fn ready_line(output: &str) -> Option<&str> {
    let complete = &output[..output.rfind('\n')?];
    complete.lines().find_map(|line| line.strip_prefix("ready "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::{SupervisedProcess, ready_line};
    use crate::ScratchDir;

    fn shell(name: &str, script: &str, folder: &ScratchDir) -> SupervisedProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        SupervisedProcess::spawn(name, command, folder.path()).unwrap()
    }

    #[test]
    fn the_ready_line_is_read_only_once_it_is_complete() {
        assert_eq!(ready_line("ready https://127.0.0.1:6443"), None);
        assert_eq!(ready_line("starting\nready https://127.0.0.1:6443\n"), Some("https://127.0.0.1:6443"));
    }

    #[test]
    fn a_process_is_ready_when_it_prints_so_and_killed_when_dropped() {
        let folder = ScratchDir::new("supervisor-ready").unwrap();
        let mut process = shell("server", "echo ready here; exec sleep 60", &folder);
        assert_eq!(process.wait_until_ready(Duration::from_secs(20)).unwrap(), "here");
        let running = format!("/proc/{}", process.pid());
        drop(process);
        assert!(!std::path::Path::new(&running).exists());
    }

    #[test]
    fn a_process_that_ends_early_is_an_error_with_the_end_of_its_log() {
        let folder = ScratchDir::new("supervisor-early").unwrap();
        let mut process = shell("server", "echo the port is taken >&2; exit 3", &folder);
        let error = process.wait_until_ready(Duration::from_secs(20)).unwrap_err().to_string();
        assert_eq!(error, "server ended with exit status: 3:\nthe port is taken");
    }

    #[test]
    fn a_stopped_process_has_an_exit_code_and_its_log() {
        let folder = ScratchDir::new("supervisor-stop").unwrap();
        let script = "trap 'echo stopping >&2; exit 4' TERM; echo started >&2; while :; do sleep 0.05; done";
        let mut process = shell("server", script, &folder);
        let timeout = Duration::from_secs(20);
        process.wait_for_log("started", timeout).unwrap();
        assert_eq!(process.stop(timeout).unwrap().code(), Some(4));
        assert_eq!(process.stderr().unwrap(), "started\nstopping\n");
        let error = process.wait_for_log("ready", Duration::ZERO).unwrap_err().to_string();
        assert_eq!(error, "server did not log \"ready\":\nstarted\nstopping");
    }

    #[test]
    fn a_process_that_outlives_its_deadline_still_runs() {
        let folder = ScratchDir::new("supervisor-wait").unwrap();
        let mut process = shell("server", "exec sleep 60", &folder);
        assert_eq!(process.wait(Instant::now()).unwrap(), None);
        process.kill().unwrap();
    }
}
