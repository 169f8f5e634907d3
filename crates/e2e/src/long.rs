//! What is too long for CI: `cargo xtask long`.
//!
//! Each member says the least time in which it shows anything. Within `--minutes` members run one after the other; one
//! whose least time is no longer left is named as left out, and so is one whose turn never came.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::ValueEnum;

/// Options of `cargo xtask long`.
#[derive(clap::Args)]
pub struct Args {
    /// How long all of it may take [default: as long as it takes]
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Only this member (may be given several times)
    #[arg(long, value_name = "NAME")]
    only: Vec<LongSuite>,
    /// Write results into docs/, where a member has a place for them there
    #[arg(long)]
    record: bool,
}

/// Something that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LongSuite {
    /// Kubernetes' own integration suites on our components, all of them, each on all its homes
    Upstream,
    /// Each fault of a bind at every bind of a gang of 80, on virtual time
    LostBinds,
}

impl LongSuite {
    /// The time within which it ends on two cores.
    fn min_minutes(self) -> u64 {
        match self {
            LongSuite::Upstream => 60,
            LongSuite::LostBinds => 10,
        }
    }

    fn run(self, record: bool) -> anyhow::Result<()> {
        match self {
            LongSuite::Upstream => upstream(record),
            LongSuite::LostBinds => lost_binds(),
        }
    }
}

/// Runs the members; an error when one of them failed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let chosen = |member: &&LongSuite| args.only.is_empty() || args.only.contains(member);
    let (mut failed, mut left_out) = (Vec::new(), Vec::new());
    for &member in LongSuite::value_variants().iter().filter(chosen) {
        if !has_time(args.minutes, start.elapsed(), member.min_minutes()) {
            left_out.push(member);
            continue;
        }
        if let Err(error) = member.run(args.record) {
            println!("{member:?} failed: {error:#}");
            failed.push(member);
        }
        println!("{member:?}: {} s", start.elapsed().as_secs());
    }
    for member in &left_out {
        println!("left out: {member:?}, which takes {} minutes", member.min_minutes());
    }
    ensure!(failed.is_empty(), "failed: {failed:?}");
    Ok(())
}

/// Kubernetes' own suites, all of them, several at a time.
fn upstream(record: bool) -> anyhow::Result<()> {
    let mut arguments = vec!["run", "--quiet", "--locked", "--package", "phalanx-conformance", "--"];
    arguments.extend(["kube", "upstream", "--parallel", "4"]);
    arguments.extend(record.then_some("--record"));
    cargo(&arguments, &[])
}

/// The tests of lost binds, each at every bind instead of a few.
fn lost_binds() -> anyhow::Result<()> {
    let arguments =
        ["test", "--locked", "--package", "phalanx-testkit", "--test", "it", "lost_binds::", "--", "--nocapture"];
    cargo(&arguments, &[("PHALANX_EVERY_BIND", "1")])
}

/// Runs cargo in the workspace.
fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(supervisor::repository_root()?)
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments.join(" "));
    Ok(())
}

/// Whether so many minutes are left.
fn has_time(minutes: Option<u64>, elapsed: Duration, least: u64) -> bool {
    minutes.is_none_or(|minutes| elapsed + Duration::from_secs(least * 60) <= Duration::from_secs(minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_runs_only_where_its_least_time_is_left() {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        assert!(has_time(None, minutes(1000), 60));
        assert!(has_time(Some(90), minutes(30), 60));
        assert!(!has_time(Some(90), minutes(31), 60));
    }
}
