//! Kubernetes' own integration suites, run on our components: `cargo xtask kube upstream`.
//!
//! In: the test packages of the published Go module. Out: for each suite and server how many tests passed, how many are
//! listed in tests/kube/upstream/expectations.yaml, and an error for every other outcome.
//! Promises: an edit of a package that does not apply exactly as often as expected is an error; no line of Kubernetes'
//! tests enters this repository.

mod edit; // edits of Go source
mod expectation; // tests that are not expected to pass
mod outcome; // the output of a Go test program
mod program; // a package copied, edited and compiled into the cache folder
mod record; // results of the last runs
mod suite; // the suites and their edits

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use supervisor::guard::guarded;
use supervisor::kubernetes::{self, ensure_programs};

use self::expectation::{Comparison, Expectations};
use self::outcome::TestOutcome;
use self::suite::{SUITES, UpstreamSuite};

pub use program::module_folder;
pub use record::{SuiteRecord, read as records};

/// How long tests that must fail wait for a condition; the others wait as long as in Kubernetes.
const FAILING_WAIT_SECONDS: &str = "10";

/// The suites that CI runs.
const FIXED_SET: &[(&str, SuiteServer)] =
    &[("job", SuiteServer::Embedded), ("podgroup", SuiteServer::Kube), ("topology", SuiteServer::Kube)];

/// Options of `cargo xtask kube upstream`.
#[derive(clap::Args)]
pub struct Args {
    /// Only this suite (may be given several times)
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(SUITES.iter().map(|suite| suite.name)))]
    suite: Vec<String>,
    /// Only on this API server [default: each server of a suite]
    #[arg(long)]
    server: Option<SuiteServer>,
    /// Only the tests that match this Go regular expression; expectations without a test are then not errors
    #[arg(long, value_name = "REGEX")]
    run: Option<String>,
    /// Skip the tests that are expected to fail
    #[arg(long)]
    without_listed: bool,
    /// What CI runs: job on phalanx up, podgroup and topology, without the tests that are expected to fail
    #[arg(long, conflicts_with_all = ["suite", "server", "run", "record"])]
    fixed_set: bool,
    /// The program under test [default: a debug build of this checkout]
    #[arg(long, value_name = "FILE")]
    phalanx: Option<PathBuf>,
    /// Only compile
    #[arg(long)]
    build_only: bool,
    /// Write the result of each suite to docs/upstream.yaml; for whole suites on a committed tree
    #[arg(long, conflicts_with_all = ["run", "without_listed", "phalanx"])]
    record: bool,
    /// Let tests that are expected to fail wait as long as in Kubernetes (30 s instead of 10 s)
    #[arg(long)]
    full_wait: bool,
    /// How many suites run at the same time; a suite mostly waits
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    parallel: u8,
}

impl Args {
    /// Whether this suite runs on this server.
    fn selects(&self, suite: &UpstreamSuite, server: SuiteServer) -> bool {
        if self.fixed_set {
            return FIXED_SET.contains(&(suite.name, server));
        }
        let named = self.suite.is_empty() || self.suite.iter().any(|name| name == suite.name);
        named && self.server.is_none_or(|only| only == server)
    }

    /// Whether tests that are expected to fail run, too.
    fn runs_listed(&self) -> bool {
        !self.without_listed && !self.fixed_set
    }

    /// Whether every test of the suites runs.
    fn runs_whole_suites(&self) -> bool {
        self.run.is_none() && self.runs_listed()
    }
}

/// The API server of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SuiteServer {
    /// kube-apiserver and etcd
    Kube,
    /// `phalanx up`
    Embedded,
}

impl SuiteServer {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SuiteServer::Kube => "kube",
            SuiteServer::Embedded => "embedded",
        }
    }
}

/// Whether this suite exists.
pub fn has_suite(name: &str) -> bool {
    SUITES.iter().any(|suite| suite.name == name)
}

/// Runs the suites; an error if any outcome is not the expected one.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !ensure_programs(&["etcd"])? {
        return Ok(());
    }
    let chosen = |suite: &&UpstreamSuite| suite.servers.iter().any(|&server| args.selects(suite, server));
    let suites: Vec<&UpstreamSuite> = SUITES.iter().filter(chosen).collect();
    ensure!(!suites.is_empty(), "none of these suites runs on that server");
    let programs: Vec<PathBuf> = suites.iter().map(|suite| program::compile(suite)).collect::<anyhow::Result<_>>()?;
    if args.build_only {
        programs.iter().for_each(|program| println!("{}", program.display()));
        return Ok(());
    }
    let phalanx = match &args.phalanx {
        Some(path) => path.canonicalize().with_context(|| format!("--phalanx {}", path.display()))?,
        None => crate::test_suites::cargo_build(&["build", "--workspace", "--bin", "phalanx"], "phalanx", "bin")?,
    };
    let root = supervisor::repository_root()?;
    let lines = expectation::read(&root)?;
    // A copy: every test starts the program again, and a concurrent build must not change it.
    let copy = program::copy_program(&phalanx)?;
    let phalanx = copy.path();
    let commit = if args.record { supervisor::committed_head(&root)? } else { String::new() };
    let mut runs = Vec::new();
    for (suite, program) in suites.iter().zip(&programs) {
        let servers = suite.servers.iter().filter(|&&server| args.selects(suite, server));
        runs.extend(servers.map(|&server| SuiteRun {
            suite,
            program,
            server,
            phalanx,
            expected: Expectations::for_suite(&lines, suite.name, server),
        }));
    }
    let compared = run_parallel(args, &runs)?;
    for (run, compared) in
        runs.iter().zip(&compared).filter(|(_, compared)| compared.problems.is_empty() && args.record)
    {
        record::write(&root, run.record(compared, &commit))?;
    }
    let problems: usize = compared.iter().map(|compared| compared.problems.len()).sum();
    ensure!(problems == 0, "{problems} tests did not end as expected");
    Ok(())
}

/// One suite on one server.
struct SuiteRun<'a> {
    suite: &'a UpstreamSuite,
    program: &'a Path,
    server: SuiteServer,
    phalanx: &'a Path,
    expected: Expectations,
}

/// Runs all of them, `args.parallel` at a time, and returns their comparisons in order.
fn run_parallel(args: &Args, runs: &[SuiteRun<'_>]) -> anyhow::Result<Vec<Comparison>> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let worker = || -> anyhow::Result<Vec<(usize, Comparison)>> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(run) = runs.get(at) else { return Ok(done) };
            done.push((at, run.run(args)?));
        }
    };
    let mut done: Vec<(usize, Comparison)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..args.parallel.max(1)).map(|_| scope.spawn(worker)).collect();
        let results = workers.into_iter().map(|worker| worker.join().expect("a worker returns its errors"));
        results.collect::<anyhow::Result<Vec<_>>>().map(|done| done.into_iter().flatten().collect())
    })?;
    done.sort_by_key(|&(at, _)| at);
    Ok(done.into_iter().map(|(_, compared)| compared).collect())
}

impl SuiteRun<'_> {
    /// Runs the suite and prints unexpected outcomes.
    fn run(&self, args: &Args) -> anyhow::Result<Comparison> {
        let (start, title) = (Instant::now(), format!("{} on {}", self.suite.name, self.server.name()));
        let log = self.program.with_extension(format!("{}.log", self.server.name()));
        println!("{title}: running, log in {}", log.display());
        let mut file = File::create(&log)?;
        let separate_failing = args.runs_whole_suites();
        let skipped = match args.runs_listed() && !separate_failing {
            true => self.expected.skip_pattern(),
            false => self.expected.skip_pattern_with_failing(),
        };
        let chosen = args.run.iter().map(|regex| format!("-test.run={regex}"));
        let skipped = skipped.iter().map(|pattern| format!("-test.skip={pattern}"));
        let (mut tests, mut problems) = self.run_program(chosen.chain(skipped), &mut file, "")?;
        if let Some(failing) = self.expected.failing_pattern().filter(|_| separate_failing) {
            // Separately, because they wait for a shorter time: nearly all of them wait for a condition that never
            // becomes true.
            let seconds = if args.full_wait { "" } else { FAILING_WAIT_SECONDS };
            let skipped = self.expected.skip_pattern().map(|pattern| format!("-test.skip={pattern}"));
            let options = std::iter::once(format!("-test.run={failing}")).chain(skipped);
            let (more, wrong) = self.run_program(options, &mut file, seconds)?;
            problems.extend(wrong);
            outcome::merge(&mut tests, more);
        }
        let names = list_tests(self.program)?;
        let nothing_to_run = self.expected.missing_tests(&names, &tests, args.runs_listed()).is_empty();
        ensure!(nothing_to_run || !tests.is_empty(), "{title}: no test ran, see {}", log.display());
        let mut compared = self.expected.compare(&tests, separate_failing);
        compared.problems.extend(problems);
        compared.problems.extend(self.expected.unknown_tests(&names));
        if args.run.is_none() {
            compared.problems.extend(self.expected.missing_tests(&names, &tests, args.runs_listed()));
        }
        compared.seconds = start.elapsed().as_secs();
        for problem in &compared.problems {
            println!("{title}: {problem}");
        }
        println!(
            "{title}: {} passed, {} failed as listed, {} either, {} lines not run, {} not as expected, {} s",
            compared.passed,
            compared.failed,
            compared.either,
            self.expected.not_run_count(),
            compared.problems.len(),
            compared.seconds
        );
        Ok(compared)
    }

    /// Runs the program once and returns the outcome of each test, and other problems. `seconds`: how long a test waits
    /// for a condition.
    fn run_program(
        &self,
        options: impl Iterator<Item = String>,
        log: &mut File,
        seconds: &str,
    ) -> anyhow::Result<(BTreeMap<String, TestOutcome>, Vec<String>)> {
        let mut command = guarded(self.program)?;
        command.args(["-test.v", "-test.count=1", &format!("-test.timeout={}m", self.suite.timeout_minutes)]);
        command.args(options).env("PHALANX_BIN", self.phalanx).env("PHALANX_SUITE_HOME", self.server.name());
        let (tests, status) = run_and_parse(command.env("PHALANX_SUITE_WAIT_SECONDS", seconds), log)?;
        let mut problems = outcome::parents_failed_alone(&tests);
        problems.iter_mut().for_each(|name| name.push_str(" failed, and none of the tests below it"));
        problems.extend(outcome::status_problem(&tests, status));
        Ok((tests, problems))
    }

    fn record(&self, compared: &Comparison, commit: &str) -> SuiteRecord {
        SuiteRecord {
            suite: self.suite.name.to_owned(),
            server: self.server,
            passed: compared.passed,
            failed_as_listed: compared.failed,
            either: compared.either,
            lines_not_run: self.expected.not_run_count(),
            seconds: compared.seconds,
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            commit: commit.to_owned(),
        }
    }
}

/// The top-level tests of a program.
fn list_tests(program: &Path) -> anyhow::Result<Vec<String>> {
    let output =
        with_test_environment(&mut Command::new(program))?.arg("-test.list=^Test").output().context("listing")?;
    ensure!(output.status.success(), "-test.list: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// Sets the environment of a test program: etcd on its path, and the folder of the files next to its sources, because
/// it was compiled without paths of this machine.
fn with_test_environment(command: &mut Command) -> anyhow::Result<&mut Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(kubernetes::programs_folder()?).chain(std::env::split_paths(&path)))?;
    let modules = program::module_cache()?;
    Ok(command
        .env("TEST_SRCDIR", modules.parent().context("the module cache has a parent folder")?)
        .env("TEST_WORKSPACE", modules.file_name().context("the module cache has a name")?)
        // Never an etcd that already runs on the default port of this machine.
        .env("KUBE_INTEGRATION_ETCD_URL", "http://127.0.0.1:1")
        .env("PATH", path))
}

/// Runs the program, writes its output to `log`, and returns the outcome of each test and of the program.
fn run_and_parse(
    command: &mut Command,
    log: &mut File,
) -> anyhow::Result<(BTreeMap<String, TestOutcome>, Option<i32>)> {
    let (output, input) = std::io::pipe()?;
    let mut child = with_test_environment(command)?
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .spawn()
        .context("running the tests")?;
    // The command keeps the writing ends until it is dropped or gets new ones.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = outcome::GoTestParser::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        writeln!(log, "{line}")?;
        if let Some((name, TestOutcome::Failed)) = reader.line(&line) {
            println!("  failed: {name}");
        }
    }
    Ok((reader.into_outcomes(), child.wait()?.code()))
}
