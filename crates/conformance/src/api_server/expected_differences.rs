//! Differences that do not count, each with its reason: tests/kube/expected-differences.yaml.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::cases::ApiCase;
use super::compare::Difference;

/// A difference that does not count. All given conditions must match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedDifference {
    /// A short name, for reports.
    pub id: String,
    /// Kinds, in any version; none means all.
    pub kinds: Vec<String>,
    /// `create`, `update`, `status`; none means all.
    pub verbs: Vec<String>,
    /// Classes of mutations; none means all.
    pub classes: Vec<String>,
    /// Fields; `*` matches anything. None means all.
    pub fields: Vec<String>,
    /// `verdict`, `causes`, `result`, …; none means all.
    pub what: Vec<String>,
    /// Contained in the text of Kubernetes.
    pub theirs: Option<String>,
    /// Contained in our text.
    pub ours: Option<String>,
    /// Why our server differs.
    pub reason: String,
}

/// Reads the file. Rows keep its order.
pub fn read(root: &Path) -> anyhow::Result<Vec<ExpectedDifference>> {
    let path = root.join("tests/kube/expected-differences.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rows: Vec<ExpectedDifference> = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
    for row in &rows {
        anyhow::ensure!(!row.id.is_empty() && !row.reason.is_empty(), "{}: a row needs id and reason", path.display());
    }
    Ok(rows)
}

/// The row that covers this difference.
pub fn find<'a>(
    rows: &'a [ExpectedDifference],
    case: &ApiCase,
    difference: &Difference,
) -> Option<&'a ExpectedDifference> {
    rows.iter().find(|row| row.covers(case, difference))
}

impl ExpectedDifference {
    fn covers(&self, case: &ApiCase, difference: &Difference) -> bool {
        let among = |values: &[String], value: &str| values.is_empty() || values.iter().any(|one| one == value);
        let within = |part: &Option<String>, text: &str| part.as_ref().is_none_or(|part| text.contains(part));
        among(&self.kinds, case.kind.kind)
            && among(&self.verbs, case.verb.as_str())
            && among(&self.classes, case.mutation.class)
            && among(&self.what, difference.kind.as_str())
            && (self.fields.is_empty() || self.fields.iter().any(|pattern| matches(pattern, &case.mutation.field)))
            && within(&self.theirs, &difference.theirs)
            && within(&self.ours, &difference.ours)
    }
}

/// Whether `text` matches `pattern`, in which `*` matches anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text
            .strip_prefix(head)
            .is_some_and(|text| (0..=text.len()).any(|at| text.is_char_boundary(at) && matches(rest, &text[at..]))),
    }
}

/// Values that are never compared, and why.
const NOT_COMPARED: [(&str, &str); 5] = [
    (
        "values printed as Go structs",
        "Some messages of Kubernetes print the refused value as a Go type (`{\"MatchExpressions\":null}`), with Go \
         names and every unset field, or the difference of two such values. We print the value in the form of the \
         API, or the changed fields. The Go types are not part of the API, no client can send or read them, and they \
         change between releases. Field, reason and the rest of the message are compared.",
    ),
    (
        "order of members",
        "The order of members in a value that is printed as JSON does not count, and a member with the value `null` \
         equals an absent one.",
    ),
    (
        "generated values",
        "Each server generates its own uids, resource versions, creation times, managed fields and suffixes of \
         generated names.",
    ),
    (
        "the time of a condition of a new pod",
        "A pod that is created with a gate has a condition at once, with the creation time as `lastTransitionTime`. \
         That time is not compared. Any other time in a condition is.",
    ),
    (
        "ages and column descriptions of tables",
        "In tables (wide columns included), the cell `Age` depends on the server's clock, and the descriptions of \
         columns are each project's own. Columns, their order, types and priorities and every other cell are \
         compared.",
    ),
];

/// The rows as Markdown for docs/conformance.md; empty without rows.
pub fn render(rows: &[ExpectedDifference]) -> anyhow::Result<String> {
    let mut text = String::new();
    if rows.is_empty() {
        return Ok(text);
    }
    text.push_str("\n## Expected differences from the API of Kubernetes 1.37.1\n\n");
    text.push_str("`cargo xtask conformance api` finds these differences and does not count them.\n\n");
    text.push_str("| difference | where | reason |\n| --- | --- | --- |\n");
    for (difference, reason) in NOT_COMPARED {
        writeln!(text, "| {difference} | every kind | {reason} |")?;
    }
    for row in rows {
        let kinds = if row.kinds.is_empty() { "every kind".to_owned() } else { row.kinds.join(", ") };
        let fields: Vec<String> = row.fields.iter().map(|field| format!("`{field}`")).collect();
        let place = if fields.is_empty() { kinds } else { format!("{kinds}: {}", fields.join(", ")) };
        writeln!(text, "| {} | {place} | {} |", row.id, row.reason.replace('|', "\\|"))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{ExpectedDifference, matches, render};

    #[test]
    fn a_star_matches_anything() {
        for (pattern, text, want) in [
            ("spec.a", "spec.a", true),
            ("spec.a", "spec.ab", false),
            ("spec.*", "spec.template.spec", true),
            ("*.containers[]*.name", "spec.template.spec.containers[].env[].name", true),
            ("*.name", "spec.names", false),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn every_row_is_in_the_document() {
        let row = ExpectedDifference { id: "x".to_owned(), reason: "a|b".to_owned(), ..ExpectedDifference::default() };
        assert!(render(&[row]).unwrap().ends_with("| x | every kind | a\\|b |\n"));
        assert_eq!(render(&[]).unwrap(), "");
    }
}
