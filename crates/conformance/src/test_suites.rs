//! The suites that run against the real control plane: `cargo xtask kube test`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde_json::Value;
use supervisor::guard::GUARD_VARIABLE;
use supervisor::kubernetes::{ControlPlaneConfig, GENERIC_WORKLOAD, KubeControlPlane, VERSION, ensure_programs};

use crate::{api_server, builder, cron, scheduler_plugins};

/// Options of `cargo xtask kube test`.
#[derive(clap::Args)]
pub struct Args {
    /// Only this suite (may be given several times)
    #[arg(long, value_name = "NAME")]
    only: Vec<KubeSuite>,
    /// How many cases of the suite api are sent
    #[arg(long, default_value_t = api_server::CASES)]
    cases: usize,
}

/// A suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KubeSuite {
    /// The same requests to kube-apiserver and to our server
    Api,
    /// Scheduling objects of Jobs from kube-controller-manager and from us
    Builder,
    /// Schedules of the CronJob library and of our parser
    Cron,
    /// Verdicts and scores of kube-scheduler's plugins and of ours
    Scheduler,
    /// One gang Job from submission to completion, with our components on the real control plane
    Walk,
    /// All-or-nothing scheduling, with our components on the real control plane
    Gangs,
    /// Our scheduler killed between two binds, binds without a response, two concurrent schedulers, on the real control
    /// plane
    Schedulers,
    /// Our controllers killed repeatedly while Jobs run, on the real control plane
    Restarts,
    /// Upstream's tests of Jobs, CronJobs and garbage collection, with our components on the real control plane
    Jobs,
    /// Plain Jobs, with our components on a real control plane without groups
    Bare,
    /// Jobs with a topology, with our components on a real control plane that drops it
    Partial,
}

impl KubeSuite {
    /// The tests of `testkit` that run on both test clusters, by substrings of their names; none for another kind of
    /// suite.
    fn test_filters(self) -> &'static [&'static str] {
        match self {
            KubeSuite::Api | KubeSuite::Builder | KubeSuite::Cron | KubeSuite::Scheduler => &[],
            KubeSuite::Walk => &["walk::walk_one_gang_job"],
            KubeSuite::Gangs => &[
                "gangs::",
                "pod_groups::gangs_wait_for_group_quorum_and_capacity_without_blocking_each_other",
                "pod_groups::a_waiting_gang_is_retried_on_uncordon_pod_deletion_and_lower_min_count",
                "pod_groups::waiting_gangs_are_placed_in_creation_order",
                "pod_groups::pods_beyond_min_count_are_placed_when_capacity_is_free",
                "gang_runs::",
                "wake_ups::",
                "neighbours::",
                "evictions::",
                "composites::a_child_of_a_composite_gang_does_not_start_alone",
                "pod_groups::a_gang_with_pod_anti_affinity_waits_and_reports_that_it_is_unsupported",
                "pod_groups::a_gang_that_requires_a_feature_starts_when_its_node_declares_it",
                "own_scheduler::",
                "gang_life::a_running_gang_is_degraded_while_it_lacks_a_pod",
                "gang_life::a_degraded_gang_keeps_its_pods_when_the_scheduler_restarts",
            ],
            KubeSuite::Schedulers => &[
                "gang_life::a_half_bound_gang_is_completed_after_a_scheduler_crash",
                "gang_life::a_half_bound_gang_that_no_longer_fits_is_released_and_later_starts_whole",
                "two_schedulers::one_of_two_schedulers_gets_contended_capacity",
                "lost_binds::",
            ],
            KubeSuite::Restarts => &["kills::"],
            KubeSuite::Jobs => &[
                "job_counts::",
                "job_failures::",
                "job_indexes::",
                "job_suspend::",
                "job_owners::",
                "job_groups::",
                "job_objects::",
                "job_leftovers::",
                "cron_jobs_shared::",
            ],
            KubeSuite::Bare => &["bare::"],
            KubeSuite::Partial => &["partial::"],
        }
    }

    /// Controllers that ours replace, as `TestCluster` starts them for these tests.
    fn replaced_controllers(self) -> &'static [&'static str] {
        match self {
            KubeSuite::Jobs => &[
                "job-controller",
                "cronjob-controller",
                "ttl-after-finished-controller",
                "pod-garbage-collector-controller",
                "podgroup-protection-controller",
            ],
            _ => &["job-controller"],
        }
    }

    /// How many tests run at a time: tests that share a control plane mostly wait.
    fn test_threads(self) -> usize {
        if self == KubeSuite::Jobs { 24 } else { 1 }
    }

    /// Feature gates that the control plane disables.
    fn disabled_gates(self) -> &'static [&'static str] {
        match self {
            KubeSuite::Api
            | KubeSuite::Builder
            | KubeSuite::Cron
            | KubeSuite::Scheduler
            | KubeSuite::Walk
            | KubeSuite::Gangs
            | KubeSuite::Schedulers
            | KubeSuite::Restarts
            | KubeSuite::Jobs => &[],
            KubeSuite::Bare => &[GENERIC_WORKLOAD],
            // The second gate depends on the first.
            KubeSuite::Partial => &["TopologyAwareWorkloadScheduling", "CompositePodGroup"],
        }
    }
}

/// Runs every suite; the first failure ends the run.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let chosen = |suite: &&KubeSuite| args.only.is_empty() || args.only.contains(suite);
    let suites: Vec<KubeSuite> = KubeSuite::value_variants().iter().filter(chosen).copied().collect();
    if suites.contains(&KubeSuite::Api) {
        run_api(args.cases)?;
    }
    if suites.contains(&KubeSuite::Builder) {
        run_builder()?;
    }
    if suites.contains(&KubeSuite::Cron) {
        run_cron()?;
    }
    if suites.contains(&KubeSuite::Scheduler) {
        run_scheduler()?;
    }
    if suites.iter().all(|suite| suite.test_filters().is_empty())
        || !ensure_programs(&control_plane_config(KubeSuite::Walk).required_programs())?
    {
        return Ok(());
    }
    let built = TestBinaries::build()?;
    // Suites that need the same control plane share it.
    let needs = |suite: KubeSuite| (suite.disabled_gates(), suite.replaced_controllers(), suite.test_threads());
    for same_needs in suites.chunk_by(|one, next| needs(*one) == needs(*next)) {
        let tests: Vec<&str> = same_needs.iter().flat_map(|suite| suite.test_filters()).copied().collect();
        if !tests.is_empty() {
            run_tests(&built, &tests, same_needs[0])?;
        }
    }
    Ok(())
}

/// Compares the API servers, as CI does.
fn run_api(cases: usize) -> anyhow::Result<()> {
    api_server::run(&api_server::Args { seed: 1, cases, kind: Vec::new(), out: None, json: None, clients: 24 })
}

/// Compares scheduling objects, as CI does.
fn run_builder() -> anyhow::Result<()> {
    builder::run(&builder::Args { seed: 1, jobs: 200, trees: 600 })
}

/// Compares schedules, as CI does.
fn run_cron() -> anyhow::Result<()> {
    cron::run(&cron::Args { seed: 1, cases: 2000 })
}

/// Compares filters and scores, as CI does.
fn run_scheduler() -> anyhow::Result<()> {
    scheduler_plugins::run(&scheduler_plugins::Args { seed: 1, cases: 2000, end_to_end: 100, keep: false })
}

/// Whether a suite runs this test (`module::name`) on the real control plane.
pub fn runs_on_kube(test: &str) -> bool {
    KubeSuite::value_variants().iter().flat_map(|suite| suite.test_filters()).any(|filter| test.contains(filter))
}

/// Our programs.
struct TestBinaries {
    phalanx: PathBuf,
    test: PathBuf,
}

impl TestBinaries {
    fn build() -> anyhow::Result<TestBinaries> {
        let phalanx = cargo_build(&["build", "--workspace", "--bin", "phalanx"], "phalanx", "bin")?;
        let test = cargo_build(&["test", "--workspace", "--test", "it", "--no-run"], "testkit", "test")?;
        Ok(TestBinaries { phalanx, test })
    }
}

/// The real control plane, whose Jobs, pods and nodes our components handle.
fn control_plane_config(suite: KubeSuite) -> ControlPlaneConfig {
    let without_controllers = suite.replaced_controllers().to_vec();
    ControlPlaneConfig {
        controllers: true,
        disabled_controllers: without_controllers,
        disabled_gates: suite.disabled_gates(),
        ..ControlPlaneConfig::default()
    }
}

/// Runs tests of `testkit` on a real control plane, with our components as processes.
///
/// These tests use the wall clock, and many of them share two cores. Tests that fail are repeated once, each alone on a
/// new control plane, and the repetition is printed.
fn run_tests(built: &TestBinaries, tests: &[&str], suite: KubeSuite) -> anyhow::Result<()> {
    for name in tests {
        ensure!(count_tests(&built.test, name)? > 0, "no test is named {name}");
    }
    let failed = run_tests_once(built, tests, suite, &[&format!("--test-threads={}", suite.test_threads())])?;
    for name in failed {
        println!("repeated alone: {name}");
        let failed_again = run_tests_once(built, &[&name], suite, &["--test-threads=1", "--exact"])?;
        ensure!(failed_again.is_empty(), "{name} failed twice on the real control plane");
    }
    Ok(())
}

/// Runs tests on a new control plane, and returns those that failed.
fn run_tests_once(
    built: &TestBinaries,
    tests: &[&str],
    suite: KubeSuite,
    options: &[&str],
) -> anyhow::Result<Vec<String>> {
    let TestBinaries { phalanx, test } = built;
    let mut control_plane = KubeControlPlane::start("kube-test", &control_plane_config(suite))?;
    println!("kube-apiserver {} is up at https://{}", VERSION, control_plane.address());
    let mut running = Command::new(test)
        .args(options)
        .arg("--show-output")
        .args(tests)
        .env("PHALANX_TEST_CLUSTER", "kube")
        .env("KUBECONFIG", control_plane.kubeconfig())
        .env("PHALANX_BIN", phalanx)
        .env(GUARD_VARIABLE, std::env::current_exe()?)
        .stdout(Stdio::piped())
        .spawn()
        .context("running the tests")?;
    let output = running.stdout.take().context("the output of the tests")?;
    let mut failed = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        failed.extend(line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")).map(str::to_owned));
    }
    let status = running.wait()?;
    control_plane.check_running().context("after the tests")?;
    ensure!(status.success() || !failed.is_empty(), "the tests ended with {status}");
    Ok(failed)
}

/// The number of tests that a name selects: a suite without tests would pass.
fn count_tests(test: &Path, name: &str) -> anyhow::Result<usize> {
    let output = Command::new(test).args(["--list", "--format=terse", name]).output().context("listing the tests")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with(": test")).count())
}

/// Builds with cargo and returns the program of this kind from `package`. Always selects the whole workspace, so that
/// it shares every dependency with the tests.
pub fn cargo_build(arguments: &[&str], package: &str, kind: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--message-format=json-render-diagnostics"])
        .current_dir(supervisor::repository_root()?)
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo")?;
    ensure!(output.status.success(), "cargo {} ended with {}", arguments.join(" "), output.status);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let id = message["package_id"].as_str().unwrap_or_default();
        let is_wanted = message["target"]["kind"][0] == kind && id.contains(&format!("/{package}#"));
        if let Some(program) = message["executable"].as_str().filter(|_| is_wanted) {
            return Ok(PathBuf::from(program));
        }
    }
    bail!("cargo {} built no program", arguments.join(" "))
}
