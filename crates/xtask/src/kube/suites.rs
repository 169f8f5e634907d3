//! What is checked against the real control plane: `cargo xtask kube test`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde_json::Value;

use super::control_plane::GROUPS;
use super::{ControlPlane, Plan, programs_are_there};

/// Options of `cargo xtask kube test`.
#[derive(clap::Args)]
pub struct Args {
    /// Only this suite (may be given several times)
    #[arg(long, value_name = "NAME")]
    only: Vec<Suite>,
    /// How many cases of the suite api are asked
    #[arg(long, default_value_t = crate::conformance::CASES)]
    cases: usize,
}

/// A suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The same questions to the real kube-apiserver and to ours
    Api,
    /// What the real controllers make of Jobs, and what we do
    Builder,
    /// One gang Job from submission to its end, with our parts on the real control plane
    Walk,
    /// All or nothing, with our parts on the real control plane
    Gangs,
    /// Plain Jobs, with our parts on a real control plane that has no groups
    Bare,
    /// Jobs that ask for a topology, with our parts on a real control plane that drops it
    Partial,
}

impl Suite {
    /// The tests of `testkit` that run on both homes, by the beginning of their names; none for a suite of another kind.
    fn tests(self) -> Option<&'static str> {
        match self {
            Suite::Api | Suite::Builder => None,
            Suite::Walk => Some("walk::walk_one_gang_job"),
            Suite::Gangs => Some("gangs::"),
            Suite::Bare => Some("bare::"),
            Suite::Partial => Some("partial::"),
        }
    }

    /// What the control plane leaves off.
    fn gates_off(self) -> &'static [&'static str] {
        match self {
            Suite::Api | Suite::Builder | Suite::Walk | Suite::Gangs => &[],
            Suite::Bare => &[GROUPS],
            // The second hangs on the first.
            Suite::Partial => &["TopologyAwareWorkloadScheduling", "CompositePodGroup"],
        }
    }
}

/// Runs every suite; the first that fails ends it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let chosen = |suite: &&Suite| args.only.is_empty() || args.only.contains(suite);
    let suites: Vec<Suite> = Suite::value_variants().iter().filter(chosen).copied().collect();
    if suites.contains(&Suite::Api) {
        crate::conformance::run_api(args.cases)?;
    }
    if suites.contains(&Suite::Builder) {
        crate::conformance::run_builder()?;
    }
    if suites.iter().all(|suite| suite.tests().is_none()) || !programs_are_there(&plan(&[]).programs())? {
        return Ok(());
    }
    let built = Built::now()?;
    // Those that need the same control plane share one.
    for alike in suites.chunk_by(|one, next| one.gates_off() == next.gates_off()) {
        let tests: Vec<&str> = alike.iter().filter_map(|suite| suite.tests()).collect();
        if !tests.is_empty() {
            on_kube(&built, &tests, &plan(alike[0].gates_off()))?;
        }
    }
    Ok(())
}

/// Our programs.
struct Built {
    phalanx: PathBuf,
    test: PathBuf,
}

impl Built {
    fn now() -> anyhow::Result<Built> {
        let phalanx = built(&["build", "--workspace", "--bin", "phalanx"], "phalanx", "bin")?;
        let test = built(&["test", "--workspace", "--test", "it", "--no-run"], "testkit", "test")?;
        Ok(Built { phalanx, test })
    }
}

/// The real control plane, whose Jobs, pods and nodes are for our parts.
fn plan(gates_off: &'static [&'static str]) -> Plan {
    Plan { controllers: true, without_controllers: vec!["job-controller"], gates_off, ..Plan::default() }
}

/// Runs tests of `testkit` on a real control plane, with our parts as processes.
fn on_kube(built: &Built, tests: &[&str], plan: &Plan) -> anyhow::Result<()> {
    let Built { phalanx, test } = built;
    for name in tests {
        ensure!(count(test, name)? > 0, "no test is named {name}");
    }
    let mut control_plane = ControlPlane::start("kube-test", plan)?;
    println!("kube-apiserver {} is up at https://{}", super::VERSION, control_plane.address());
    let status = Command::new(test)
        .args(["--test-threads=1", "--show-output"])
        .args(tests)
        .env("PHALANX_HOME", "kube")
        .env("KUBECONFIG", control_plane.kubeconfig())
        .env("PHALANX_BIN", phalanx)
        .env("PHALANX_XTASK", std::env::current_exe()?)
        .status()
        .context("running the tests")?;
    control_plane.still_runs().context("after the tests")?;
    ensure!(status.success(), "tests on the real control plane failed");
    Ok(())
}

/// How many tests a name chooses: a suite that chose none would pass.
fn count(test: &Path, name: &str) -> anyhow::Result<usize> {
    let output = Command::new(test).args(["--list", "--format=terse", name]).output().context("listing the tests")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with(": test")).count())
}

/// Builds with cargo and returns the program of this kind that came out of `package`. Always with the whole workspace
/// chosen: it then shares every dependency with the tests.
fn built(arguments: &[&str], package: &str, kind: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--message-format=json-render-diagnostics"])
        .current_dir(crate::repository_root()?)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("running cargo")?;
    ensure!(output.status.success(), "cargo {} ended with {}", arguments.join(" "), output.status);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let id = message["package_id"].as_str().unwrap_or_default();
        let is_it = message["target"]["kind"][0] == kind && id.contains(&format!("/{package}#"));
        if let Some(program) = message["executable"].as_str().filter(|_| is_it) {
            return Ok(PathBuf::from(program));
        }
    }
    bail!("cargo {} built no program", arguments.join(" "))
}
