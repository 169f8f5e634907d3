//! Kubernetes' own integration suites, run on our components: `cargo xtask kube upstream`.
//!
//! In: the test packages of the Go module, as they were published. Out: for each suite and home how many tests passed, how
//! many are listed in tests/kube/upstream/expectations.yaml, and an error for every other outcome.
//! Promises: an edit of a package that does not apply exactly as often as expected is an error; no line of Kubernetes'
//! tests enters this repository.

mod edit; // Go source with its seam in place
mod expectation; // the tests that do not simply have to pass
mod outcome; // what a Go test program printed
mod program; // a package copied, edited and compiled into the cache folder
mod suite; // the suites and their seams

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::Deserialize;

use self::expectation::{Comparison, Expectations};
use self::outcome::Outcome;
use self::suite::{SUITES, Suite};
use super::{guarded, programs_are_there};

/// Options of `cargo xtask kube upstream`.
#[derive(Default, clap::Args)]
pub struct Args {
    /// Only this suite (may be given several times)
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(SUITES.iter().map(|suite| suite.name)))]
    suite: Vec<String>,
    /// Only on this home [default: each home that a suite has]
    #[arg(long)]
    home: Option<Home>,
    /// Only the tests that this regular expression of Go means; lines that mean no test are then not looked for
    #[arg(long, value_name = "REGEX")]
    run: Option<String>,
    /// Leave out the tests that are expected to fail
    #[arg(long)]
    without_listed: bool,
    /// The program under test [default: a debug build of this checkout]
    #[arg(long, value_name = "FILE")]
    phalanx: Option<PathBuf>,
    /// Only compile
    #[arg(long)]
    build_only: bool,
}

/// The API server of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Home {
    /// kube-apiserver and etcd
    Kube,
    /// `phalanx up`
    Embedded,
}

impl Home {
    fn name(self) -> &'static str {
        match self {
            Home::Kube => "kube",
            Home::Embedded => "embedded",
        }
    }
}

/// Runs the suites; an error where any outcome is not the expected one.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !programs_are_there(&["etcd"])? {
        return Ok(());
    }
    let chosen = |suite: &&Suite| args.suite.is_empty() || args.suite.iter().any(|name| name == suite.name);
    let suites: Vec<&Suite> = SUITES.iter().filter(chosen).collect();
    let programs: Vec<PathBuf> = suites.iter().map(|suite| program::compile(suite)).collect::<anyhow::Result<_>>()?;
    if args.build_only {
        programs.iter().for_each(|program| println!("{}", program.display()));
        return Ok(());
    }
    let phalanx = match &args.phalanx {
        Some(path) => path.canonicalize().with_context(|| format!("--phalanx {}", path.display()))?,
        None => super::suites::built(&["build", "--workspace", "--bin", "phalanx"], "phalanx", "bin")?,
    };
    let lines = expectation::read(&crate::repository_root()?)?;
    let mut problems = 0;
    for (suite, program) in suites.iter().zip(&programs) {
        for &home in suite.homes.iter().filter(|&&home| args.home.is_none_or(|only| only == home)) {
            let expected = Expectations::of(&lines, suite.name, home);
            let compared = one(args, suite, program, home, &phalanx, &expected)?;
            problems += compared.problems.len();
        }
    }
    ensure!(problems == 0, "{problems} tests did not end as expected");
    Ok(())
}

/// Runs one suite on one home and prints what is not as expected.
fn one(
    args: &Args,
    suite: &Suite,
    program: &Path,
    home: Home,
    phalanx: &Path,
    expected: &Expectations,
) -> anyhow::Result<Comparison> {
    let start = Instant::now();
    let log = program.with_extension(format!("{}.log", home.name()));
    println!("{} on {}: running, log in {}", suite.name, home.name(), log.display());
    let skipped = if args.without_listed { expected.skipped_with_failing() } else { expected.skipped() };
    let mut command = guarded(program)?;
    command.args(["-test.v", "-test.count=1", &format!("-test.timeout={}m", suite.minutes_max)]);
    command.args(args.run.iter().map(|regex| format!("-test.run={regex}")));
    command.args(skipped.iter().map(|pattern| format!("-test.skip={pattern}")));
    let tests = follow(command.env("PHALANX_BIN", phalanx).env("PHALANX_SUITE_HOME", home.name()), &log)?;
    ensure!(!tests.is_empty(), "{} on {}: no test ran, see {}", suite.name, home.name(), log.display());
    let compared = expected.compare(&tests, args.run.is_none() && !args.without_listed);
    for problem in &compared.problems {
        println!("{} on {}: {problem}", suite.name, home.name());
    }
    let (passed, listed, seconds) = (compared.passed, compared.listed, start.elapsed().as_secs());
    println!(
        "{} on {}: {passed} passed, {listed} listed, {} not as expected, {seconds} s",
        suite.name,
        home.name(),
        compared.problems.len()
    );
    Ok(compared)
}

/// Runs the program with etcd on its path, keeps all it prints in `log`, and returns how each test ended.
fn follow(command: &mut Command, log: &Path) -> anyhow::Result<std::collections::BTreeMap<String, Outcome>> {
    let folder = super::build::folder()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path)))?;
    let (output, input) = std::io::pipe()?;
    // Programs without paths of this machine find the files beside their sources by these two.
    let modules = program::module_cache()?;
    let mut child = command
        .env("TEST_SRCDIR", modules.parent().context("the module cache lies in a folder")?)
        .env("TEST_WORKSPACE", modules.file_name().context("the module cache has a name")?)
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .spawn()
        .context("running the tests")?;
    // The command keeps the writing ends until it is given new ones.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut file, mut reader) = (File::create(log)?, outcome::Reader::default());
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        writeln!(file, "{line}")?;
        if let Some((name, Outcome::Failed)) = reader.line(&line) {
            println!("  failed: {name}");
        }
    }
    child.wait()?;
    Ok(reader.tests())
}
