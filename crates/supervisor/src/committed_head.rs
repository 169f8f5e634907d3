//! The commit of a recorded run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// The commit under test. Changes outside of docs are an error, because the run could not be repeated.
pub fn committed_head(root: &Path) -> anyhow::Result<String> {
    let git = |args: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("git").args(args).current_dir(root).output().context("running git")?;
        ensure!(output.status.success(), "git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--", ".", ":!docs"])?;
    ensure!(changed.is_empty(), "--record needs a committed tree, these files differ:\n{changed}");
    git(&["rev-parse", "--short=9", "HEAD"])
}
