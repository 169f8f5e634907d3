//! What is checked against the real control plane: `cargo xtask kube test`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    /// Schedules as the library behind CronJobs reads them, and as we do
    Cron,
    /// What the filters and scores of the real kube-scheduler say, and ours
    Scheduler,
    /// One gang Job from submission to its end, with our parts on the real control plane
    Walk,
    /// All or nothing, with our parts on the real control plane
    Gangs,
    /// Our scheduler killed between two binds, binds without an answer, two schedulers at once, on the real control plane
    Schedulers,
    /// Our controllers killed again and again while Jobs are under way, on the real control plane
    Restarts,
    /// What upstream tests of Jobs, CronJobs and what they leave, with our parts on the real control plane
    Jobs,
    /// Plain Jobs, with our parts on a real control plane that has no groups
    Bare,
    /// Jobs that ask for a topology, with our parts on a real control plane that drops it
    Partial,
}

impl Suite {
    /// The tests of `testkit` that run on both homes, by parts of their names; none for a suite of another kind.
    fn tests(self) -> &'static [&'static str] {
        match self {
            Suite::Api | Suite::Builder | Suite::Cron | Suite::Scheduler => &[],
            Suite::Walk => &["walk::walk_one_gang_job"],
            Suite::Gangs => &[
                "gangs::",
                "pod_groups::gangs_wait_for_group_quorum_and_room_and_do_not_block_each_other",
                "pod_groups::a_waiting_gang_wakes_when_a_node_opens_a_pod_leaves_or_fewer_are_wanted",
                "pod_groups::of_gangs_that_wait_for_the_same_room_the_one_that_came_first_is_next",
                "pod_groups::pods_beyond_min_count_are_placed_when_there_is_room_for_them",
                "gang_runs::",
                "evictions::",
                "composites::a_child_of_a_composite_gang_does_not_start_alone",
                "pod_groups::a_pod_that_has_to_be_apart_from_others_waits_with_its_gang_and_says_so",
                "gang_life::a_running_gang_that_lacks_a_pod_says_so_until_it_has_it_again",
                "gang_life::a_gang_that_was_whole_keeps_its_pods_when_the_scheduler_starts_anew",
            ],
            Suite::Schedulers => &[
                "gang_life::a_gang_whose_scheduler_died_between_two_binds_is_completed",
                "gang_life::a_gang_that_can_no_longer_be_completed_is_released_and_starts_as_a_whole",
                "two_schedulers::of_two_schedulers_that_give_away_the_same_room_one_gets_it",
                "lost_binds::",
            ],
            Suite::Restarts => &["kills::"],
            Suite::Jobs => &[
                "job_counts::",
                "job_failures::",
                "job_indexes::",
                "job_suspend::",
                "job_owners::",
                "job_groups::",
                "job_objects::",
                "job_leftovers::",
                "cron_home::",
            ],
            Suite::Bare => &["bare::"],
            Suite::Partial => &["partial::"],
        }
    }

    /// Controllers whose work is done by ours, as `Home` starts them for these tests.
    fn replaced(self) -> &'static [&'static str] {
        match self {
            Suite::Jobs => &[
                "job-controller",
                "cronjob-controller",
                "ttl-after-finished-controller",
                "pod-garbage-collector-controller",
                "podgroup-protection-controller",
            ],
            _ => &["job-controller"],
        }
    }

    /// How many tests run at a time: those that share a home mostly wait for the clock on the wall.
    fn threads(self) -> usize {
        if self == Suite::Jobs { 24 } else { 1 }
    }

    /// What the control plane leaves off.
    fn gates_off(self) -> &'static [&'static str] {
        match self {
            Suite::Api
            | Suite::Builder
            | Suite::Cron
            | Suite::Scheduler
            | Suite::Walk
            | Suite::Gangs
            | Suite::Schedulers
            | Suite::Restarts
            | Suite::Jobs => &[],
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
    if suites.contains(&Suite::Cron) {
        crate::conformance::run_cron()?;
    }
    if suites.contains(&Suite::Scheduler) {
        crate::conformance::run_scheduler()?;
    }
    if suites.iter().all(|suite| suite.tests().is_empty()) || !programs_are_there(&plan(Suite::Walk).programs())? {
        return Ok(());
    }
    let built = Built::now()?;
    // Those that need the same control plane share one.
    let needs = |suite: Suite| (suite.gates_off(), suite.replaced(), suite.threads());
    for alike in suites.chunk_by(|one, next| needs(*one) == needs(*next)) {
        let tests: Vec<&str> = alike.iter().flat_map(|suite| suite.tests()).copied().collect();
        if !tests.is_empty() {
            on_kube(&built, &tests, alike[0])?;
        }
    }
    Ok(())
}

/// Whether a suite runs this test, as `module::name`, on the real control plane.
pub fn runs_on_kube(test: &str) -> bool {
    Suite::value_variants().iter().flat_map(|suite| suite.tests()).any(|part| test.contains(part))
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
fn plan(suite: Suite) -> Plan {
    let without_controllers = suite.replaced().to_vec();
    Plan { controllers: true, without_controllers, gates_off: suite.gates_off(), ..Plan::default() }
}

/// Runs tests of `testkit` on a real control plane, with our parts as processes.
///
/// Here the clock is the one on the wall, and many tests share two cores: those that fail have one more try, each alone on
/// a new control plane, and that is told.
fn on_kube(built: &Built, tests: &[&str], suite: Suite) -> anyhow::Result<()> {
    for name in tests {
        ensure!(count(&built.test, name)? > 0, "no test is named {name}");
    }
    let failed = once(built, tests, suite, &[&format!("--test-threads={}", suite.threads())])?;
    for name in failed {
        println!("once more, alone: {name}");
        let again = once(built, &[&name], suite, &["--test-threads=1", "--exact"])?;
        ensure!(again.is_empty(), "{name} failed twice on the real control plane");
    }
    Ok(())
}

/// Runs tests on a control plane of their own, and returns those that failed.
fn once(built: &Built, tests: &[&str], suite: Suite, options: &[&str]) -> anyhow::Result<Vec<String>> {
    let Built { phalanx, test } = built;
    let mut control_plane = ControlPlane::start("kube-test", &plan(suite))?;
    println!("kube-apiserver {} is up at https://{}", super::VERSION, control_plane.address());
    let mut running = Command::new(test)
        .args(options)
        .arg("--show-output")
        .args(tests)
        .env("PHALANX_HOME", "kube")
        .env("KUBECONFIG", control_plane.kubeconfig())
        .env("PHALANX_BIN", phalanx)
        .env("PHALANX_XTASK", std::env::current_exe()?)
        .stdout(Stdio::piped())
        .spawn()
        .context("running the tests")?;
    let output = running.stdout.take().context("what the tests say")?;
    let mut failed = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        failed.extend(line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")).map(str::to_owned));
    }
    let status = running.wait()?;
    control_plane.still_runs().context("after the tests")?;
    ensure!(status.success() || !failed.is_empty(), "the tests ended with {status}");
    Ok(failed)
}

/// How many tests a name chooses: a suite that chose none would pass.
fn count(test: &Path, name: &str) -> anyhow::Result<usize> {
    let output = Command::new(test).args(["--list", "--format=terse", name]).output().context("listing the tests")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with(": test")).count())
}

/// Builds with cargo and returns the program of this kind that came out of `package`. Always with the whole workspace
/// chosen: it then shares every dependency with the tests.
pub fn built(arguments: &[&str], package: &str, kind: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--message-format=json-render-diagnostics"])
        .current_dir(crate::repository_root()?)
        .stderr(Stdio::inherit())
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
