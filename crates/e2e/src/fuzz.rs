//! Fuzzes external input: builds the targets of `fuzz/` with a nightly compiler, runs them one after the other and prints
//! a report. The checks are in `testkit::fuzz`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// Shown below the options.
const HELP: &str = "\
Needs a nightly compiler: rustup toolchain install nightly --profile minimal
cargo-fuzz is installed into the cache folder automatically.

Inputs that reach new code are added to fuzz/corpus for the next run, crashes to
fuzz/artifacts. To make a crash a test, copy it to fuzz/seeds/TARGET/found-WHAT, which
`cargo test -p phalanx-testkit fuzz_seeds` replays.";

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Targets to run; all of them if none is named
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// The release of cargo-fuzz; its command line and that of libFuzzer are used below.
const CARGO_FUZZ: &str = "0.13.1";

/// An input that takes longer than this is a finding, too.
const INPUT_TIMEOUT_SECONDS: u32 = 20;

/// Most of the code is safe Rust, so a sanitizer finds little. Without one, twice as many inputs run in the same time.
const SANITIZER: &str = "none";

/// Runs the targets and prints a table; an error if a target has findings.
pub fn run(args: &Args) -> anyhow::Result<()> {
    // With seed 0 libFuzzer draws one.
    run_targets(&args.targets, args.minutes * 60, "0").map(drop)
}

/// Runs all targets with this seed of libFuzzer, and returns the number of inputs.
pub fn run_all_targets(seconds: u64, seed: &str) -> anyhow::Result<u64> {
    run_targets(&[], seconds, seed)
}

fn run_targets(targets: &[String], seconds: u64, seed: &str) -> anyhow::Result<u64> {
    let folder = supervisor::repository_root()?.join("fuzz");
    let targets = select_targets(targets, &fuzz_targets(&folder)?)?;
    eprintln!("{}", nightly_version()?);
    let fuzzer = Fuzzer { program: cargo_fuzz()?, folder };
    for target in &targets {
        eprintln!("building {target}");
        fuzzer.build(target)?;
    }
    let mut reports = Vec::new();
    for target in &targets {
        eprintln!("fuzzing {target} for {seconds} s, log in {}", fuzzer.log(target).display());
        match fuzzer.run(target, seconds, seed) {
            Ok(report) => reports.push(report),
            Err(error) => {
                println!("{}", table(&reports));
                return Err(error);
            }
        }
    }
    println!("{}", table(&reports));
    let found: Vec<&PathBuf> = reports.iter().flat_map(|report| &report.new_artifacts).collect();
    for file in &found {
        println!("found: {}", file.display());
    }
    ensure!(found.is_empty(), "{} findings; see the log of the target", found.len());
    Ok(reports.iter().map(|report| report.stats.executions).sum())
}

/// All targets: the files in `fuzz/fuzz_targets`.
fn fuzz_targets(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let folder = folder.join("fuzz_targets");
    let mut known = BTreeSet::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if let (Some(stem), true) = (path.file_stem(), path.extension().is_some_and(|extension| extension == "rs")) {
            known.insert(stem.to_string_lossy().into_owned());
        }
    }
    Ok(known)
}

fn select_targets(named: &[String], known: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !known.contains(*name)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        bail!("no fuzz target {unknown:?}; there are {}", known.join(", "));
    }
    Ok(if named.is_empty() { known.iter().cloned().collect() } else { named.to_vec() })
}

/// The installed nightly compiler as it names itself: `rustc 1.97.0-nightly (e50aa6fba 2026-05-19)`. It is not pinned, so
/// a recorded run names it.
pub fn nightly_version() -> anyhow::Result<String> {
    let output = nightly(Path::new("rustc")).arg("--version").output().ok().filter(|output| output.status.success());
    let output =
        output.context("fuzzing needs a nightly compiler: rustup toolchain install nightly --profile minimal")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A command on the nightly toolchain. The variables of the pinned toolchain, which runs this task, are removed.
fn nightly(program: &Path) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly"]).arg(program).env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTFLAGS");
    command
}

/// The program; installed into the cache folder if it is missing.
fn cargo_fuzz() -> anyhow::Result<PathBuf> {
    let cache = supervisor::cache_folder()?;
    let program = cache.join(format!("tools/cargo-fuzz-{CARGO_FUZZ}/bin/cargo-fuzz"));
    if !program.is_file() {
        eprintln!("installing cargo-fuzz into {}", cache.display());
        let build = cache.join("tools-target-fuzz");
        let status = Command::new(env!("CARGO"))
            .args(["install", "cargo-fuzz", "--version", CARGO_FUZZ, "--locked", "--quiet"])
            .arg("--root")
            .arg(cache.join(format!("tools/cargo-fuzz-{CARGO_FUZZ}")))
            .arg("--target-dir")
            .arg(&build)
            .status()
            .context("cargo install")?;
        ensure!(status.success(), "cargo-fuzz cannot be installed");
        fs::remove_dir_all(&build).with_context(|| build.display().to_string())?;
    }
    Ok(program)
}

/// cargo-fuzz on the folder with the targets.
struct Fuzzer {
    program: PathBuf,
    folder: PathBuf,
}

impl Fuzzer {
    fn command(&self, verb: &str, target: &str) -> Command {
        let mut command = nightly(&self.program);
        command.args([verb, "--sanitizer", SANITIZER, "--fuzz-dir"]).arg(&self.folder).arg(target);
        command.current_dir(&self.folder);
        command
    }

    fn log(&self, target: &str) -> PathBuf {
        self.folder.join("artifacts").join(format!("{target}.log"))
    }

    fn build(&self, target: &str) -> anyhow::Result<()> {
        let status = self.command("build", target).status().context("cargo-fuzz build")?;
        ensure!(status.success(), "the fuzz target {target} does not build");
        Ok(())
    }

    fn run(&self, target: &str, seconds: u64, seed: &str) -> anyhow::Result<TargetReport> {
        let corpus = self.folder.join("corpus").join(target);
        let artifacts = self.folder.join("artifacts").join(target);
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let before = failing_inputs(&artifacts)?;
        let log = self.log(target);
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let status = self
            .command("run", target)
            .args([&corpus, &self.folder.join("seeds").join(target)])
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-seed={seed}"))
            .arg(format!("-timeout={INPUT_TIMEOUT_SECONDS}"))
            .arg("-print_final_stats=1")
            .stdout(file.try_clone()?)
            .stderr(file)
            .status()
            .context("cargo-fuzz run")?;
        let found: Vec<PathBuf> = failing_inputs(&artifacts)?.difference(&before).cloned().collect();
        let text = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
        ensure!(!text.contains("libFuzzer: run interrupted"), "{target} was stopped before its time was over");
        ensure!(status.success() || !found.is_empty(), "{target} ended with {status}; see {}", log.display());
        Ok(TargetReport { target: target.to_owned(), stats: FuzzStats::read(&text), new_artifacts: found })
    }
}

/// The inputs that failed. Slow inputs are in the same folder, but do not count: a suspended machine makes any input slow.
fn failing_inputs(folder: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("slow-unit-") {
            files.insert(entry.path());
        }
    }
    Ok(files)
}

/// The result of one target.
struct TargetReport {
    target: String,
    stats: FuzzStats,
    /// New files in its folder of artifacts.
    new_artifacts: Vec<PathBuf>,
}

/// The statistics that libFuzzer prints.
#[derive(Debug, Default, PartialEq, Eq)]
struct FuzzStats {
    executions: u64,
    per_second: u64,
    /// Covered edges of the program.
    coverage: u64,
    /// Inputs in the corpus: each reaches code that no other input reaches.
    corpus: u64,
}

impl FuzzStats {
    /// Reads `#12 NEW cov: 345 ft: 678 corp: 9/12Kb …` and `stat::number_of_executed_units: 12`; the last one counts.
    fn read(log: &str) -> FuzzStats {
        let mut figures = FuzzStats::default();
        for line in log.lines() {
            let after = |name: &str| {
                let text = line.split_once(name)?.1.trim_start();
                text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()
            };
            let set = |figure: &mut u64, value: Option<u64>| *figure = value.unwrap_or(*figure);
            if line.starts_with('#') {
                set(&mut figures.coverage, after(" cov: "));
                set(&mut figures.corpus, after(" corp: "));
            }
            set(&mut figures.executions, after("stat::number_of_executed_units:"));
            set(&mut figures.per_second, after("stat::average_exec_per_sec:"));
        }
        figures
    }
}

fn table(reports: &[TargetReport]) -> String {
    let head = ["target", "executions", "per second", "coverage", "corpus", "findings"].map(str::to_owned);
    let row = |report: &TargetReport| {
        let FuzzStats { executions, per_second, coverage, corpus } = report.stats;
        let numbers = [executions, per_second, coverage, corpus, report.new_artifacts.len() as u64];
        let [executions, per_second, coverage, corpus, found] = numbers.map(|number| number.to_string());
        [report.target.clone(), executions, per_second, coverage, corpus, found]
    };
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(reports.iter().map(row)).collect();
    let lines = rows.iter().map(|[target, numbers @ ..]| {
        let numbers: String = numbers.iter().map(|number| format!("{number:>12}")).collect();
        format!("{target:<16}{numbers}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_figures_of_a_log_count() {
        let log = "#2\tINITED cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 40Mb\n\
                   noise cov: 9\n\
                   #4096\tNEW    cov: 1234 ft: 5678 corp: 56/7890b lim: 43 exec/s: 2048 rss: 60Mb L: 9/43\n\
                   stat::number_of_executed_units: 5000\n\
                   stat::average_exec_per_sec:     2500\n";
        let want = FuzzStats { executions: 5000, per_second: 2500, coverage: 1234, corpus: 56 };
        assert_eq!(FuzzStats::read(log), want);
        assert_eq!(FuzzStats::read(""), FuzzStats::default());
    }

    #[test]
    fn targets_are_the_files_there_are_and_each_has_seeds() {
        let folder = supervisor::repository_root().expect("the workspace").join("fuzz");
        let known = fuzz_targets(&folder).expect("the targets");
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("the manifest");
        assert!(!known.is_empty());
        for target in &known {
            assert!(folder.join("seeds").join(target).is_dir(), "{target} has no seeds");
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target} is not in fuzz/Cargo.toml");
        }
        assert_eq!(select_targets(&[], &known).expect("all"), known.iter().cloned().collect::<Vec<_>>());
        let error = select_targets(&["bodies".to_owned()], &known).expect_err("no such target").to_string();
        assert!(error.contains("\"bodies\"; there are body, continue_token"), "{error}");
    }

    #[test]
    fn a_report_is_one_line_in_columns() {
        let figures = FuzzStats { executions: 5, per_second: 1, coverage: 7, corpus: 2 };
        let report =
            TargetReport { target: "body".to_owned(), stats: figures, new_artifacts: vec![PathBuf::from("crash-1")] };
        let text = table(&[report]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["body", "5", "1", "7", "2", "1"]);
    }
}
