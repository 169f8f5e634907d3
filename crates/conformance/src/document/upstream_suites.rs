//! The table of Kubernetes' own suites in docs/conformance.md, from docs/upstream.yaml.

use std::fmt::Write as _;

use crate::upstream::SuiteRecord;

const HEAD: &str = "
# Kubernetes' own suites on our components

`cargo xtask kube upstream` runs the published integration suites of Kubernetes 1.37.1 with our components instead of its
own. *passed* and *failed as listed* count tests without subtests. Every test that is not expected to pass is listed in
[expectations.yaml](../tests/kube/upstream/expectations.yaml) with its reason. A test that is listed as failing and passes
is an error. *not run* counts lines of that file, each for one test or a family of tests. The figures are those of the
named commit.

| suite | on | passed | failed as listed | either | not run | total | date | commit |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

/// The table.
pub fn render(records: &[SuiteRecord]) -> anyhow::Result<String> {
    let mut text = HEAD.to_owned();
    for record in records {
        let total = record.passed + record.failed_as_listed + record.either;
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {total} | {} | {} |",
            record.suite,
            record.server.name(),
            record.passed,
            record.failed_as_listed,
            record.either,
            record.lines_not_run,
            record.date,
            record.commit
        )?;
    }
    Ok(text)
}
