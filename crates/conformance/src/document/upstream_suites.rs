//! The table of Kubernetes' own suites in docs/conformance.md, from docs/upstream.yaml.

use std::fmt::Write as _;

use crate::upstream::SuiteRecord;

const HEAD: &str = "
# Kubernetes' own suites on our components

`cargo xtask kube upstream` runs the integration suites of Kubernetes 1.37.1 as they were published, with our components in
the place of its own. *passed* and *failed as listed* count tests without tests below them. Every test that is not to pass
stands in [expectations.yaml](../tests/kube/upstream/expectations.yaml) with its reason, and a listed test that passes is an
error. *not run* counts lines of that file, each for one test or a family of tests. The figures are of the commit named.

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
