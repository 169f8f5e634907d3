//! What a command must have said: texts, columns, lines word by word, values of JSON output.

use serde_json::Value;

/// One expectation. A command must end with 0 unless one of its expectations is `Refused`.
#[derive(Clone, Copy, Debug)]
pub enum OutputCheck {
    /// Standard output is this and nothing else.
    Equals(&'static str),
    /// Standard output has this text.
    Contains(&'static str),
    /// Standard output does not have this text.
    NotContains(&'static str),
    /// The first line has these columns; the spaces between them do not count.
    Columns(&'static str),
    /// Some line reads like this, word by word: `*` stands for one word, `...` at the end for the rest.
    Line(&'static str),
    /// Standard output is JSON and holds this value at this pointer (`/metadata/name`).
    Json(&'static str, &'static str),
    /// Standard error has this text, and the command did its work all the same.
    WarnsWith(&'static str),
    /// Standard error is empty.
    NoStderr,
    /// The command failed, and standard error has this text.
    FailsWith(&'static str),
}

/// What a command left behind.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// Whether it ended with 0; `None` while it runs.
    pub success: Option<bool>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The first difference between what was wanted and what was said.
pub fn difference(wants: &[OutputCheck], said: &CommandOutput) -> Option<String> {
    let must_fail = wants.iter().any(|want| matches!(want, OutputCheck::FailsWith(_)));
    if said.success == Some(must_fail) {
        return Some(if must_fail { "it succeeded, and must not".into() } else { "it failed".into() });
    }
    wants.iter().find(|want| !is_met(want, said)).map(|want| format!("{want:?} does not hold"))
}

fn is_met(want: &OutputCheck, said: &CommandOutput) -> bool {
    match want {
        OutputCheck::Equals(text) => said.stdout.trim_end() == *text,
        OutputCheck::Contains(text) => said.stdout.contains(text),
        OutputCheck::NotContains(text) => !said.stdout.contains(text),
        OutputCheck::Columns(columns) => said.stdout.lines().next().is_some_and(|line| matches_line(line, columns)),
        OutputCheck::Line(pattern) => said.stdout.lines().any(|line| matches_line(line, pattern)),
        OutputCheck::Json(pointer, value) => {
            let wanted: Value = serde_json::from_str(value).expect("the steps hold valid JSON");
            serde_json::from_str::<Value>(&said.stdout).is_ok_and(|output| output.pointer(pointer) == Some(&wanted))
        }
        OutputCheck::WarnsWith(text) | OutputCheck::FailsWith(text) => said.stderr.contains(text),
        OutputCheck::NoStderr => said.stderr.is_empty(),
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
        let said = CommandOutput { success: Some(true), stderr: "unknown field".into(), ..CommandOutput::default() };
        assert!(difference(&[OutputCheck::FailsWith("unknown field")], &said).is_some());
        let said = CommandOutput { success: Some(false), ..said };
        assert_eq!(difference(&[OutputCheck::FailsWith("unknown field")], &said), None);
        assert!(difference(&[OutputCheck::WarnsWith("unknown field")], &said).is_some());
    }

    #[test]
    fn output_is_checked_and_not_only_the_exit_code() {
        let said = CommandOutput {
            success: Some(true),
            stdout: r#"{"spec": {"suspend": true}}"#.into(),
            stderr: String::new(),
        };
        assert_eq!(difference(&[OutputCheck::Json("/spec/suspend", "true"), OutputCheck::NoStderr], &said), None);
        assert!(difference(&[OutputCheck::Json("/spec/suspend", "false")], &said).is_some());
        assert!(difference(&[OutputCheck::Contains("parallelism")], &said).is_some());
        assert!(difference(&[OutputCheck::Equals("")], &said).is_some());
    }
}
