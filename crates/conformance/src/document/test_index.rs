//! The ids that each test shows, and where it runs, from the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::test_suites::runs_on_kube;

/// The tests that show each id.
pub type TestIndex = BTreeMap<String, BTreeSet<IndexedTest>>;

/// A test that shows an id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexedTest {
    /// As `crate: name`.
    pub name: String,
    /// Where it runs.
    pub environments: &'static [&'static str],
}

/// The files of tests that run a whole control plane.
const CONTROL_PLANE_TESTS: &str = "crates/testkit/tests/it/";
/// Functions that run a test on both test clusters.
const BOTH_MARKERS: [&str; 2] = ["on_test_cluster(", "on_shared_test_cluster("];

/// The tests of all crates by their ids.
pub fn tests_by_id(root: &Path) -> anyhow::Result<TestIndex> {
    let mut shown = TestIndex::new();
    for file in tracked_files(root)? {
        let name = file.to_string_lossy().into_owned();
        if !name.ends_with(".rs") || name.starts_with("crates/conformance/") {
            continue;
        }
        let crate_name = name.split('/').nth(1).unwrap_or_default().to_owned();
        let text = fs::read_to_string(root.join(&file))?;
        for found in tests_in(&text).with_context(|| name.clone())? {
            let environments = environments(&name, &found)?;
            for id in found.ids {
                let test = IndexedTest { name: format!("{crate_name}: `{}`", found.test), environments };
                shown.entry(id).or_default().insert(test);
            }
        }
    }
    Ok(shown)
}

/// The files that git tracks or would add.
fn tracked_files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git ls-files")?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(PathBuf::from).filter(|file| root.join(file).is_file()).collect())
}

fn environments(file: &str, found: &AnnotatedTest<'_>) -> anyhow::Result<&'static [&'static str]> {
    let Some(module) = file.strip_prefix(CONTROL_PLANE_TESTS).and_then(|file| file.strip_suffix(".rs")) else {
        return Ok(&["unit"]);
    };
    if !found.runs_on_both {
        return Ok(&["embedded"]);
    }
    let path = format!("{}::{}", module.replace('/', "::"), found.test);
    ensure!(
        runs_on_kube(&path),
        "{path} is for both test clusters, but no suite of `cargo xtask kube test` contains it"
    );
    Ok(&["embedded", "kube"])
}

/// A test, its ids, and whether it runs on both test clusters.
#[derive(Debug, PartialEq, Eq)]
struct AnnotatedTest<'a> {
    test: &'a str,
    ids: Vec<String>,
    runs_on_both: bool,
}

/// The tests of a file that show an id.
fn tests_in(text: &str) -> anyhow::Result<Vec<AnnotatedTest<'_>>> {
    let (mut all, mut pending, mut is_test) = (Vec::new(), Vec::new(), false);
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n').or((!rest.is_empty()).then_some((rest, ""))) {
        rest = after;
        let (line, indent) = (line.trim(), line.len() - line.trim_start().len());
        if let Some(ids) = line.strip_prefix("// Shows: ") {
            pending.extend(ids.split(',').map(|id| id.trim().to_owned()));
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if !line.starts_with("//") && !line.starts_with("#[") {
            if !pending.is_empty() {
                let test = function_name(line).filter(|_| is_test);
                let test = test.with_context(|| format!("`// Shows: {}` is not above a test", pending.join(", ")))?;
                let end = format!("\n{}}}", " ".repeat(indent));
                let body = rest.split(&end).next().unwrap_or_default();
                let on_both = BOTH_MARKERS.iter().any(|begin| body.contains(begin));
                all.push(AnnotatedTest { test, ids: std::mem::take(&mut pending), runs_on_both: on_both });
            }
            is_test = false;
        }
    }
    ensure!(pending.is_empty(), "`// Shows: {}` is not above a test", pending.join(", "));
    Ok(all)
}

fn function_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))?;
    rest.split('(').next()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_id_belongs_to_the_test_below_it() {
        let test = "// Shows: S1, S2\n// Shows: S3\n#[tokio::test(start_paused = true)]\nasync fn holds() {\n";
        let ids = ["S1", "S2", "S3"].map(str::to_owned).to_vec();
        assert_eq!(tests_in(test).unwrap(), [AnnotatedTest { test: "holds", ids, runs_on_both: false }]);
        for stray in ["// Shows: S1\nfn helper() {\n", "// Shows: S1\n\n#[test]\nfn a() {\n", "// Shows: S1\n"] {
            assert!(tests_in(stray).is_err(), "{stray}");
        }
    }

    #[test]
    fn the_first_call_of_a_test_decides_where_it_runs() {
        let first = "    // Shows: S1\n    #[test]\n    fn one() {\n        on_paused_clock(async {});\n    }\n\n";
        let second = "    // Shows: S2\n    #[test]\n    fn two() {\n        on_test_cluster(async {});\n    }\n";
        let text = format!("{first}{second}");
        let found = tests_in(&text).unwrap();
        assert_eq!(found.iter().map(|found| found.runs_on_both).collect::<Vec<_>>(), [false, true]);
        let of = |index: usize| environments(&format!("{CONTROL_PLANE_TESTS}unlisted.rs"), &found[index]);
        assert_eq!(of(0).unwrap(), ["embedded"]);
        assert!(of(1).unwrap_err().to_string().contains("no suite"), "it would never run there");
        assert_eq!(environments("crates/api/src/a.rs", &found[0]).unwrap(), ["unit"]);
    }
}
