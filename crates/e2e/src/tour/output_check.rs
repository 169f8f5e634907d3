//! Checks of a command's output: texts, columns, lines word by word, values of JSON output.

use serde_json::Value;

/// One check. A command must end with 0 unless one of its checks is `FailsWith`.
#[derive(Clone, Copy, Debug)]
pub enum OutputCheck {
    /// Standard output is exactly this text.
    Equals(&'static str),
    /// Standard output contains this text.
    Contains(&'static str),
    /// Standard output does not contain this text.
    NotContains(&'static str),
    /// The first line has these columns; spaces between them do not count.
    Columns(&'static str),
    /// A line matches this, word by word: `*` matches one word, `...` at the end the rest.
    Line(&'static str),
    /// Standard output is JSON with this value at this pointer (`/metadata/name`).
    Json(&'static str, &'static str),
    /// Standard error contains this text, and the command succeeded.
    WarnsWith(&'static str),
    /// Standard error is empty.
    NoStderr,
    /// The command failed, and standard error contains this text.
    FailsWith(&'static str),
}

/// The output of a command.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// Whether it ended with 0; `None` while it runs.
    pub success: Option<bool>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The first check that fails.
pub fn difference(checks: &[OutputCheck], output: &CommandOutput) -> Option<String> {
    let must_fail = checks.iter().any(|check| matches!(check, OutputCheck::FailsWith(_)));
    if output.success == Some(must_fail) {
        return Some(if must_fail { "it succeeded, but must fail".into() } else { "it failed".into() });
    }
    checks.iter().find(|check| !passes(check, output)).map(|check| format!("{check:?} does not hold"))
}

fn passes(check: &OutputCheck, output: &CommandOutput) -> bool {
    match check {
        OutputCheck::Equals(text) => output.stdout.trim_end() == *text,
        OutputCheck::Contains(text) => output.stdout.contains(text),
        OutputCheck::NotContains(text) => !output.stdout.contains(text),
        OutputCheck::Columns(columns) => output.stdout.lines().next().is_some_and(|line| matches_line(line, columns)),
        OutputCheck::Line(pattern) => output.stdout.lines().any(|line| matches_line(line, pattern)),
        OutputCheck::Json(pointer, value) => {
            let wanted: Value = serde_json::from_str(value).expect("the steps have valid JSON");
            serde_json::from_str::<Value>(&output.stdout).is_ok_and(|output| output.pointer(pointer) == Some(&wanted))
        }
        OutputCheck::WarnsWith(text) | OutputCheck::FailsWith(text) => output.stderr.contains(text),
        OutputCheck::NoStderr => output.stderr.is_empty(),
    }
}

fn matches_line(line: &str, pattern: &str) -> bool {
    let (pattern, is_prefix) = match pattern.strip_suffix("...") {
        Some(start) => (start, true),
        None => (pattern, false),
    };
    let mut words = line.split_whitespace();
    let start_fits =
        pattern.split_whitespace().all(|wanted| words.next().is_some_and(|word| wanted == "*" || wanted == word));
    start_fits && (is_prefix || words.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::{CommandOutput, OutputCheck, difference, matches_line};

    #[test]
    fn lines_are_compared_word_by_word() {
        assert!(matches_line("plain   Complete   2/2   3s   9s", "plain Complete 2/2 * *"));
        assert!(matches_line("plain   Complete   2/2   3s   9s", "plain Complete ..."));
        assert!(!matches_line("plain   Complete   2/2", "plain Complete"));
        assert!(!matches_line("plain", "plain *"));
        assert!(!matches_line("plain-2 Complete", "plain Complete"));
    }

    #[test]
    fn a_command_that_must_fail_fails_the_tour_when_it_succeeds() {
        let output = CommandOutput { success: Some(true), stderr: "unknown field".into(), ..CommandOutput::default() };
        assert!(difference(&[OutputCheck::FailsWith("unknown field")], &output).is_some());
        let output = CommandOutput { success: Some(false), ..output };
        assert_eq!(difference(&[OutputCheck::FailsWith("unknown field")], &output), None);
        assert!(difference(&[OutputCheck::WarnsWith("unknown field")], &output).is_some());
    }

    #[test]
    fn output_is_checked_and_not_only_the_exit_code() {
        let output = CommandOutput {
            success: Some(true),
            stdout: r#"{"spec": {"suspend": true}}"#.into(),
            stderr: String::new(),
        };
        assert_eq!(difference(&[OutputCheck::Json("/spec/suspend", "true"), OutputCheck::NoStderr], &output), None);
        assert!(difference(&[OutputCheck::Json("/spec/suspend", "false")], &output).is_some());
        assert!(difference(&[OutputCheck::Contains("parallelism")], &output).is_some());
        assert!(difference(&[OutputCheck::Equals("")], &output).is_some());
    }
}
