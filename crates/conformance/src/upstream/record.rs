//! docs/upstream.yaml: the result of the last whole run of each suite on each server.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::SuiteServer;
use super::suite::SUITES;

const HEAD: &str = "\
# The results of the last whole run of each of Kubernetes' own suites on our components. `cargo xtask kube upstream --record`
# writes this file; `cargo xtask conformance` makes a table of it.
";

/// One suite on one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SuiteRecord {
    /// The suite.
    pub suite: String,
    /// The API server.
    pub server: SuiteServer,
    /// Tests that passed as expected; parents are not counted.
    pub passed: usize,
    /// Tests that are listed as failing and failed.
    pub failed_as_listed: usize,
    /// Tests that may pass or fail.
    pub either: usize,
    /// Lines of expectations.yaml whose tests are not run.
    pub lines_not_run: usize,
    /// How long it took.
    pub seconds: u64,
    /// The day of the run.
    pub date: String,
    /// The commit that was tested.
    pub commit: String,
}

/// The records, in the order of the suites; none if the file does not exist.
pub fn read(root: &Path) -> anyhow::Result<Vec<SuiteRecord>> {
    let path = file(root);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
}

/// Replaces the record of the same suite and server.
pub fn write(root: &Path, record: SuiteRecord) -> anyhow::Result<()> {
    let records = replace_record(read(root)?, record);
    let path = file(root);
    std::fs::write(&path, format!("{HEAD}{}", text(&records)?)).with_context(|| path.display().to_string())
}

fn file(root: &Path) -> PathBuf {
    root.join("docs/upstream.yaml")
}

fn replace_record(mut records: Vec<SuiteRecord>, record: SuiteRecord) -> Vec<SuiteRecord> {
    records.retain(|other| (&other.suite, other.server) != (&record.suite, record.server));
    records.push(record);
    let position = |name: &str| SUITES.iter().position(|suite| suite.name == name);
    records.sort_by_key(|record| (position(&record.suite), record.server));
    records
}

fn text(records: &[SuiteRecord]) -> anyhow::Result<String> {
    // One line per record, so that a new run is a small change of the file.
    let lines = records.iter().map(|record| Ok(format!("- {}\n", serde_json::to_string(record)?)));
    lines.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_new_record_replaces_the_old_one_and_the_file_round_trips() {
        let record = |suite: &str, server, passed| SuiteRecord {
            suite: suite.to_owned(),
            server,
            passed,
            failed_as_listed: 1,
            either: 0,
            lines_not_run: 2,
            seconds: 3,
            date: "2026-01-01".to_owned(),
            commit: "abc".to_owned(),
        };
        let records = [
            record("cronjob", SuiteServer::Kube, 1),
            record("job", SuiteServer::Embedded, 2),
            record("job", SuiteServer::Kube, 3),
        ];
        let records = records.into_iter().fold(Vec::new(), replace_record);
        let records = replace_record(records, record("job", SuiteServer::Embedded, 4));
        let order: Vec<(&str, usize)> = records.iter().map(|record| (record.suite.as_str(), record.passed)).collect();
        assert_eq!(order, [("job", 3), ("job", 4), ("cronjob", 1)]);
        let read: Vec<SuiteRecord> = serde_saphyr::from_str(&format!("{HEAD}{}", text(&records).unwrap())).unwrap();
        assert_eq!(read, records);
    }
}
