//! tests/kube/upstream/expectations.yaml: the tests of a suite that are not expected to pass, each with its reason.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::SuiteServer;
use super::outcome::{self, TestOutcome};
use super::suite::SUITES;

/// The maximum number of lines with `either`.
const MAX_EITHER: usize = 5;

/// The expected outcome of a listed test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedOutcome {
    /// It must fail: the feature is missing until the issue of the line is done, or differs on purpose.
    Fails,
    /// It is not run: it needs a gate that does not exist here, or the internals of a process of Kubernetes.
    NotRun,
    /// It races with the component under test: it may pass or fail.
    Either,
}

/// One line of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Expectation {
    /// The suite.
    pub suite: String,
    /// The test as Go prints it; `*` matches any text without a slash. Its subtests are included.
    pub test: String,
    /// The server to which the line applies; both if it is missing.
    pub server: Option<SuiteServer>,
    /// The expected outcome.
    pub expect: ExpectedOutcome,
    /// The issue that adds the missing feature, or `on purpose`.
    pub issue: String,
    /// The reason.
    pub reason: String,
}

impl Expectation {
    fn applies_to(&self, suite: &str, server: SuiteServer) -> bool {
        self.suite == suite && self.server.is_none_or(|only| only == server)
    }

    /// Whether the line applies to this test or to a parent of it.
    fn matches_test(&self, test: &str) -> bool {
        let mut levels = test.split('/');
        self.test.split('/').all(|pattern| levels.next().is_some_and(|level| matches(pattern, level)))
    }
}

/// Reads the file.
pub fn read(root: &Path) -> anyhow::Result<Vec<Expectation>> {
    let path = root.join("tests/kube/upstream/expectations.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> anyhow::Result<Vec<Expectation>> {
    let lines: Vec<Expectation> = serde_saphyr::from_str(text)?;
    for line in &lines {
        let complete =
            ![&line.suite, &line.test, &line.issue, &line.reason].iter().any(|field| field.trim().is_empty());
        ensure!(complete, "{}: a line needs suite, test, issue and reason", line.test);
    }
    for line in &lines {
        let suite = SUITES.iter().find(|suite| suite.name == line.suite);
        let suite = suite.with_context(|| format!("{}: there is no suite {}", line.test, line.suite))?;
        let runs_on_server = line.server.is_none_or(|server| suite.servers.contains(&server));
        ensure!(runs_on_server, "{}: the suite {} does not run on that server", line.test, line.suite);
    }
    let open = lines.iter().filter(|line| line.expect == ExpectedOutcome::Either).count();
    ensure!(open <= MAX_EITHER, "{open} lines have `either`, at most {MAX_EITHER} are allowed");
    Ok(lines)
}

/// The lines of one run.
#[derive(Clone, Debug, Default)]
pub struct Expectations(Vec<Expectation>);

/// The comparison of a run with the expectations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Leaves that passed as expected.
    pub passed: usize,
    /// Leaves that failed as listed.
    pub failed: usize,
    /// Leaves listed with `either`.
    pub either: usize,
    /// Problems, one sentence each.
    pub problems: Vec<String>,
    /// How long the run took.
    pub seconds: u64,
}

impl Expectations {
    /// The lines for this suite on this server.
    pub fn for_suite(lines: &[Expectation], suite: &str, server: SuiteServer) -> Expectations {
        Expectations(lines.iter().filter(|line| line.applies_to(suite, server)).cloned().collect())
    }

    /// The tests that are not run, in the form of `-test.skip`; `None` if all are.
    pub fn skip_pattern(&self) -> Option<String> {
        self.pattern_where(|expect| expect == ExpectedOutcome::NotRun)
    }

    /// The same with those that must fail, which run separately or not at all.
    pub fn skip_pattern_with_failing(&self) -> Option<String> {
        self.pattern_where(|expect| expect != ExpectedOutcome::Either)
    }

    /// The tests that must fail, in the form of `-test.run`; `None` if there are none.
    pub fn failing_pattern(&self) -> Option<String> {
        self.pattern_where(|expect| expect == ExpectedOutcome::Fails)
    }

    fn pattern_where(&self, selects: impl Fn(ExpectedOutcome) -> bool) -> Option<String> {
        let lines = self.0.iter().filter(|line| selects(line.expect));
        let patterns: Vec<String> = lines.map(|line| exact_pattern(&line.test)).collect();
        (!patterns.is_empty()).then(|| patterns.join("|"))
    }

    /// The number of lines with tests that are not run.
    pub fn not_run_count(&self) -> usize {
        self.0.iter().filter(|line| line.expect == ExpectedOutcome::NotRun).count()
    }

    /// Tests of the program that should have run and did not, one sentence each. `names`: its top-level tests.
    pub fn missing_tests(
        &self,
        names: &[String],
        tests: &BTreeMap<String, TestOutcome>,
        with_failing: bool,
    ) -> Vec<String> {
        let is_not_run = |name: &String| {
            self.0.iter().any(|line| {
                let whole = !line.test.contains('/') && line.matches_test(name);
                whole
                    && (line.expect == ExpectedOutcome::NotRun
                        || (line.expect == ExpectedOutcome::Fails && !with_failing))
            })
        };
        let missing = names.iter().filter(|name| !tests.contains_key(*name) && !is_not_run(name));
        missing.map(|name| format!("{name} did not run")).collect()
    }

    /// Lines about tests that do not exist, one sentence each. `names`: the top-level tests of the program.
    pub fn unknown_tests(&self, names: &[String]) -> Vec<String> {
        let top = |line: &&Expectation| {
            let first = line.test.split('/').next().unwrap_or_default();
            !names.iter().any(|name| matches(first, name))
        };
        self.0.iter().filter(top).map(|line| format!("{} is listed, and no test has that name", line.test)).collect()
    }

    /// Compares the outcome of every test. `whole`: all tests ran, so a line without a test is out of date.
    pub fn compare(&self, tests: &BTreeMap<String, TestOutcome>, whole: bool) -> Comparison {
        let mut comparison = Comparison::default();
        let leaves = outcome::leaves(tests);
        for (name, end) in &leaves {
            let line = self.0.iter().find(|line| line.matches_test(name));
            match (line.map(|line| line.expect), end) {
                (None, TestOutcome::Passed) => comparison.passed += 1,
                (_, TestOutcome::Unfinished) => comparison.problems.push(format!("{name} did not end")),
                (Some(ExpectedOutcome::Fails), TestOutcome::Failed) => comparison.failed += 1,
                (Some(ExpectedOutcome::Either), _) => comparison.either += 1,
                (None, TestOutcome::Failed) => comparison.problems.push(format!("{name} failed")),
                (None, TestOutcome::Skipped) => {
                    comparison.problems.push(format!("{name} skips itself and is not listed"))
                }
                (Some(ExpectedOutcome::Fails), TestOutcome::Passed | TestOutcome::Skipped) => {
                    comparison.problems.push(format!("{name} is listed as failing and did not fail: remove the line"));
                }
                (Some(ExpectedOutcome::NotRun), _) => {
                    comparison.problems.push(format!("{name} is listed as not run and ran"))
                }
            }
        }
        if whole {
            let stale = self.0.iter().filter(|line| line.expect != ExpectedOutcome::NotRun);
            let stale = stale.filter(|line| !leaves.keys().any(|name| line.matches_test(name)));
            comparison.problems.extend(stale.map(|line| format!("{} is listed, and no test has that name", line.test)));
        }
        comparison
    }
}

/// Whether `text` matches `pattern`, in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(tail, &rest[at..]))
}

/// A pattern of `-test.skip` that matches only this test: one anchored expression per level.
fn exact_pattern(test: &str) -> String {
    let levels: Vec<String> = test.split('/').map(|level| format!("^{}$", escape_regex(level))).collect();
    levels.join("/")
}

fn escape_regex(text: &str) -> String {
    let special = |letter: char| r"\.+?()|[]{}^$".contains(letter);
    text.chars().fold(String::new(), |mut pattern, letter| {
        match letter {
            '*' => pattern.push('.'),
            letter if special(letter) => pattern.push('\\'),
            _ => {}
        }
        pattern.push(letter);
        pattern
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lines(text: &str) -> Expectations {
        let rows = text.lines().map(|row| {
            let (test, expect) = row.split_once(' ').unwrap();
            format!("- {{suite: job, test: '{test}', expect: {expect}, issue: i, reason: r}}\n")
        });
        Expectations::for_suite(&parse(&rows.collect::<String>()).unwrap(), "job", SuiteServer::Kube)
    }

    fn tests(ends: &[(&str, TestOutcome)]) -> BTreeMap<String, TestOutcome> {
        ends.iter().map(|&(name, end)| (name.to_owned(), end)).collect()
    }

    #[test]
    fn unlisted_tests_must_pass_and_listed_ones_must_not() {
        let expected = lines("A/fails fails\nB either\nGone fails");
        let ends = tests(&[
            ("A", TestOutcome::Failed),
            ("A/fails", TestOutcome::Failed),
            ("A/passes", TestOutcome::Passed),
            ("B", TestOutcome::Failed),
            ("C", TestOutcome::Failed),
            ("D", TestOutcome::Skipped),
            ("E", TestOutcome::Unfinished),
        ]);
        let comparison = expected.compare(&ends, true);
        assert_eq!((comparison.passed, comparison.failed, comparison.either), (1, 1, 1));
        assert_eq!(
            comparison.problems,
            [
                "C failed",
                "D skips itself and is not listed",
                "E did not end",
                "Gone is listed, and no test has that name"
            ]
        );
        let comparison = expected.compare(&tests(&[("A/fails", TestOutcome::Passed)]), false);
        assert_eq!(comparison.problems, ["A/fails is listed as failing and did not fail: remove the line"]);
    }

    #[test]
    fn patterns_match_only_the_listed_tests() {
        let expected = lines("TestA/with_a_(dot). not-run\nTestB not-run\nTestC fails");
        assert_eq!(expected.not_run_count(), 2);
        let ran = tests(&[("TestA", TestOutcome::Passed)]);
        let all = ["TestA", "TestB", "TestC", "TestD"].map(str::to_owned);
        assert_eq!(expected.missing_tests(&all, &ran, false), ["TestD did not run"]);
        assert_eq!(expected.missing_tests(&all, &ran, true), ["TestC did not run", "TestD did not run"]);
        let names = ["TestA".to_owned(), "TestC".to_owned()];
        assert_eq!(expected.unknown_tests(&names), ["TestB is listed, and no test has that name"]);
        assert_eq!(expected.skip_pattern().unwrap(), r"^TestA$/^with_a_\(dot\)\.$|^TestB$");
        assert_eq!(expected.skip_pattern_with_failing().unwrap(), r"^TestA$/^with_a_\(dot\)\.$|^TestB$|^TestC$");
        assert_eq!(expected.failing_pattern().unwrap(), "^TestC$");
        assert_eq!(Expectations::default().skip_pattern(), None);
    }

    #[test]
    fn a_star_matches_any_text_of_one_level() {
        let expected = lines("TestA/*_(x:_true,*) fails\nTestB* not-run");
        let ends = tests(&[
            ("TestA/one_(x:_true,_y)", TestOutcome::Failed),
            ("TestA/two_(x:_true,_z)", TestOutcome::Failed),
            ("TestA/one_(x:_false,_y)", TestOutcome::Failed),
        ]);
        let comparison = expected.compare(&ends, true);
        assert_eq!((comparison.failed, comparison.problems), (2, vec!["TestA/one_(x:_false,_y) failed".to_owned()]));
        assert_eq!(expected.skip_pattern().unwrap(), "^TestB.*$");
        assert!(matches("a*b*c", "a-b-b-c") && matches("*", "") && !matches("a*b", "a-b-c"));
    }

    #[test]
    fn a_line_without_a_reason_and_too_many_lines_with_either_are_errors() {
        for line in [
            "- {suite: job, test: t, expect: fails, issue: i, reason: ''}\n",
            "- {suite: jobs, test: t, expect: fails, issue: i, reason: r}\n",
            "- {suite: taint, server: embedded, test: t, expect: fails, issue: i, reason: r}\n",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let open = "- {suite: job, test: t, expect: either, issue: i, reason: r}\n".repeat(MAX_EITHER + 1);
        assert!(parse(&open).is_err());
    }
}
