//! docs/long-runs.yaml: which seeds each step of `cargo xtask long` has run, and docs/long-runs.md, the same as a table.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

const YAML: &str = "docs/long-runs.yaml";
const YAML_HEAD: &str = "\
# The runs of `cargo xtask long --record`, which writes this file. A run continues after the last seed of its step.
";
const TABLE: &str = "docs/long-runs.md";
const TABLE_HEAD: &str = "\
# Long runs

`cargo xtask long --record` runs the steps that are too long for CI and writes this table from [long-runs.yaml](long-runs.yaml). Each run continues with the seeds after the last recorded one. `--only STEP --seed N` repeats a seed.

| step | commit | compiler | seeds | cases | result |
| --- | --- | --- | --- | --- | --- |
";

/// One run of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LongRecord {
    /// The step.
    pub step: String,
    /// The commit that was tested.
    pub commit: String,
    /// The compiler, if it is not the pinned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// The seeds; none for a step that enumerates its cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<SeedRange>,
    /// How many cases these seeds had together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<u64>,
    /// Whether all of them passed.
    pub passed: bool,
    /// The first seed of the batch that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_seed: Option<u64>,
}

/// Seeds from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedRange {
    pub first: u64,
    pub last: u64,
}

/// All records; none if the file does not exist.
pub fn read(root: &Path) -> anyhow::Result<Vec<LongRecord>> {
    let path = root.join(YAML);
    if !path.exists() {
        return Ok(Vec::new());
    }
    parse(&std::fs::read_to_string(&path).context(YAML)?)
}

/// Adds a record and writes both files.
pub fn add(root: &Path, record: LongRecord) -> anyhow::Result<()> {
    let records = merge(read(root)?, record);
    std::fs::write(root.join(YAML), yaml(&records)?).context(YAML)?;
    std::fs::write(root.join(TABLE), table(&records)?).context(TABLE)
}

/// The seed with which the next run of a step starts: the one that failed, or the one after the last.
pub fn next_seed(records: &[LongRecord], step: &str) -> Option<u64> {
    let last = records.iter().rfind(|record| record.step == step && record.seeds.is_some())?;
    last.failed_seed.or(last.seeds.map(|seeds| seeds.last + 1))
}

/// Extends the last record of the step if the seeds follow each other on the same commit and compiler; otherwise appends.
fn merge(mut records: Vec<LongRecord>, record: LongRecord) -> Vec<LongRecord> {
    let last = records.iter_mut().rfind(|other| other.step == record.step);
    if let Some(last) = last
        && let (Some(seeds), Some(added)) = (&mut last.seeds, record.seeds)
        && (last.commit == record.commit && last.compiler == record.compiler)
        && (last.passed && record.passed && seeds.last + 1 == added.first)
    {
        seeds.last = added.last;
        last.cases = last.cases.zip(record.cases).map(|(before, added)| before + added);
    } else {
        records.push(record);
    }
    records
}

fn yaml(records: &[LongRecord]) -> anyhow::Result<String> {
    // One line per record, so that a new run is a small change of the file.
    let lines = records.iter().map(|record| Ok(format!("- {}\n", serde_json::to_string(record)?)));
    Ok(YAML_HEAD.to_owned() + &lines.collect::<anyhow::Result<String>>()?)
}

fn parse(yaml: &str) -> anyhow::Result<Vec<LongRecord>> {
    let lines = yaml.lines().filter_map(|line| line.strip_prefix("- "));
    lines.map(|line| serde_json::from_str(line).with_context(|| format!("{YAML}: {line}"))).collect()
}

fn table(records: &[LongRecord]) -> anyhow::Result<String> {
    let mut table = TABLE_HEAD.to_owned();
    for LongRecord { step, commit, compiler, seeds, cases, passed, failed_seed } in records {
        let compiler = compiler.as_deref().unwrap_or("pinned");
        let seeds = seeds.map_or("all".to_owned(), |seeds| format!("{} to {}", seeds.first, seeds.last));
        let cases = cases.map_or(String::new(), |cases| cases.to_string());
        let result = match (passed, failed_seed) {
            (true, _) => "passed".to_owned(),
            (false, Some(seed)) => format!("failed at seed {seed}"),
            (false, None) => "failed".to_owned(),
        };
        writeln!(table, "| {step} | {commit} | {compiler} | {seeds} | {cases} | {result} |")?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(step: &str, commit: &str, first: u64, last: u64) -> LongRecord {
        LongRecord {
            step: step.to_owned(),
            commit: commit.to_owned(),
            compiler: None,
            seeds: Some(SeedRange { first, last }),
            cases: Some(10),
            passed: true,
            failed_seed: None,
        }
    }

    #[test]
    fn a_run_continues_after_the_last_seed_and_repeats_one_that_failed() {
        let failed = LongRecord { passed: false, failed_seed: Some(9), ..record("api", "b", 8, 9) };
        let records = [record("api", "a", 2, 4), record("api", "a", 5, 7), record("cron", "a", 2, 2), failed];
        let records = records.into_iter().fold(Vec::new(), merge);
        assert_eq!(records.len(), 3);
        assert_eq!((records[0].seeds, records[0].cases), (Some(SeedRange { first: 2, last: 7 }), Some(20)));
        assert_eq!(next_seed(&records, "api"), Some(9));
        assert_eq!(next_seed(&records, "cron"), Some(3));
        assert_eq!(next_seed(&records, "oracles"), None);
        assert_eq!(parse(&yaml(&records).unwrap()).unwrap(), records);
    }

    #[test]
    fn runs_of_different_compilers_are_separate_records() {
        let nightly =
            |first, date: &str| LongRecord { compiler: Some(date.to_owned()), ..record("fuzz", "a", first, first) };
        let records = [nightly(2, "nightly-1"), nightly(3, "nightly-1"), nightly(4, "nightly-2")];
        let records = records.into_iter().fold(Vec::new(), merge);
        assert_eq!(records.iter().map(|record| record.cases).collect::<Vec<_>>(), [Some(20), Some(10)]);
        assert!(table(&records).unwrap().contains("| fuzz | a | nightly-2 | 4 to 4 |"));
        assert_eq!(parse(&yaml(&records).unwrap()).unwrap(), records);
    }

    #[test]
    fn the_table_is_the_file() {
        let root = supervisor::repository_root().unwrap();
        let table = table(&read(&root).unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(root.join(TABLE)).unwrap(), table);
    }
}
