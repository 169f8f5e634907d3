//! `phalanx up`: started, stopped, killed, and started again on the same data.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::SupervisedProcess;
use crate::client::{client, client_with_token};
use crate::guard::guarded;

/// The limit for a start of a debug build on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The limit for a graceful stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// The limit for `phalanx store check`.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How `phalanx up` is called.
#[derive(Clone, Debug)]
pub struct UpConfig {
    /// The program.
    pub phalanx: PathBuf,
    /// The folder of its data and its output.
    pub folder: PathBuf,
    /// Options other than `--data-dir` and `--listen`.
    pub options: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub environment: Vec<(&'static str, &'static str)>,
}

impl UpConfig {
    /// A configuration with data and output in `folder`.
    pub fn new(phalanx: &Path, folder: &Path) -> anyhow::Result<UpConfig> {
        let phalanx = phalanx.canonicalize().with_context(|| format!("--phalanx {}", phalanx.display()))?;
        Ok(UpConfig { phalanx, folder: folder.to_path_buf(), options: Vec::new(), environment: Vec::new() })
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Runs `phalanx store check` on the data of a stopped server and returns the revision that it prints.
    pub fn store_check(&self) -> anyhow::Result<u64> {
        let mut command = guarded(&self.phalanx)?;
        command.args(["store", "check", "--data-dir"]).arg(self.data_dir());
        let mut process = SupervisedProcess::spawn("store-check", command, &self.folder)?;
        let status = process.wait(Instant::now() + CHECK_TIMEOUT)?.context("store check does not end")?;
        let (stdout, stderr) = (process.stdout()?, process.stderr()?);
        ensure!(status.success(), "store check ended with {status}: {stdout}{stderr}");
        let revision = stdout.split_whitespace().find_map(|word| word.strip_prefix("revision="));
        Ok(revision.with_context(|| format!("store check prints no revision: {stdout}"))?.parse()?)
    }
}

/// A running `phalanx up`. Dropping it kills the process.
#[derive(Debug)]
pub struct UpProcess {
    /// The process, for its output and its end.
    pub process: SupervisedProcess,
    /// `HOST:PORT` that it listens on.
    pub address: String,
    /// The admin's kubeconfig.
    pub kubeconfig: PathBuf,
}

impl UpProcess {
    /// Starts the server and waits until it is ready. `listen` is `127.0.0.1:0` for a free port.
    pub fn start(config: &UpConfig, listen: &str) -> anyhow::Result<UpProcess> {
        UpProcess::spawn(config, listen)?.ready()
    }

    /// Starts `command`, a `phalanx up` with any options, and waits until it is ready. Its output goes to `folder`.
    pub fn start_command(command: Command, folder: &Path) -> anyhow::Result<UpProcess> {
        UpProcess::spawn_command(command, folder)?.ready()
    }

    /// Starts the server without waiting for it. It has no address yet.
    pub fn spawn(config: &UpConfig, listen: &str) -> anyhow::Result<UpProcess> {
        let mut command = guarded(&config.phalanx)?;
        command.args(["up", "--listen", listen, "--data-dir"]).arg(config.data_dir()).args(&config.options);
        command.envs(config.environment.iter().copied());
        UpProcess::spawn_command(command, &config.folder)
    }

    fn spawn_command(command: Command, folder: &Path) -> anyhow::Result<UpProcess> {
        let process = SupervisedProcess::spawn("up", command, folder)?;
        Ok(UpProcess { process, address: String::new(), kubeconfig: PathBuf::new() })
    }

    fn ready(mut self) -> anyhow::Result<UpProcess> {
        let ready_line = self.process.wait_until_ready(START_TIMEOUT)?;
        let (address, kubeconfig) = parse_ready_line(&ready_line).with_context(|| format!("ready {ready_line}"))?;
        (self.address, self.kubeconfig) = (address, kubeconfig);
        Ok(self)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// SIGKILL, as when the machine runs out of memory.
    pub fn kill(self) -> anyhow::Result<()> {
        self.process.kill()
    }

    /// SIGTERM, then waits for the end, which must be a success.
    pub fn stop(self) -> anyhow::Result<()> {
        self.process.terminate(STOP_TIMEOUT)
    }

    /// A new client with its own connection pool. It does not retry by itself.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        client(&self.kubeconfig, READ_TIMEOUT).await
    }

    /// A client with `token`, or with no credentials, in place of the certificate.
    pub async fn client_with_token(&self, token: Option<&str>) -> anyhow::Result<kube::Client> {
        client_with_token(&self.kubeconfig, token, READ_TIMEOUT).await
    }
}

/// The address and kubeconfig of `https://HOST:PORT kubeconfig=PATH`.
fn parse_ready_line(line: &str) -> Option<(String, PathBuf)> {
    let (address, kubeconfig) = line.strip_prefix("https://")?.split_once(" kubeconfig=")?;
    Some((address.to_owned(), PathBuf::from(kubeconfig)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::parse_ready_line;

    #[test]
    fn the_ready_line_has_the_address_and_the_kubeconfig() {
        let want = ("127.0.0.1:6443".to_owned(), PathBuf::from("a folder/kubeconfig"));
        assert_eq!(parse_ready_line("https://127.0.0.1:6443 kubeconfig=a folder/kubeconfig"), Some(want));
    }
}
