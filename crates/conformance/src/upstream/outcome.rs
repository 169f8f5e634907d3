//! Parses the output of a Go test program with `-test.v`: each test and its outcome.

use std::collections::{BTreeMap, BTreeSet};

/// The outcome of one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestOutcome {
    Passed,
    Failed,
    Skipped,
    /// It started, but did not end before the program did.
    Unfinished,
}

/// Adds the tests of another run of the same program. A parent of tests of both runs has the worse outcome.
pub fn merge(tests: &mut BTreeMap<String, TestOutcome>, more: BTreeMap<String, TestOutcome>) {
    let rank = |end: TestOutcome| match end {
        TestOutcome::Passed => 0,
        TestOutcome::Skipped => 1,
        TestOutcome::Failed => 2,
        TestOutcome::Unfinished => 3,
    };
    for (name, end) in more {
        let known = tests.entry(name).or_insert(end);
        if rank(end) > rank(*known) {
            *known = end;
        }
    }
}

/// The tests without subtests, by name.
pub fn leaves(tests: &BTreeMap<String, TestOutcome>) -> BTreeMap<String, TestOutcome> {
    let parents: BTreeSet<&str> = tests.keys().flat_map(|name| ancestors(name)).collect();
    tests.iter().filter(|(name, _)| !parents.contains(name.as_str())).map(|(name, &end)| (name.clone(), end)).collect()
}

/// Parents that failed although every leaf below them passed or was skipped.
pub fn parents_failed_alone(tests: &BTreeMap<String, TestOutcome>) -> Vec<String> {
    let leaves = leaves(tests);
    let bad = |end: TestOutcome| matches!(end, TestOutcome::Failed | TestOutcome::Unfinished);
    let parents_of_failed: BTreeSet<&str> =
        leaves.iter().filter(|&(_, &end)| bad(end)).flat_map(|(name, _)| ancestors(name)).collect();
    let alone = tests
        .iter()
        .filter(|&(name, &end)| bad(end) && !leaves.contains_key(name) && !parents_of_failed.contains(name.as_str()));
    alone.map(|(name, _)| name.clone()).collect()
}

/// The problem with the exit status of a program that ran these tests, if any: 0 means that all passed, 1 that one failed,
/// anything else is a crash.
pub fn status_problem(tests: &BTreeMap<String, TestOutcome>, status: Option<i32>) -> Option<String> {
    let failed = tests.values().any(|end| *end == TestOutcome::Failed);
    match (status, failed) {
        (Some(0), false) | (Some(1), true) => None,
        (Some(code), _) => Some(format!("the program ended with {code}, which does not match its tests")),
        (None, _) => Some("the program was killed".to_owned()),
    }
}

/// `a/b/c` has the ancestors `a` and `a/b`.
fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

/// Parses the output of the program, line by line.
#[derive(Debug, Default)]
pub struct GoTestParser {
    tests: BTreeMap<String, TestOutcome>,
}

impl GoTestParser {
    /// Parses one line; returns the test that ended with it.
    pub fn line(&mut self, line: &str) -> Option<(String, TestOutcome)> {
        if let Some(name) = line.strip_prefix("=== RUN   ") {
            self.tests.entry(name.trim_end().to_owned()).or_insert(TestOutcome::Unfinished);
            return None;
        }
        let rest = line.trim_start().strip_prefix("--- ")?;
        let (result, rest) = rest.split_once(": ")?;
        let end = match result {
            "PASS" => TestOutcome::Passed,
            "FAIL" => TestOutcome::Failed,
            "SKIP" => TestOutcome::Skipped,
            _ => return None,
        };
        let (name, _) = rest.rsplit_once(" (")?;
        // A log line may look the same, but a test that never started cannot have ended.
        let test = self.tests.get_mut(name)?;
        *test = end;
        Some((name.to_owned(), end))
    }

    /// Every test that started.
    pub fn into_outcomes(self) -> BTreeMap<String, TestOutcome> {
        self.tests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> BTreeMap<String, TestOutcome> {
        let mut reader = GoTestParser::default();
        text.lines().for_each(|line| drop(reader.line(line)));
        reader.into_outcomes()
    }

    #[test]
    fn every_test_that_started_has_an_outcome() {
        let tests = read(
            "=== RUN   TestA\n=== RUN   TestA/one_(x)\n--- PASS: TestLog (0.00s)\n    --- PASS: TestA/one_(x) (0.10s)\n\
             === RUN   TestA/two\n    --- FAIL: TestA/two (0.10s)\n--- FAIL: TestA (0.20s)\n=== RUN   TestB\n\
             --- SKIP: TestB (0.00s)\n=== RUN   TestC\npanic: x\n",
        );
        let found: Vec<(&str, TestOutcome)> = tests.iter().map(|(name, &end)| (name.as_str(), end)).collect();
        assert_eq!(
            found,
            [
                ("TestA", TestOutcome::Failed),
                ("TestA/one_(x)", TestOutcome::Passed),
                ("TestA/two", TestOutcome::Failed),
                ("TestB", TestOutcome::Skipped),
                ("TestC", TestOutcome::Unfinished),
            ]
        );
        assert_eq!(leaves(&tests).len(), 4);
        assert!(parents_failed_alone(&tests).is_empty());
    }

    #[test]
    fn a_parent_in_two_runs_has_the_worse_outcome() {
        let mut tests =
            read("=== RUN   TestA\n=== RUN   TestA/one\n    --- PASS: TestA/one (1s)\n--- PASS: TestA (1s)\n");
        merge(
            &mut tests,
            read("=== RUN   TestA\n=== RUN   TestA/two\n    --- FAIL: TestA/two (1s)\n--- FAIL: TestA (1s)\n"),
        );
        let ends: Vec<TestOutcome> = tests.values().copied().collect();
        assert_eq!(ends, [TestOutcome::Failed, TestOutcome::Passed, TestOutcome::Failed]);
    }

    #[test]
    fn a_program_that_crashes_is_found_by_its_status() {
        let (passed, failed) =
            (read("=== RUN   TestA\n--- PASS: TestA (1s)\n"), read("=== RUN   TestA\n--- FAIL: TestA (1s)\n"));
        assert_eq!((status_problem(&passed, Some(0)), status_problem(&failed, Some(1))), (None, None));
        for (tests, status) in [(&passed, Some(1)), (&failed, Some(0)), (&failed, Some(2)), (&passed, None)] {
            assert!(status_problem(tests, status).is_some(), "{status:?}");
        }
    }

    #[test]
    fn a_parent_that_fails_without_its_leaves_is_found() {
        let tests =
            read("=== RUN   TestA\n=== RUN   TestA/one\n    --- PASS: TestA/one (0.10s)\n--- FAIL: TestA (0.20s)\n");
        assert_eq!(parents_failed_alone(&tests), ["TestA"]);
    }
}
