//! The runs that are too long for CI: `cargo xtask long`.
//!
//! A step with seeds runs one batch of seeds after the other, from the seed after the last recorded one. `--minutes` is
//! divided between the steps. A step without seeds runs as a whole, if enough time is left.

mod record; // docs/long-runs.yaml and its table

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::fuzz;
use record::{LongRecord, SeedRange};

/// Options of `cargo xtask long`.
#[derive(clap::Args)]
pub struct Args {
    /// Time for all steps; each step with seeds gets an equal share of what is left [default: ten batches of each step]
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Only this step (may be given several times)
    #[arg(long, value_name = "STEP")]
    only: Vec<LongStep>,
    /// The first seed [default: after the last recorded seed of the step; a seed that failed is repeated]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write seeds and results to docs/long-runs.yaml; needs a committed tree
    #[arg(long)]
    record: bool,
}

/// A step that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LongStep {
    /// The scheduler core against exhaustive search and rebuilt indexes, four times the cases of CI in each seed
    Oracles,
    /// Random changes, after which every waiting unit is decided by exhaustive search, 100,000 changes in each seed
    Changes,
    /// Power cuts at 24,000 places of the store's writes in each batch of 24 seeds
    PowerCuts,
    /// Mutated seeds of the fuzz targets, 5,000 inputs of each target in each seed
    Mutations,
    /// libFuzzer on every fuzz target, a minute of each in each seed (needs a nightly compiler)
    Fuzz,
    /// Responses of our API server compared with those of kube-apiserver
    Api,
    /// Workloads and PodGroups compared with those of kube-controller-manager
    Builder,
    /// Schedules compared with the library of CronJobs, 20,000 in each seed
    Cron,
    /// Filters and scores compared with the plugins of kube-scheduler, 2,000 clusters in each seed
    Plugins,
    /// Placements of mixed gangs against an exact solver and planted ones, 70,000 clusters in each seed
    Solver,
    /// Each fault of a bind at every bind of a gang of 80, on virtual time
    LostBinds,
    /// All integration suites of Kubernetes on our components, each on all its servers
    Upstream,
}

/// Batches of a step with seeds without `--minutes`.
const DEFAULT_BATCHES: u64 = 10;
/// The factor on the number of cases that a property has in CI.
const ORACLE_CASES_FACTOR: &str = "4";
/// The same for the histories of changes.
const CHANGES_FACTOR: &str = "16";
const POWER_CUTS: &str = "24000";
const MUTATED_INPUTS: &str = "5000";
const FUZZ_SECONDS: u64 = 60;
const SOLVER_CASES_FACTOR: &str = "100";

impl LongStep {
    /// The name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// How many seeds one batch has; `None` for a step without seeds.
    fn batch_seeds(self) -> Option<u64> {
        match self {
            LongStep::PowerCuts => Some(24),
            LongStep::LostBinds | LongStep::Upstream => None,
            _ => Some(1),
        }
    }

    /// The first seed that CI does not run.
    fn first_seed(self) -> u64 {
        if self == LongStep::PowerCuts { 24 } else { 2 }
    }

    /// How long a step without seeds takes on two cores.
    fn min_minutes(self) -> u64 {
        match self {
            LongStep::Upstream => 60,
            LongStep::LostBinds => 10,
            _ => 0,
        }
    }

    /// Runs one batch, or a step without seeds, and returns the number of cases; `None` where they are not counted.
    fn run(self, seed: u64, record: bool) -> anyhow::Result<Option<u64>> {
        let seed = &*seed.to_string();
        let compare = |suite: &str, options: &[&str]| {
            conformance(&[&["conformance", suite, "--seed", seed], options].concat()).map(Some)
        };
        match self {
            LongStep::Oracles => {
                let environment = [("PROPTEST_RNG_SEED", seed), ("PHALANX_CASES_FACTOR", ORACLE_CASES_FACTOR)];
                run_tests(&["phalanx-scheduler-core", "--lib", "tests::"], &environment).map(Some)
            }
            LongStep::Changes => {
                let environment = [("PROPTEST_RNG_SEED", seed), ("PHALANX_CASES_FACTOR", CHANGES_FACTOR)];
                run_tests(&["phalanx-scheduler-core", "--release", "--lib", "tests::oracle::"], &environment).map(Some)
            }
            LongStep::PowerCuts => {
                let environment = [("PHALANX_CRASH_SEED", seed), ("PHALANX_CRASH_CUTS", POWER_CUTS)];
                run_tests(&["phalanx-store", "--test", "crash"], &environment).map(Some)
            }
            LongStep::Mutations => {
                let environment = [("PHALANX_FUZZ_SEED", seed), ("PHALANX_FUZZ_INPUTS", MUTATED_INPUTS)];
                run_tests(&["phalanx-testkit", "--test", "it", "fuzz_mutations::"], &environment).map(Some)
            }
            LongStep::Fuzz => fuzz::run_all_targets(FUZZ_SECONDS, seed).map(Some),
            LongStep::Api => compare("api", &[]),
            LongStep::Builder => compare("builder", &[]),
            LongStep::Cron => compare("cron", &["--cases", "20000"]),
            LongStep::Plugins => compare("scheduler", &["--cases", "2000", "--end-to-end", "0"]),
            LongStep::Solver => {
                let environment = [("PROPTEST_RNG_SEED", seed), ("PHALANX_CASES_FACTOR", SOLVER_CASES_FACTOR)];
                run_tests(&["phalanx-scheduler-core", "--release", "--lib", "tests::solver::"], &environment).map(Some)
            }
            LongStep::LostBinds => {
                let selection = ["phalanx-testkit", "--test", "it", "lost_binds::"];
                run_tests(&selection, &[("PHALANX_EVERY_BIND", "1")]).map(|_| None)
            }
            LongStep::Upstream => {
                let record: &[&str] = if record { &["--record"] } else { &[] };
                conformance(&[&["kube", "upstream", "--parallel", "4"], record].concat()).map(|_| None)
            }
        }
    }
}

/// Runs the steps; an error if one of them failed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (start, root) = (Instant::now(), supervisor::repository_root()?);
    let commit = if args.record { supervisor::committed_head(&root)? } else { String::new() };
    let is_selected = |step: &&LongStep| args.only.is_empty() || args.only.contains(step);
    let steps: Vec<LongStep> = LongStep::value_variants().iter().filter(is_selected).copied().collect();
    let mut failed = Vec::new();
    for (index, &step) in steps.iter().enumerate() {
        let left = args.minutes.map(|minutes| Duration::from_secs(minutes * 60).saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left < Duration::from_secs(step.min_minutes() * 60)) {
            println!("left out: {}, which takes {} minutes", step.name(), step.min_minutes());
            continue;
        }
        let seeded_steps = steps[index..].iter().filter(|step| step.batch_seeds().is_some()).count();
        let share = left.map(|left| left / u32::try_from(seeded_steps.max(1)).unwrap_or(1));
        let first_seed = match args.seed {
            Some(seed) => seed,
            None => record::next_seed(&record::read(&root)?, &step.name()).unwrap_or(step.first_seed()),
        };
        let (record, result) = run_step(step, first_seed, share, args.record);
        if let Err(error) = result {
            println!("{}: failed: {error:#}", step.name());
            failed.push(step.name());
        }
        if args.record {
            record::add(&root, LongRecord { commit: commit.clone(), ..record })?;
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Runs batches of a step, at least one, until its share of the time is over or one fails.
fn run_step(
    step: LongStep,
    first_seed: u64,
    share: Option<Duration>,
    record: bool,
) -> (LongRecord, anyhow::Result<()>) {
    let start = Instant::now();
    let mut summary = LongRecord { step: step.name(), passed: true, ..LongRecord::default() };
    // Without a nightly compiler the step itself fails, with the command that installs one.
    summary.compiler = (step == LongStep::Fuzz).then(fuzz::nightly_version).and_then(Result::ok);
    let Some(batch_seeds) = step.batch_seeds() else {
        let result = step.run(0, record);
        summary.passed = result.is_ok();
        println!("{}: {} s", step.name(), start.elapsed().as_secs());
        return (summary, result.map(drop));
    };
    for batch in 0.. {
        let seed = first_seed + batch * batch_seeds;
        let batch_start = Instant::now();
        let result = step.run(seed, record).and_then(|cases| cases.filter(|cases| *cases > 0).context("no case ran"));
        let seeds = SeedRange { first: first_seed, last: seed + batch_seeds - 1 };
        summary.seeds = Some(seeds);
        match result {
            Ok(cases) => *summary.cases.get_or_insert_default() += cases,
            Err(error) => {
                summary.passed = false;
                // The next run starts with the batch that failed.
                summary.failed_seed = Some(seed);
                return (summary, Err(error.context(format!("seed {seed}"))));
            }
        }
        let batch_time = batch_start.elapsed();
        println!(
            "{}: seed {} passed in {:.1} s, {} cases so far",
            step.name(),
            seeds.last,
            batch_time.as_secs_f64(),
            summary.cases.unwrap_or_default()
        );
        let is_over = share.map_or(batch + 1 == DEFAULT_BATCHES, |share| start.elapsed() + batch_time > share);
        if is_over {
            break;
        }
    }
    (summary, Ok(()))
}

/// Runs tests of a package and returns their number of cases.
fn run_tests(selection: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<u64> {
    cargo(&[&["test", "--quiet", "--locked", "--package"], selection, &["--", "--nocapture"]].concat(), environment)
}

fn conformance(arguments: &[&str]) -> anyhow::Result<u64> {
    cargo(&[&["run", "--quiet", "--locked", "--package", "phalanx-conformance", "--"], arguments].concat(), &[])
}

/// Runs cargo in the workspace, passes its output on, and returns the number of cases in it.
fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<u64> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(supervisor::repository_root()?)
        .stdout(Stdio::piped())
        .spawn()
        .context("running cargo")?;
    let mut cases = 0;
    for line in BufReader::new(child.stdout.take().context("standard output is a pipe")?).lines() {
        let line = line?;
        println!("  {line}");
        cases += cases_in(&line);
    }
    let status = child.wait()?;
    ensure!(status.success(), "cargo {} ended with {status}", arguments.join(" "));
    Ok(cases)
}

/// The cases that a line of output reports: `cases: 5`, `seed 2, 5 cases, …`, or `5 Jobs, …` and similar.
fn cases_in(line: &str) -> u64 {
    let number = |text: &str| text.trim().parse().unwrap_or(0);
    // The test harness may have written dots or the name of a test before.
    if let Some((_, count)) = line.rsplit_once("cases: ") {
        return number(count);
    }
    if let Some(words) = line.strip_prefix("seed ") {
        return words.split(", ").find_map(|part| part.strip_suffix(" cases")).map_or(0, number);
    }
    let mut words = line.split([' ', ',', ':']);
    let count = words.next().map_or(0, number);
    if matches!(words.next(), Some("schedules" | "clusters" | "Jobs" | "trees")) { count } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::cases_in;

    #[test]
    fn the_cases_of_every_suite_are_counted() {
        for (line, cases) in [
            ("cases: 1200", 1200),
            ("..cases: 1200", 1200),
            ("seed 2, 4410 cases, 61.0 s", 4410),
            ("20000 schedules: 9 refused, 7 times of the others compared, 0 differ", 20000),
            ("2003 clusters: 5 pairs, 0 differ", 2003),
            ("200 Jobs, 400 objects compared, 0 differ", 200),
            ("test result: ok. 3 passed; 0 failed", 0),
            ("", 0),
        ] {
            assert_eq!(cases_in(line), cases, "{line}");
        }
    }
}
