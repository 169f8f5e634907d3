//! Compares two responses.

use serde_json::Value;

use super::requests::{ResponseCause, ServerResponse};

/// How two responses differ, the most important kind first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// Another code or reason, or a different result of an earlier step.
    Verdict,
    /// The same refusal with other causes, or in another order.
    Causes,
    /// Both accept, with different results.
    Result,
    /// The same refusal with another message and no causes.
    Message,
    /// Another warning.
    Warnings,
}

impl DifferenceKind {
    /// As in reports and expected-differences.yaml.
    pub fn as_str(self) -> &'static str {
        match self {
            DifferenceKind::Verdict => "verdict",
            DifferenceKind::Causes => "causes",
            DifferenceKind::Result => "result",
            DifferenceKind::Message => "message",
            DifferenceKind::Warnings => "warnings",
        }
    }
}

/// A difference, and both sides as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub kind: DifferenceKind,
    pub theirs: String,
    pub ours: String,
}

/// Compares the responses to the steps of one case. `None` if a client could not distinguish the servers by them.
pub fn compare(theirs: &[ServerResponse], ours: &[ServerResponse]) -> Option<Difference> {
    let difference = |what, theirs, ours| Some(Difference { kind: what, theirs, ours });
    let last_step = theirs.len().min(ours.len()) - 1;
    for step in 0..=last_step {
        let (a, b) = (&theirs[step], &ours[step]);
        if (a.code, &a.reason) != (b.code, &b.reason) {
            let prefix = if step < last_step || theirs.len() != ours.len() { "in an earlier step: " } else { "" };
            return difference(
                DifferenceKind::Verdict,
                format!("{prefix}{}", verdict(a)),
                format!("{prefix}{}", verdict(b)),
            );
        }
    }
    let (a, b) = (&theirs[last_step], &ours[last_step]);
    let (mut a_causes, mut b_causes) = (a.causes.clone(), b.causes.clone());
    strip_go_dumps(&mut a_causes, &mut b_causes);
    let (a_causes, b_causes) = (mask_causes(&a_causes), mask_causes(&b_causes));
    if a_causes != b_causes {
        let (only_a, only_b) = (subtract(&a_causes, &b_causes), subtract(&b_causes, &a_causes));
        let in_order = |causes: &[ResponseCause]| format!("in this order: {}", lines(causes));
        return if only_a.is_empty() && only_b.is_empty() {
            difference(DifferenceKind::Causes, in_order(&a_causes), in_order(&b_causes))
        } else {
            difference(DifferenceKind::Causes, lines(&only_a), lines(&only_b))
        };
    }
    let (a_object, b_object) = (a.object.as_ref().map(strip_server_fields), b.object.as_ref().map(strip_server_fields));
    if a_object != b_object {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        collect_differences("", a_object.as_ref(), b_object.as_ref(), &mut theirs, &mut ours);
        return difference(DifferenceKind::Result, theirs.join("; "), ours.join("; "));
    }
    if mask_uids(&a.message) != mask_uids(&b.message) {
        return difference(DifferenceKind::Message, mask_uids(&a.message), mask_uids(&b.message));
    }
    if a.warnings != b.warnings {
        return difference(DifferenceKind::Warnings, a.warnings.join("; "), b.warnings.join("; "));
    }
    None
}

fn verdict(response: &ServerResponse) -> String {
    if response.is_accepted() {
        return format!("{}", response.code);
    }
    let cause =
        if response.causes.is_empty() { mask_uids(&response.message) } else { lines(&mask_causes(&response.causes)) };
    format!("{} {}: {cause}", response.code, response.reason)
}

fn lines(causes: &[ResponseCause]) -> String {
    let line = |cause: &ResponseCause| format!("{}: {} ({})", cause.field, cause.message, cause.reason);
    causes.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn mask_causes(causes: &[ResponseCause]) -> Vec<ResponseCause> {
    let mask = |cause: &ResponseCause| ResponseCause {
        message: sorted_values(&mask_uids(strip_diff(&cause.message))),
        ..cause.clone()
    };
    causes.iter().map(mask).collect()
}

/// The message with every object in it as JSON with sorted keys and without nulls. A cause repeats the refused value as
/// the server's own types serialize it; the order of members does not count.
fn sorted_values(message: &str) -> String {
    let (mut text, mut rest) = (String::new(), message);
    while let Some(at) = rest.find(" value: ") {
        let (head, tail) = rest.split_at(at + " value: ".len());
        text.push_str(head);
        rest = tail;
        if tail.starts_with(['{', '[']) {
            let mut values = serde_json::Deserializer::from_str(tail).into_iter::<Value>();
            if let Some(Ok(value)) = values.next() {
                text.push_str(&without_nulls(value).to_string());
                rest = &tail[values.byte_offset()..];
            }
        }
    }
    text + rest
}

/// Removes the refused value from both causes where Kubernetes prints it as its Go type, with Go names and every unset
/// field: that is not a form of the API. Field, reason and the text after the value still count.
fn strip_go_dumps(theirs: &mut [ResponseCause], ours: &mut [ResponseCause]) {
    for cause in theirs {
        let Some((dumped, words)) = split_value(&cause.message) else { continue };
        if !has_go_field_names(&dumped) {
            continue;
        }
        let left_out = format!("Invalid value: {{…}}{words}");
        let same = |other: &&mut ResponseCause| {
            (&other.field, &other.reason) == (&cause.field, &cause.reason)
                && split_value(&other.message).is_some_and(|(_, other)| other == words)
        };
        if let Some(other) = ours.iter_mut().find(same) {
            other.message.clone_from(&left_out);
            cause.message = left_out;
        }
    }
}

/// The first line of the message that a spec may not change. Kubernetes prints the difference of two Go values below it.
fn strip_diff(message: &str) -> &str {
    let is_followed_by_diff =
        ["Forbidden: pod updates may not change ", "Forbidden: spec is immutable after creation "]
            .iter()
            .any(|words| message.starts_with(words));
    message.split_once('\n').filter(|_| is_followed_by_diff).map_or(message, |(words, _)| words)
}

/// The object or list that a message repeats, and the text after it.
fn split_value(message: &str) -> Option<(Value, String)> {
    let tail = message.strip_prefix("Invalid value: ").filter(|tail| tail.starts_with(['{', '[']))?;
    let mut values = serde_json::Deserializer::from_str(tail).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, tail[values.byte_offset()..].to_owned()))
}

/// Whether a field has a Go name. No field of the API begins with a capital.
fn has_go_field_names(value: &Value) -> bool {
    let begins_large = |name: &String| name.starts_with(|first: char| first.is_ascii_uppercase());
    let fields = if let Value::Array(items) = value { items.first() } else { Some(value) };
    fields.and_then(Value::as_object).is_some_and(|fields| fields.keys().any(begins_large))
}

pub fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, member)| !member.is_null());
            Value::Object(members.map(|(name, member)| (name, without_nulls(member))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// The elements of `all` that are not in `others`; duplicates count.
fn subtract(all: &[ResponseCause], others: &[ResponseCause]) -> Vec<ResponseCause> {
    let mut others = others.to_vec();
    let mut rest = Vec::new();
    for cause in all {
        match others.iter().position(|other| other == cause) {
            Some(at) => drop(others.swap_remove(at)),
            None => rest.push(cause.clone()),
        }
    }
    rest
}

/// An object without the fields that each server sets itself.
fn strip_server_fields(object: &Value) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
    let mut text = mask_uids(&object.to_string());
    if !prefix.is_empty() && name.len() > 5 && prefix.starts_with(&name[..name.len() - 5]) {
        text = text.replace(name, "GENERATED");
    }
    let mut object: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    let created = object["metadata"]["creationTimestamp"].clone();
    for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        // A condition that a new pod has contains the server's own time.
        if condition["lastTransitionTime"] == created {
            condition["lastTransitionTime"] = "CREATED".into();
        }
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for own in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(own);
        }
    }
    object
}

/// The text without generated uids. The uids of the corpus have a common prefix and stay.
pub fn mask_uids(text: &str) -> String {
    let is_uid = |word: &[u8]| {
        word.len() == 36
            && !word.starts_with(b"11111111-")
            && word.iter().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => *byte == b'-',
                _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
            })
    };
    let bytes = text.as_bytes();
    let (mut masked, mut copied_to, mut at) = (String::new(), 0, 0);
    while at + 36 <= bytes.len() {
        if is_uid(&bytes[at..at + 36]) {
            masked.push_str(&text[copied_to..at]);
            masked.push_str("UID");
            at += 36;
            copied_to = at;
        } else {
            at += 1;
        }
    }
    masked.push_str(&text[copied_to..]);
    masked
}

/// Where two documents differ: the path and the values of both sides.
pub fn collect_differences(
    path: &str,
    a: Option<&Value>,
    b: Option<&Value>,
    theirs: &mut Vec<String>,
    ours: &mut Vec<String>,
) {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect_differences(&path, a.get(key), b.get(key), theirs, ours);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                collect_differences(&format!("{path}[{index}]"), Some(a), Some(b), theirs, ours);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            theirs.push(format!("{path} = {}", text(a)));
            ours.push(format!("{path} = {}", text(b)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::{DifferenceKind, ResponseCause, ServerResponse, compare, mask_uids, sorted_values};

    fn refused(fields: &[&str]) -> Vec<ServerResponse> {
        let cause = |field: &&str| ResponseCause {
            field: (*field).to_owned(),
            reason: "r".to_owned(),
            message: "m".to_owned(),
        };
        let causes = fields.iter().map(cause).collect();
        vec![ServerResponse { code: 422, reason: "Invalid".to_owned(), causes, ..ServerResponse::default() }]
    }

    fn accepted(object: serde_json::Value) -> Vec<ServerResponse> {
        vec![ServerResponse { code: 201, object: Some(object), ..ServerResponse::default() }]
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let what = |a: &[ServerResponse], b: &[ServerResponse]| compare(a, b).map(|difference| difference.kind);
        assert_eq!(what(&refused(&["a", "b"]), &refused(&["a", "b"])), None);
        assert_eq!(
            what(&refused(&["a", "b"]), &refused(&["b", "a"])),
            Some(DifferenceKind::Causes),
            "the order counts"
        );
        assert_eq!(what(&refused(&["a"]), &refused(&["a", "a"])), Some(DifferenceKind::Causes), "the number counts");
        assert_eq!(what(&refused(&["a"]), &accepted(json!({}))), Some(DifferenceKind::Verdict));
        let object =
            |uid: &str, spec: i32| accepted(json!({"metadata": {"uid": uid, "resourceVersion": uid}, "spec": spec}));
        assert_eq!(what(&object("u", 1), &object("v", 1)), None, "each server generates its own uid");
        let difference = compare(&object("u", 1), &object("v", 2)).unwrap();
        assert_eq!(
            (difference.kind, &*difference.theirs, &*difference.ours),
            (DifferenceKind::Result, "spec = 1", "spec = 2")
        );
    }

    #[test]
    fn the_order_of_members_does_not_count() {
        let theirs = r#"Duplicate value: {"name":"a","key":{"z":1,"y":null}}: no"#;
        assert_eq!(sorted_values(theirs), r#"Duplicate value: {"key":{"z":1},"name":"a"}: no"#);
        assert_eq!(sorted_values("Invalid value: [{\"a\":"), "Invalid value: [{\"a\":", "text that is not JSON stays");
    }

    #[test]
    fn a_value_with_go_names_does_not_count_but_the_text_does() {
        let response = |message: &str| {
            let cause = ResponseCause { field: "f".to_owned(), reason: "r".to_owned(), message: message.to_owned() };
            vec![ServerResponse { code: 422, causes: vec![cause], ..ServerResponse::default() }]
        };
        let differ = |theirs: &str, ours: &str| compare(&response(theirs), &response(ours)).is_some();
        let theirs = r#"Invalid value: {"Rules":[{"Action":""}]}: no"#;
        assert!(!differ(theirs, r#"Invalid value: {"rules":[]}: no"#));
        assert!(differ(theirs, r#"Invalid value: {"rules":[]}: never"#));
        assert!(differ(theirs, "Invalid value: null: no"));
        assert!(!differ(r#"Invalid value: [{"Key":"a"}]: no"#, r#"Invalid value: [{"key":"a"}]: no"#));
        let words = "Forbidden: pod updates may not change fields other than `image`";
        assert!(!differ(&format!("{words}\ncore.PodSpec{{}}"), &format!("{words}\nchanged: spec.os")));
        assert!(differ(&format!("{words}\ncore.PodSpec{{}}"), "Forbidden: pod updates may not change fields"));
        assert!(differ(r#"Invalid value: {"a":"1"}: no"#, r#"Invalid value: {"a":"2"}: no"#));
    }

    #[test]
    fn a_generated_uid_is_masked_everywhere() {
        let text = "a 01234567-89ab-4cde-8f01-23456789abcd ü 11111111-2222-4333-8444-555555555555";
        assert_eq!(mask_uids(text), "a UID ü 11111111-2222-4333-8444-555555555555");
    }
}
