//! tests/kube/upstream/expectations.yaml: the tests of a suite that do not simply have to pass, each with its reason.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::Home;
use super::outcome::{self, Outcome};
use super::suite::SUITES;

/// At most so many lines may leave the outcome open.
const EITHER_MAX: usize = 5;

/// What is expected of a test that does not simply have to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// It must fail: what it tests comes with the issue that the line names, or differs on purpose.
    Fails,
    /// It is not run: it needs a gate that does not exist here, or the inside of a process of Kubernetes.
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
    /// The test as Go prints it; `*` stands for any text without a slash. Tests below it are meant, too.
    pub test: String,
    /// The home for which the line holds; both where it is left out.
    pub home: Option<Home>,
    /// What is expected.
    pub expect: Expect,
    /// The issue that brings what is missing, or `on purpose`.
    pub issue: String,
    /// Why.
    pub reason: String,
}

impl Expectation {
    fn holds_for(&self, suite: &str, home: Home) -> bool {
        self.suite == suite && self.home.is_none_or(|only| only == home)
    }

    /// Whether the line means this test: itself, or a test above it.
    fn means(&self, test: &str) -> bool {
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
        let there = line.home.is_none_or(|home| suite.homes.contains(&home));
        ensure!(there, "{}: the suite {} does not run on that home", line.test, line.suite);
    }
    let open = lines.iter().filter(|line| line.expect == Expect::Either).count();
    ensure!(open <= EITHER_MAX, "{open} lines say `either`, at most {EITHER_MAX} may");
    Ok(lines)
}

/// The lines of one run.
#[derive(Clone, Debug, Default)]
pub struct Expectations(Vec<Expectation>);

/// How a run compares with what is expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Leaves that passed and had to.
    pub passed: usize,
    /// Leaves that are listed as failing and failed.
    pub failed: usize,
    /// Leaves whose outcome is left open.
    pub either: usize,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
    /// How long the run took.
    pub seconds: u64,
}

impl Expectations {
    /// Those that hold for this suite on this home.
    pub fn of(lines: &[Expectation], suite: &str, home: Home) -> Expectations {
        Expectations(lines.iter().filter(|line| line.holds_for(suite, home)).cloned().collect())
    }

    /// The tests that are not run, in the form of `-test.skip`; none where all are.
    pub fn skipped(&self) -> Option<String> {
        self.pattern(|expect| expect == Expect::NotRun)
    }

    /// The same with those that must fail, which are run by themselves or not at all.
    pub fn skipped_with_failing(&self) -> Option<String> {
        self.pattern(|expect| expect != Expect::Either)
    }

    /// The tests that must fail, in the form of `-test.run`; none where there are none.
    pub fn failing(&self) -> Option<String> {
        self.pattern(|expect| expect == Expect::Fails)
    }

    fn pattern(&self, wanted: impl Fn(Expect) -> bool) -> Option<String> {
        let lines = self.0.iter().filter(|line| wanted(line.expect));
        let patterns: Vec<String> = lines.map(|line| pattern(&line.test)).collect();
        (!patterns.is_empty()).then(|| patterns.join("|"))
    }

    /// How many lines leave tests out.
    pub fn not_run(&self) -> usize {
        self.0.iter().filter(|line| line.expect == Expect::NotRun).count()
    }

    /// Tests of the program that should have run and did not, one sentence each. `names`: its top-level tests.
    pub fn missing(&self, names: &[String], tests: &BTreeMap<String, Outcome>, with_failing: bool) -> Vec<String> {
        let is_left_out = |name: &String| {
            self.0.iter().any(|line| {
                let whole = !line.test.contains('/') && line.means(name);
                whole && (line.expect == Expect::NotRun || (line.expect == Expect::Fails && !with_failing))
            })
        };
        let missing = names.iter().filter(|name| !tests.contains_key(*name) && !is_left_out(name));
        missing.map(|name| format!("{name} did not run")).collect()
    }

    /// Lines about tests that do not exist, one sentence each. `names`: the top-level tests of the program.
    pub fn strangers(&self, names: &[String]) -> Vec<String> {
        let top = |line: &&Expectation| {
            let first = line.test.split('/').next().unwrap_or_default();
            !names.iter().any(|name| matches(first, name))
        };
        self.0.iter().filter(top).map(|line| format!("{} is listed, and no test has that name", line.test)).collect()
    }

    /// Compares the outcome of every test. `whole`: all tests ran, so that a line that means none of them is out of date.
    pub fn compare(&self, tests: &BTreeMap<String, Outcome>, whole: bool) -> Comparison {
        let mut comparison = Comparison::default();
        let leaves = outcome::leaves(tests);
        for (name, end) in &leaves {
            let line = self.0.iter().find(|line| line.means(name));
            match (line.map(|line| line.expect), end) {
                (None, Outcome::Passed) => comparison.passed += 1,
                (_, Outcome::Cut) => comparison.problems.push(format!("{name} did not end")),
                (Some(Expect::Fails), Outcome::Failed) => comparison.failed += 1,
                (Some(Expect::Either), _) => comparison.either += 1,
                (None, Outcome::Failed) => comparison.problems.push(format!("{name} failed")),
                (None, Outcome::Skipped) => comparison.problems.push(format!("{name} skips itself and is not listed")),
                (Some(Expect::Fails), Outcome::Passed | Outcome::Skipped) => {
                    comparison
                        .problems
                        .push(format!("{name} is listed as failing and did not fail: take the line out"));
                }
                (Some(Expect::NotRun), _) => comparison.problems.push(format!("{name} is listed as not run and ran")),
            }
        }
        if whole {
            let stale = self.0.iter().filter(|line| line.expect != Expect::NotRun);
            let stale = stale.filter(|line| !leaves.keys().any(|name| line.means(name)));
            comparison.problems.extend(stale.map(|line| format!("{} is listed, and no test has that name", line.test)));
        }
        comparison
    }
}

/// Whether `pattern`, in which `*` stands for any text, is `text`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(tail, &rest[at..]))
}

/// A pattern of `-test.skip` that means this test and no other: one anchored expression per level.
fn pattern(test: &str) -> String {
    let levels: Vec<String> = test.split('/').map(|level| format!("^{}$", quoted(level))).collect();
    levels.join("/")
}

fn quoted(text: &str) -> String {
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
        Expectations::of(&parse(&rows.collect::<String>()).unwrap(), "job", Home::Kube)
    }

    fn tests(ends: &[(&str, Outcome)]) -> BTreeMap<String, Outcome> {
        ends.iter().map(|&(name, end)| (name.to_owned(), end)).collect()
    }

    #[test]
    fn what_is_not_listed_must_pass_and_what_is_listed_must_not() {
        let expected = lines("A/fails fails\nB either\nGone fails");
        let ends = tests(&[
            ("A", Outcome::Failed),
            ("A/fails", Outcome::Failed),
            ("A/passes", Outcome::Passed),
            ("B", Outcome::Failed),
            ("C", Outcome::Failed),
            ("D", Outcome::Skipped),
            ("E", Outcome::Cut),
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
        let comparison = expected.compare(&tests(&[("A/fails", Outcome::Passed)]), false);
        assert_eq!(comparison.problems, ["A/fails is listed as failing and did not fail: take the line out"]);
    }

    #[test]
    fn tests_that_are_not_run_are_named_exactly() {
        let expected = lines("TestA/with_a_(dot). not-run\nTestB not-run\nTestC fails");
        assert_eq!(expected.not_run(), 2);
        let ran = tests(&[("TestA", Outcome::Passed)]);
        let all = ["TestA", "TestB", "TestC", "TestD"].map(str::to_owned);
        assert_eq!(expected.missing(&all, &ran, false), ["TestD did not run"]);
        assert_eq!(expected.missing(&all, &ran, true), ["TestC did not run", "TestD did not run"]);
        let names = ["TestA".to_owned(), "TestC".to_owned()];
        assert_eq!(expected.strangers(&names), ["TestB is listed, and no test has that name"]);
        assert_eq!(expected.skipped().unwrap(), r"^TestA$/^with_a_\(dot\)\.$|^TestB$");
        assert_eq!(expected.skipped_with_failing().unwrap(), r"^TestA$/^with_a_\(dot\)\.$|^TestB$|^TestC$");
        assert_eq!(expected.failing().unwrap(), "^TestC$");
        assert_eq!(Expectations::default().skipped(), None);
    }

    #[test]
    fn a_star_stands_for_any_text_of_one_level() {
        let expected = lines("TestA/*_(x:_true,*) fails\nTestB* not-run");
        let ends = tests(&[
            ("TestA/one_(x:_true,_y)", Outcome::Failed),
            ("TestA/two_(x:_true,_z)", Outcome::Failed),
            ("TestA/one_(x:_false,_y)", Outcome::Failed),
        ]);
        let comparison = expected.compare(&ends, true);
        assert_eq!((comparison.failed, comparison.problems), (2, vec!["TestA/one_(x:_false,_y) failed".to_owned()]));
        assert_eq!(expected.skipped().unwrap(), "^TestB.*$");
        assert!(matches("a*b*c", "a-b-b-c") && matches("*", "") && !matches("a*b", "a-b-c"));
    }

    #[test]
    fn a_line_without_a_reason_and_too_many_open_lines_are_errors() {
        for line in [
            "- {suite: job, test: t, expect: fails, issue: i, reason: ''}\n",
            "- {suite: jobs, test: t, expect: fails, issue: i, reason: r}\n",
            "- {suite: taint, home: embedded, test: t, expect: fails, issue: i, reason: r}\n",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let open = "- {suite: job, test: t, expect: either, issue: i, reason: r}\n".repeat(EITHER_MAX + 1);
        assert!(parse(&open).is_err());
    }
}
