//! `phalanx up` as a child process: started, asked to stop, killed, and started again on the same data.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// How long a start may take, a busy machine and a debug build included.
const START_TIMEOUT_SECONDS: u64 = 60;
/// How long a graceful stop may take.
const STOP_TIMEOUT_SECONDS: u64 = 30;
/// How long a process may take to be gone once it was killed, and a check of its data.
const EXIT_TIMEOUT_SECONDS: u64 = 60;
const POLL: Duration = Duration::from_millis(5);

/// How `phalanx up` is called.
#[derive(Clone, Debug)]
pub struct UpConfig {
    /// The program.
    pub phalanx: PathBuf,
    /// Everything it writes, and its output, lies in this folder.
    pub folder: PathBuf,
    /// Options besides `--data-dir` and `--listen`.
    pub options: Vec<String>,
    /// Environment variables besides our own.
    pub environment: Vec<(&'static str, &'static str)>,
}

impl UpConfig {
    /// A plan whose data lies in `folder`.
    pub fn new(phalanx: &Path, folder: &Path) -> anyhow::Result<UpConfig> {
        let phalanx = phalanx.canonicalize().with_context(|| format!("--phalanx {}", phalanx.display()))?;
        Ok(UpConfig { phalanx, folder: folder.to_path_buf(), options: Vec::new(), environment: Vec::new() })
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn stdout(&self) -> PathBuf {
        self.folder.join("up.stdout")
    }

    fn stderr(&self) -> PathBuf {
        self.folder.join("up.stderr")
    }

    /// `phalanx store check` on the data of a stopped server: the revision it prints.
    pub fn store_check(&self) -> anyhow::Result<u64> {
        let (out, err) = (self.folder.join("check.stdout"), self.folder.join("check.stderr"));
        let mut child = Command::new(&self.phalanx)
            .args(["store", "check", "--data-dir"])
            .arg(self.data_dir())
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()?;
        let status = wait_for_exit(&mut child).context("store check")?;
        let (out, err) = (std::fs::read_to_string(out)?, std::fs::read_to_string(err)?);
        ensure!(status.success(), "store check ended with {status}: {out}{err}");
        let revision = out.split_whitespace().find_map(|word| word.strip_prefix("revision="));
        Ok(revision.with_context(|| format!("store check names no revision: {out}"))?.parse()?)
    }
}

/// A running `phalanx up`. Dropping it kills the process.
pub struct UpProcess {
    child: Child,
    /// `HOST:PORT` it listens on.
    pub address: String,
    /// The admin's kubeconfig.
    pub kubeconfig: PathBuf,
}

impl UpProcess {
    /// Starts the server and returns once it says that it is ready. `listen` is `127.0.0.1:0` for a free port.
    pub fn start(plan: &UpConfig, listen: &str) -> anyhow::Result<UpProcess> {
        let mut up = UpProcess::spawn(plan, listen)?;
        up.wait_until_ready(plan)?;
        Ok(up)
    }

    /// Starts the server and does not wait for it.
    pub fn spawn(plan: &UpConfig, listen: &str) -> anyhow::Result<UpProcess> {
        std::fs::create_dir_all(&plan.folder)?;
        let child = Command::new(&plan.phalanx)
            .args(["up", "--listen", listen, "--data-dir"])
            .arg(plan.data_dir())
            .args(&plan.options)
            .envs(plan.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(plan.stdout())?)
            .stderr(File::create(plan.stderr())?)
            .spawn()
            .with_context(|| format!("running {}", plan.phalanx.display()))?;
        Ok(UpProcess { child, address: String::new(), kubeconfig: PathBuf::new() })
    }

    fn wait_until_ready(&mut self, plan: &UpConfig) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(START_TIMEOUT_SECONDS);
        loop {
            if let Some((address, kubeconfig)) = parse_ready_line(&std::fs::read_to_string(plan.stdout())?) {
                (self.address, self.kubeconfig) = (address, kubeconfig);
                return Ok(());
            }
            let said = || std::fs::read_to_string(plan.stderr());
            if let Some(status) = self.child.try_wait()? {
                bail!("phalanx up ended with {status} before it was ready: {}", said()?);
            }
            if Instant::now() > deadline {
                bail!("phalanx up was not ready within {START_TIMEOUT_SECONDS} s: {}", said()?);
            }
            std::thread::sleep(POLL);
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no goodbye, as when the machine's memory runs out.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        wait_for_exit(&mut self.child).context("phalanx up, killed")?;
        Ok(())
    }

    /// SIGTERM, then waits for the end, which must be a success.
    pub fn stop(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)?;
        let deadline = Instant::now() + Duration::from_secs(STOP_TIMEOUT_SECONDS);
        let status = wait_with_deadline(&mut self.child, deadline)?.context("phalanx up did not stop on SIGTERM")?;
        ensure!(status.success(), "phalanx up ended with {status} on SIGTERM");
        Ok(())
    }

    /// A new client, with a connection pool of its own, that does not retry by itself.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        let file = Kubeconfig::read_from(&self.kubeconfig)?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = Some(Duration::from_secs(30));
        Ok(kube::Client::try_from(config)?)
    }
}

impl Drop for UpProcess {
    fn drop(&mut self) {
        // Both fail only when the process has already ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the end of `child`; `None` when it still runs at `deadline`.
pub fn wait_with_deadline(child: &mut Child, deadline: Instant) -> anyhow::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if Instant::now() > deadline => return Ok(None),
            None => std::thread::sleep(POLL),
        }
    }
}

/// Waits for the end of `child`, which is due; when it does not come, the process is killed and that is an error.
fn wait_for_exit(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let deadline = Instant::now() + Duration::from_secs(EXIT_TIMEOUT_SECONDS);
    if let Some(status) = wait_with_deadline(child, deadline)? {
        return Ok(status);
    }
    child.kill()?;
    bail!("still runs after {EXIT_TIMEOUT_SECONDS} s")
}

/// The address and kubeconfig of `ready https://HOST:PORT kubeconfig=PATH`.
fn parse_ready_line(output: &str) -> Option<(String, PathBuf)> {
    // The line counts only once its end is written.
    let whole = &output[..output.rfind('\n')?];
    let line = whole.lines().find_map(|line| line.strip_prefix("ready https://"))?;
    let (address, kubeconfig) = line.split_once(" kubeconfig=")?;
    Some((address.to_owned(), PathBuf::from(kubeconfig)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::parse_ready_line;

    #[test]
    fn the_ready_line_is_read_only_once_it_is_whole() {
        let line = "ready https://127.0.0.1:6443 kubeconfig=a folder/kubeconfig";
        assert_eq!(parse_ready_line(line), None);
        let want = ("127.0.0.1:6443".to_owned(), PathBuf::from("a folder/kubeconfig"));
        assert_eq!(parse_ready_line(&format!("starting\n{line}\n")), Some(want));
    }
}
