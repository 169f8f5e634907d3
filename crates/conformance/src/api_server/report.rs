//! The results: a table, every difference in groups, and whether the run passes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::cases::ApiCase;
use super::compare::{Difference, DifferenceKind};
use super::expected_differences::ExpectedDifference;
use super::kinds::ComparedKind;
use super::requests::ServerResponse;

/// How many of 100 refusals must have the same causes and accepted writes the same result. Pods are exempt.
const MIN_SAME_CAUSES_PERCENT: f64 = 99.5;
/// The maximum number of examples for a group of differences.
const MAX_EXAMPLES: usize = 8;

/// A case and its result.
pub struct ComparedCase<'a> {
    pub case: ApiCase,
    pub theirs: Vec<ServerResponse>,
    pub ours: Vec<ServerResponse>,
    pub difference: Option<Difference>,
    /// The row that covers the difference.
    pub expected: Option<&'a ExpectedDifference>,
}

/// One kind's line of the table.
pub struct KindSummary {
    kind: ComparedKind,
    cases: usize,
    fields: usize,
    expected: usize,
    accepted: usize,
    differing: BTreeMap<DifferenceKind, usize>,
    /// Why no case was sent.
    skip_reason: Option<String>,
}

impl KindSummary {
    /// Counts the results of a kind's cases.
    pub fn summarize(kind: ComparedKind, fields: usize, compared: &[ComparedCase<'_>]) -> KindSummary {
        let mut differing = BTreeMap::new();
        for compared in compared.iter().filter(|compared| compared.expected.is_none()) {
            if let Some(difference) = &compared.difference {
                *differing.entry(difference.kind).or_default() += 1;
            }
        }
        let accepted = |compared: &&ComparedCase<'_>| compared.theirs.last().is_some_and(ServerResponse::is_accepted);
        KindSummary {
            kind,
            cases: compared.len(),
            fields,
            expected: compared.iter().filter(|compared| compared.expected.is_some()).count(),
            accepted: compared.iter().filter(accepted).count(),
            differing,
            skip_reason: None,
        }
    }

    /// A kind that was not compared.
    pub fn skipped(kind: ComparedKind, cases: usize, cause: String) -> KindSummary {
        let differing = BTreeMap::new();
        KindSummary { kind, cases, fields: 0, expected: 0, accepted: 0, differing, skip_reason: Some(cause) }
    }

    fn percent_without(&self, differences: &[DifferenceKind]) -> f64 {
        let counted = self.cases - self.expected;
        let different: usize = differences.iter().filter_map(|what| self.differing.get(what)).sum();
        if counted == 0 { 100.0 } else { 100.0 * (counted - different) as f64 / counted as f64 }
    }

    fn same_verdict(&self) -> f64 {
        self.percent_without(&[DifferenceKind::Verdict])
    }

    fn same_causes(&self) -> f64 {
        self.percent_without(&[DifferenceKind::Verdict, DifferenceKind::Causes, DifferenceKind::Result])
    }

    /// Why the kind does not pass.
    fn shortfall(&self) -> Option<String> {
        let title = self.kind.title();
        if let Some(cause) = &self.skip_reason {
            return Some(format!("{title}: {cause}"));
        }
        if self.same_verdict() < self.kind.min_same_verdict_percent {
            let (is, must) = (self.same_verdict(), self.kind.min_same_verdict_percent);
            return Some(format!("{title}: {is:.2} % have the same verdict, {must} % must"));
        }
        let free_of_causes = self.kind.min_same_verdict_percent < 100.0;
        if !free_of_causes && self.same_causes() < MIN_SAME_CAUSES_PERCENT {
            let is = self.same_causes();
            return Some(format!(
                "{title}: {is:.2} % have the same causes and result, {MIN_SAME_CAUSES_PERCENT} % must"
            ));
        }
        None
    }
}

/// The table, with a line for each kind.
pub fn table(rows: &[KindSummary]) -> String {
    let mut text = format!(
        "{:<26} {:>6} {:>7} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9}\n",
        "kind", "cases", "fields", "accepted", "wanted", "verdict %", "causes %", "message %", "warning %"
    );
    for row in rows {
        let title = row.kind.title();
        if let Some(cause) = &row.skip_reason {
            let _ = writeln!(text, "{title:<26} {:>6} {cause}", row.cases);
            continue;
        }
        let _ = writeln!(
            text,
            "{title:<26} {:>6} {:>7} {:>9} {:>7} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
            row.cases,
            row.fields,
            row.accepted,
            row.expected,
            row.same_verdict(),
            row.same_causes(),
            row.percent_without(&[DifferenceKind::Verdict, DifferenceKind::Causes, DifferenceKind::Message]),
            row.percent_without(&[DifferenceKind::Verdict, DifferenceKind::Warnings]),
        );
    }
    text
}

/// Why the run does not pass; empty when it passes.
pub fn shortfalls(rows: &[KindSummary]) -> Vec<String> {
    rows.iter().filter_map(KindSummary::shortfall).collect()
}

/// Every difference, grouped; the most important and most frequent groups first.
pub fn differences(compared: &[ComparedCase<'_>]) -> String {
    let mut groups: BTreeMap<(DifferenceKind, &str, String, String), Vec<&ComparedCase<'_>>> = BTreeMap::new();
    for compared in compared.iter().filter(|compared| compared.expected.is_none()) {
        if let Some(difference) = &compared.difference {
            let (theirs, ours) = mask_case(difference, &compared.case.name);
            groups.entry((difference.kind, compared.case.kind.kind, theirs, ours)).or_default().push(compared);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((what, kind, _, _), members)| (*what, std::cmp::Reverse(members.len()), *kind));
    let mut text = String::new();
    for ((what, kind, theirs, ours), members) in groups {
        let _ = writeln!(text, "\n{} × {kind}, {}\n  theirs: {theirs}\n  ours:   {ours}", members.len(), what.as_str());
        let mut examples: BTreeMap<String, usize> = BTreeMap::new();
        for member in &members {
            let case = &member.case;
            let query = case.field_validation.query().replace("?fieldValidation=", " ");
            let example = format!("{}{query} {} {}", case.verb.as_str(), case.mutation.class, case.mutation.field);
            *examples.entry(example).or_default() += 1;
        }
        let shown: Vec<String> =
            examples.iter().take(MAX_EXAMPLES).map(|(example, count)| format!("{example} ({count})")).collect();
        let more = examples.len().saturating_sub(MAX_EXAMPLES);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let _ = writeln!(text, "  at:     {}{more}", shown.join(", "));
        if let Some(ComparedCase { case, difference: Some(difference), .. }) = members.first() {
            let _ = writeln!(text, "  such as {} on `{}`: {}", case.name, case.base.name(), edits(case));
            let _ = writeln!(
                text,
                "    theirs: {}\n    ours:   {}",
                truncate(&difference.theirs),
                truncate(&difference.ours)
            );
        }
    }
    text
}

/// How often each expected difference occurred.
pub fn expected_counts(rows: &[ExpectedDifference], compared: &[ComparedCase<'_>]) -> String {
    let mut text = String::new();
    for row in rows {
        let met =
            compared.iter().filter(|compared| compared.expected.is_some_and(|expected| expected.id == row.id)).count();
        let _ = writeln!(text, "expected: {} found {met} times ({})", row.id, row.reason);
    }
    text
}

/// A differing case as JSON, for tools.
pub fn as_json(compared: &ComparedCase<'_>) -> Option<Value> {
    let difference = compared.difference.as_ref()?;
    let case = &compared.case;
    let responses = |responses: &[ServerResponse]| -> Vec<Value> {
        let causes = |response: &ServerResponse| -> Vec<Value> {
            let cause = |cause: &super::requests::ResponseCause| json!([cause.field, cause.reason, cause.message]);
            response.causes.iter().map(cause).collect()
        };
        let response = |response: &ServerResponse| {
            json!({"code": response.code, "reason": response.reason, "message": response.message, "causes": causes(response),
                "object": response.object, "warnings": response.warnings})
        };
        responses.iter().map(response).collect()
    };
    Some(json!({
        "kind": case.kind.title(), "name": case.name, "base": case.base.name(), "verb": case.verb.as_str(),
        "from": case.initial_status, "class": case.mutation.class, "field": case.mutation.field, "edits": edits(case),
        "query": case.field_validation.query(), "what": difference.kind.as_str(),
        "expected": compared.expected.map(|row| &row.id),
        "difference": {"theirs": difference.theirs, "ours": difference.ours},
        "theirs": responses(&compared.theirs), "ours": responses(&compared.ours),
    }))
}

fn edits(case: &ApiCase) -> String {
    let edit = |(example, value): &(super::document_path::DocumentPath, Option<Value>)| match value {
        Some(value) => format!("{} = {}", example.field(), truncate(&value.to_string())),
        None => format!("{} removed", example.field()),
    };
    let before = case.initial_status.map_or(String::new(), |from| format!(" after status {from}"));
    format!("{}{before}", case.mutation.edits.iter().map(edit).collect::<Vec<_>>().join(", "))
}

/// Both sides without the values that differ between similar cases.
fn mask_case(difference: &Difference, name: &str) -> (String, String) {
    let gist = |text: &str| truncate(&shorten_paths(&mask_values(&text.replace(name, "NAME"))));
    let (theirs, ours) = (gist(&difference.theirs), gist(&difference.ours));
    if theirs == ours { (theirs, "the same with another value".to_owned()) } else { (theirs, ours) }
}

/// `Invalid value: "x": why` becomes `Invalid value: *: why`.
fn mask_values(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = VALUES.iter().filter_map(|kind| rest.find(kind).map(|at| at + kind.len())).min() {
        let (head, tail) = rest.split_at(at);
        masked.push_str(head);
        masked.push('*');
        rest = &tail[value_length(tail)..];
    }
    masked.push_str(rest);
    masked
}

/// Texts before a refused value in a message.
const VALUES: [&str; 3] = ["Invalid value: ", "Unsupported value: ", "Duplicate value: "];

/// Paths reduced to their last two names, for any item: `spec.a[0].b[1].c` becomes `…b[].c`.
fn shorten_paths(text: &str) -> String {
    let cut = |word: &str| {
        let parts: Vec<&str> = word.split('.').collect();
        let is_path = parts.len() > 2 && ["spec.", "status.", "metadata."].iter().any(|root| word.starts_with(root));
        if !is_path {
            return word.to_owned();
        }
        let mut last = format!("…{}", parts[parts.len() - 2..].join("."));
        while let Some((open, close)) = last.find('[').and_then(|open| Some((open, open + last[open..].find(']')?)))
            && close > open + 1
            && last[open + 1..close].bytes().all(|byte| byte.is_ascii_digit())
        {
            last.replace_range(open..=close, "\u{0}");
        }
        last.replace('\u{0}', "[]")
    };
    text.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

fn value_length(text: &str) -> usize {
    if !text.starts_with('"') {
        return text.find(": ").or_else(|| text.find(" (")).unwrap_or(text.len());
    }
    let mut escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// A text of at most two lines.
fn truncate(text: &str) -> String {
    const MAX_CHARS: usize = 700;
    let mut text: String = match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    };
    for letter in ["a", "k", "p", "m"] {
        let run = letter.repeat(40);
        while let Some(at) = text.find(&run) {
            let end = at + text[at..].chars().take_while(|char| char.to_string() == letter).count();
            text.replace_range(at..end, &format!("{letter}×{}", end - at));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{mask_values, shorten_paths, truncate};

    #[test]
    fn values_are_masked_and_the_rest_of_a_message_stays() {
        let text = r#"spec.a: Invalid value: "x\": y": must be z; spec.b: Invalid value: 7: no"#;
        assert_eq!(mask_values(text), "spec.a: Invalid value: *: must be z; spec.b: Invalid value: *: no");
        assert_eq!(mask_values(r#"Unsupported value: "x""#), "Unsupported value: *");
        assert_eq!(mask_values("Required value: must be z"), "Required value: must be z");
    }

    #[test]
    fn the_same_field_of_another_item_is_reported_alike() {
        assert_eq!(shorten_paths("spec.a[0].b[12].c[3]: no, e.g. spec.x"), "…b[].c[]: no, e.g. spec.x");
    }

    #[test]
    fn a_long_run_is_shortened_to_its_length() {
        assert_eq!(truncate(&format!("x{}y", "a".repeat(64))), "xa×64y");
    }
}
