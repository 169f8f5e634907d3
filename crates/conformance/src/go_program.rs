//! A Go program of tests/kube that reads queries and writes responses, one line of JSON each.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use supervisor::kubernetes;

/// A built program.
pub struct GoProgram {
    path: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
}

impl GoProgram {
    /// Builds `package` of tests/kube into the cache folder under `name`, at low priority.
    pub fn build(package: &str, name: &str) -> anyhow::Result<GoProgram> {
        let path = supervisor::cache_folder()?.join(format!("kube-{}", kubernetes::VERSION)).join(name);
        let output = Command::new("nice")
            .args(["-n", "15", "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o"])
            .arg(&path)
            .arg(package)
            .current_dir(supervisor::repository_root()?.join("tests/kube"))
            .output()
            .context("running `go build`")?;
        ensure!(output.status.success(), "go build {package}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(GoProgram { path, environment: Vec::new() })
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &'static str, value: PathBuf) -> GoProgram {
        self.environment.push((name, value));
        self
    }

    /// The responses, in order; fewer than the queries if the program ended early.
    pub fn query<Q: Serialize, A: DeserializeOwned>(&self, queries: &[Q]) -> anyhow::Result<Vec<A>> {
        let mut child = Command::new(&self.path)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| self.path.display().to_string())?;
        let mut stdin = child.stdin.take().context("its standard input is piped")?;
        let lines: Vec<String> = queries.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        // In a thread of its own, so that neither side waits for the other to read. A program that ended early reads no
        // more.
        let writer = std::thread::spawn(move || lines.iter().try_for_each(|line| writeln!(stdin, "{line}")));
        let output = child.wait_with_output()?;
        let _ = writer.join();
        ensure!(output.status.success(), "{} ended with {}", self.path.display(), output.status);
        let text = String::from_utf8(output.stdout)?;
        text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }
}
