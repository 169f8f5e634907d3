//! The tests of upstream for the components that we replace, and our tests that show the same: docs/inventory.yaml.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::open_rules::OpenRules;
use super::test_index::TestIndex;

const HEAD: &str = "
# What Kubernetes tests

From [inventory.yaml](inventory.yaml): each test of Kubernetes 1.37.1 for the components that this project replaces, with
its claim in our words, then what these tests do not cover, and where this project differs. *embedded*: the whole control
plane on virtual time. *kube*: our components on the real control plane (`cargo xtask kube test`). *unit*: a unit test.
*suite*: the suite of Kubernetes that has the test itself and runs on our components (below).
";

/// A section of the inventory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InventoryArea {
    /// The heading.
    pub area: String,
    /// In the order of the file.
    pub rows: Vec<InventoryRow>,
}

/// One claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InventoryRow {
    /// `U-` and the name of a test, or a short name of our own.
    pub id: String,
    /// The claim.
    pub claim: String,
    /// The suite of Kubernetes that has this test and runs on our components (docs/upstream.yaml).
    pub suite: Option<String>,
}

/// Reads the file.
pub fn read(root: &Path) -> anyhow::Result<Vec<InventoryArea>> {
    let path = root.join("docs/inventory.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let areas: Vec<InventoryArea> = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
    let mut ids = BTreeSet::new();
    for row in areas.iter().flat_map(|area| &area.rows) {
        ensure!(row.id.starts_with("U-"), "{}: {}: an id begins with U-", path.display(), row.id);
        ensure!(ids.insert(&row.id), "{}: {} is a duplicate", path.display(), row.id);
        if let Some(suite) = &row.suite {
            ensure!(crate::upstream::has_suite(suite), "{}: {}: there is no suite {suite}", path.display(), row.id);
        }
    }
    Ok(areas)
}

/// The tables. Adds ids and headings to `known` and `headings`.
pub fn render(
    areas: &[InventoryArea],
    shown: &TestIndex,
    open: &OpenRules,
    known: &mut BTreeSet<String>,
    headings: &mut BTreeSet<String>,
) -> anyhow::Result<String> {
    let mut text = HEAD.to_owned();
    for InventoryArea { area, rows } in areas {
        headings.insert(area.clone());
        write!(text, "\n## {area}\n\n| id | what holds | shown by | on |\n| --- | --- | --- | --- |\n")?;
        for InventoryRow { id, claim, suite } in rows {
            let (mut by, on) = match shown.get(id) {
                Some(tests) => {
                    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
                    let environments: BTreeSet<&str> =
                        tests.iter().flat_map(|test| test.environments).copied().collect();
                    (names.join("<br>"), environments.into_iter().collect::<Vec<_>>().join(", "))
                }
                None => (format!("*open*: {}", open.reason(area, id)?), String::new()),
            };
            if let Some(suite) = suite {
                let _ = write!(by, "<br>suite: `{suite}`");
            }
            writeln!(text, "| {id} | {} | {} | {on} |", claim.replace('|', "\\|"), by.replace('|', "\\|"))?;
            known.insert(id.clone());
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::test_index::IndexedTest;
    use super::*;

    #[test]
    fn a_row_has_its_tests_and_their_environments() {
        let row = |id: &str| InventoryRow { id: id.to_owned(), claim: "a claim".to_owned(), suite: None };
        let covered = InventoryRow { suite: Some("job".to_owned()), ..row("U-a") };
        let areas = [InventoryArea { area: "Jobs".to_owned(), rows: vec![covered, row("U-b")] }];
        let test = |name: &str, environments| IndexedTest { name: name.to_owned(), environments };
        let tests = [test("testkit: `t`", &["embedded", "kube"]), test("api: `s`", &["unit"][..])];
        let shown: TestIndex = [("U-a".to_owned(), tests.into())].into();
        let mut open = OpenRules::default();
        open.areas.insert("Jobs".to_owned(), "Soon".to_owned());
        let (mut known, mut headings) = (BTreeSet::new(), BTreeSet::new());
        assert!(render(&areas, &shown, &open, &mut known, &mut headings).is_err(), "there is no such reason");
        open.reasons.insert("Soon".to_owned(), "comes soon".to_owned());
        let text = render(&areas, &shown, &open, &mut known, &mut headings).unwrap();
        for line in [
            "| U-a | a claim | api: `s`<br>testkit: `t`<br>suite: `job` | embedded, kube, unit |",
            "| U-b | a claim | *open*: comes soon |  |",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!((known.len(), headings.len()), (2, 1));
    }
}
