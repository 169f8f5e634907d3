//! What a command must have said: texts, columns, lines word by word, values of JSON output.

use serde_json::Value;

/// One expectation. A command must end with 0 unless one of its expectations is `Refused`.
#[derive(Clone, Copy, Debug)]
pub enum Want {
    /// Standard output is this and nothing else.
    Is(&'static str),
    /// Standard output has this text.
    Has(&'static str),
    /// Standard output does not have this text.
    Lacks(&'static str),
    /// The first line has these columns; the spaces between them do not count.
    Columns(&'static str),
    /// Some line reads like this, word by word: `*` stands for one word, `...` at the end for the rest.
    Line(&'static str),
    /// Standard output is JSON and holds this value at this pointer (`/metadata/name`).
    Json(&'static str, &'static str),
    /// Standard error has this text, and the command did its work all the same.
    Warns(&'static str),
    /// Standard error is empty.
    Silent,
    /// The command failed, and standard error has this text.
    Refused(&'static str),
}

/// What a command left behind.
#[derive(Debug, Default)]
pub struct Said {
    /// Whether it ended with 0; `None` while it runs.
    pub success: Option<bool>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// The first difference between what was wanted and what was said.
pub fn difference(wants: &[Want], said: &Said) -> Option<String> {
    let must_fail = wants.iter().any(|want| matches!(want, Want::Refused(_)));
    if said.success == Some(must_fail) {
        return Some(if must_fail { "it succeeded, and must not".into() } else { "it failed".into() });
    }
    wants.iter().find(|want| !holds(want, said)).map(|want| format!("{want:?} does not hold"))
}

fn holds(want: &Want, said: &Said) -> bool {
    match want {
        Want::Is(text) => said.out.trim_end() == *text,
        Want::Has(text) => said.out.contains(text),
        Want::Lacks(text) => !said.out.contains(text),
        Want::Columns(columns) => said.out.lines().next().is_some_and(|line| reads_like(line, columns)),
        Want::Line(pattern) => said.out.lines().any(|line| reads_like(line, pattern)),
        Want::Json(pointer, value) => {
            let wanted: Value = serde_json::from_str(value).expect("the steps hold valid JSON");
            serde_json::from_str::<Value>(&said.out).is_ok_and(|output| output.pointer(pointer) == Some(&wanted))
        }
        Want::Warns(text) | Want::Refused(text) => said.err.contains(text),
        Want::Silent => said.err.is_empty(),
    }
}

fn reads_like(line: &str, pattern: &str) -> bool {
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
    use super::{Said, Want, difference, reads_like};

    #[test]
    fn lines_are_compared_word_by_word() {
        assert!(reads_like("plain   Complete   2/2   3s   9s", "plain Complete 2/2 * *"));
        assert!(reads_like("plain   Complete   2/2   3s   9s", "plain Complete ..."));
        assert!(!reads_like("plain   Complete   2/2", "plain Complete"));
        assert!(!reads_like("plain", "plain *"));
        assert!(!reads_like("plain-2 Complete", "plain Complete"));
    }

    #[test]
    fn a_command_that_must_fail_fails_the_tour_when_it_succeeds() {
        let said = Said { success: Some(true), err: "unknown field".into(), ..Said::default() };
        assert!(difference(&[Want::Refused("unknown field")], &said).is_some());
        let said = Said { success: Some(false), ..said };
        assert_eq!(difference(&[Want::Refused("unknown field")], &said), None);
        assert!(difference(&[Want::Warns("unknown field")], &said).is_some());
    }

    #[test]
    fn output_is_checked_and_not_only_the_exit_code() {
        let said = Said { success: Some(true), out: r#"{"spec": {"suspend": true}}"#.into(), err: String::new() };
        assert_eq!(difference(&[Want::Json("/spec/suspend", "true"), Want::Silent], &said), None);
        assert!(difference(&[Want::Json("/spec/suspend", "false")], &said).is_some());
        assert!(difference(&[Want::Has("parallelism")], &said).is_some());
        assert!(difference(&[Want::Is("")], &said).is_some());
    }
}
