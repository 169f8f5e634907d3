//! The documents that say what the scheduler found: condition lists and the patches that carry them.

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{Condition, MetaView};
use serde::Serialize;

/// Condition of a PodGroup: its `minCount` pods have once been placed.
pub const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
/// Condition of a PodGroup: it had its `minCount` once, and has fewer pods now.
pub const DEGRADED: &str = "Degraded";
/// Condition of a pod: it is taken away by somebody else's doing.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Condition of a pod: it has a node.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// Reason of both while they are False because nothing fits.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// Reason of a pod's condition that said [`UNSCHEDULABLE`] before parts of its group went missing.
pub const POD_GROUP_NOT_READY: &str = "PodGroupNotReady";
/// Reason of both while they are False because the server did not take a bind.
pub const SCHEDULER_ERROR: &str = "SchedulerError";
/// Reason of [`INITIALLY_SCHEDULED`] when it is True.
pub const SCHEDULED: &str = "Scheduled";

/// The API's limit for a condition's message.
const MAX_MESSAGE_BYTES: usize = 32768;

/// A merge patch of `status.conditions`. It names the version its list was built from: the list replaces the whole
/// one on the server, so it must not meet another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConditionsPatch {
    metadata: PatchMetadata,
    status: PatchStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchMetadata {
    uid: String,
    resource_version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct PatchStatus {
    conditions: Vec<ConditionDocument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionDocument {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_time: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    message: String,
}

/// A condition that is True.
pub fn true_condition(kind: &str, reason: &str) -> Condition {
    condition(kind, "True", reason, "")
}

/// A condition that is False, and why.
pub fn false_condition(kind: &str, reason: &str, message: &str) -> Condition {
    condition(kind, "False", reason, message)
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Condition {
    let mut end = message.len().min(MAX_MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message[..end].to_owned(),
        last_transition_time: None,
    }
}

/// Whether `held` already says what `wanted` says.
pub fn is_current(held: &[Condition], wanted: &Condition) -> bool {
    held.iter().any(|one| {
        (&one.kind, &one.status, &one.reason, &one.message)
            == (&wanted.kind, &wanted.status, &wanted.reason, &wanted.message)
    })
}

/// The patch that puts those `wanted` among the conditions `held` by the object of `meta`. The time of transition moves
/// only when the status does.
pub fn patch(meta: &MetaView, held: &[Condition], wanted: &[Condition], now: Timestamp) -> ConditionsPatch {
    let mut conditions: Vec<ConditionDocument> = held.iter().map(to_document).collect();
    for wanted in wanted {
        let at = held.iter().position(|one| one.kind == wanted.kind);
        let before = at.map(|at| &held[at]).filter(|one| one.status == wanted.status);
        let since = before.and_then(|one| one.last_transition_time).unwrap_or(now);
        let changed = to_document(&Condition { last_transition_time: Some(since), ..wanted.clone() });
        match at {
            Some(at) => conditions[at] = changed,
            None => conditions.push(changed),
        }
    }
    let metadata = PatchMetadata { uid: meta.uid.clone(), resource_version: meta.resource_version.to_string() };
    ConditionsPatch { metadata, status: PatchStatus { conditions } }
}

fn to_document(condition: &Condition) -> ConditionDocument {
    ConditionDocument {
        kind: condition.kind.clone(),
        status: condition.status.clone(),
        last_transition_time: condition.last_transition_time.map(rfc3339),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use api::Revision;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn held(kind: &str, status: &str, since: i64) -> Condition {
        Condition { last_transition_time: Some(at(since)), ..condition(kind, status, "Before", "before") }
    }

    /// `type=status reason since`, one per condition.
    fn list(before: &[Condition], wanted: &Condition) -> String {
        let meta = MetaView { uid: "u".into(), resource_version: Revision(7), ..MetaView::default() };
        let patch = serde_json::to_value(patch(&meta, before, std::slice::from_ref(wanted), at(100))).unwrap();
        assert_eq!(patch["metadata"], serde_json::json!({"uid": "u", "resourceVersion": "7"}));
        let text = |one: &serde_json::Value| {
            let field = |name: &str| one[name].as_str().unwrap_or("").to_owned();
            let since = field("lastTransitionTime").parse::<Timestamp>().unwrap().as_second();
            format!("{}={} {} {since}", field("type"), field("status"), field("reason"))
        };
        patch["status"]["conditions"].as_array().unwrap().iter().map(text).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_condition_takes_its_place_and_leaves_the_others() {
        let wanted = false_condition("B", "New", "new");
        for (case, before, want) in [
            ("first", vec![], "B=False New 100"),
            ("beside others", vec![held("A", "True", 5)], "A=True Before 5; B=False New 100"),
            ("status changes", vec![held("B", "True", 5), held("C", "True", 6)], "B=False New 100; C=True Before 6"),
            ("status stays", vec![held("B", "False", 5)], "B=False New 5"),
        ] {
            assert_eq!(list(&before, &wanted), want, "{case}");
        }
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let message = "é".repeat(20000);
        let cut = false_condition("A", "B", &message).message;
        assert!(cut.len() <= 32768 && cut.len() > 32760, "{}", cut.len());
    }
}
