//! `cargo xtask check`: the checks of a change before it is pushed, in a few minutes.
//!
//! Format, clippy and the project rules cover the workspace; cargo checks again only what changed and what depends on it.
//! Unit tests run for the crates that changed since the merge base with the main branch, uncommitted changes included.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Options of `cargo xtask check`.
#[derive(clap::Args)]
pub struct Args {
    /// The branch that the change will go to [default: origin/main or main]
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
}

/// Runs the steps in turn and prints the time of each. The first step that fails ends the check.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let root = crate::repository_root()?;
    let base = merge_base(&root, args.base.as_deref())?;
    let crates = changed_crates(changed_files(&root, &base)?.iter().map(PathBuf::as_path));
    let names: Vec<&str> = crates.iter().map(String::as_str).collect();
    println!("check: changed since {}: {}", &base[..base.len().min(9)], shown(&names));
    let mut times = Vec::new();
    let mut step = |name: &str, run: &dyn Fn() -> anyhow::Result<()>| -> anyhow::Result<()> {
        println!("== {name}");
        let start = Instant::now();
        run().with_context(|| format!("step {name}"))?;
        times.push((name.to_owned(), start.elapsed()));
        Ok(())
    };
    step("format", &|| cargo(&root, &["fmt", "--all", "--check"]))?;
    step("tidy", &crate::tidy::run)?;
    step("clippy", &|| {
        cargo(&root, &["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])
    })?;
    if !crates.is_empty() {
        step(&format!("unit tests of {}", names.join(", ")), &|| run_unit_tests(&root, &crates))?;
    }
    times.iter().for_each(|(name, time)| println!("check: {:>6.1} s  {name}", time.as_secs_f64()));
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    println!("check: {:>6.1} s  in all", total.as_secs_f64());
    Ok(())
}

fn shown(names: &[&str]) -> String {
    if names.is_empty() { "no crate".to_owned() } else { names.join(", ") }
}

/// The commit that the change started from.
fn merge_base(root: &Path, branch: Option<&str>) -> anyhow::Result<String> {
    let branches = branch.map_or(vec!["origin/main", "main"], |branch| vec![branch]);
    let bases = branches.iter().filter_map(|branch| git(root, &["merge-base", "HEAD", branch]).ok());
    let base = bases.map(|base| base.trim().to_owned()).find(|base| !base.is_empty());
    base.with_context(|| format!("no merge base with {}: name the branch with --base", branches.join(" or ")))
}

/// Files that differ from `base`, committed or not, and new files.
fn changed_files(root: &Path, base: &str) -> anyhow::Result<Vec<PathBuf>> {
    let changed = git(root, &["diff", "--name-only", base])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(new.lines()).map(PathBuf::from).collect())
}

/// The folders below `crates` that have these files.
fn changed_crates<'a>(files: impl Iterator<Item = &'a Path>) -> BTreeSet<String> {
    let folders = files.filter_map(|file| file.strip_prefix("crates").ok()?.iter().next()?.to_str().map(str::to_owned));
    folders.collect()
}

/// Builds the unit tests with the features of the whole workspace, so that nothing is compiled twice, and runs those of
/// `crates`.
fn run_unit_tests(root: &Path, crates: &BTreeSet<String>) -> anyhow::Result<()> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--workspace", "--lib", "--bins", "--no-run", "--locked", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    ensure!(output.status.success(), "the unit tests do not compile");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let (Some(program), Some(manifest)) = (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let folder = Path::new(manifest).parent().context("a manifest is in a folder")?;
        let is_changed = folder.file_name().is_some_and(|name| crates.contains(&*name.to_string_lossy()));
        if !is_changed || message["profile"]["test"] != true {
            continue;
        }
        // The folder and the variable are those that `cargo test` sets.
        let status =
            Command::new(program).arg("--quiet").current_dir(folder).env("CARGO_MANIFEST_DIR", folder).status();
        let status = status.with_context(|| program.to_owned())?;
        ensure!(status.success(), "unit tests of {} failed", folder.display());
    }
    Ok(())
}

fn cargo(root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(env!("CARGO")).args(arguments).current_dir(root).status().context("running cargo")?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments.join(" "));
    Ok(())
}

fn git(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().context("running git")?;
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::changed_crates;

    #[test]
    fn a_changed_file_belongs_to_the_crate_of_its_folder() {
        let files = ["crates/store/src/commit.rs", "crates/store/Cargo.toml", "crates/api/src/a/b.rs", "README.md"];
        let crates: Vec<String> = changed_crates(files.into_iter().map(Path::new)).into_iter().collect();
        assert_eq!(crates, ["api", "store"]);
        assert!(changed_crates(["docs/crates/x.md", "Cargo.toml"].into_iter().map(Path::new)).is_empty());
    }
}
