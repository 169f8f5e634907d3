//! The conditions that the scheduler writes, and the patches that contain them.

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{Condition, MetaView};
use serde::Serialize;

/// Condition of a PodGroup: `minCount` pods were once bound.
pub const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
/// Condition of a PodGroup: it had `minCount` pods once, and has fewer now.
pub const DEGRADED: &str = "Degraded";
/// Condition of a pod: it is deleted because of a disruption.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Condition of a pod: it has a node.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// Reason of [`INITIALLY_SCHEDULED`] and [`POD_SCHEDULED`] while they are False because the unit does not fit.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// Reason of a pod's condition that had [`UNSCHEDULABLE`] before pods or objects of its group went missing.
pub const POD_GROUP_NOT_READY: &str = "PodGroupNotReady";
/// Reason of [`POD_SCHEDULED`] while the pod is refused without being tried on nodes, because no node would help it.
pub const NOT_ATTEMPTED: &str = "NotAttempted";
/// Reason of both while they are False because a bind failed.
pub const SCHEDULER_ERROR: &str = "SchedulerError";
/// Reason of [`INITIALLY_SCHEDULED`] when it is True.
pub const SCHEDULED: &str = "Scheduled";

/// The API's limit for a condition's message.
const MAX_MESSAGE_BYTES: usize = 32768;

/// A merge patch of `status.conditions`. The list replaces the one on the server, so the patch has the resourceVersion that
/// the list was built from.
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

/// A condition that is False, with its reason.
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

/// Whether `current` already contains `wanted`, transition times aside.
pub fn is_current(current: &[Condition], wanted: &Condition) -> bool {
    current.iter().any(|held| {
        (&held.kind, &held.status, &held.reason, &held.message)
            == (&wanted.kind, &wanted.status, &wanted.reason, &wanted.message)
    })
}

/// The patch that sets the conditions `wanted` among the `current` ones of the object of `meta`. The transition time changes
/// only with the status.
pub fn patch(meta: &MetaView, current: &[Condition], wanted: &[Condition], now: Timestamp) -> ConditionsPatch {
    let mut conditions: Vec<ConditionDocument> = current.iter().map(to_document).collect();
    for wanted in wanted {
        let position = current.iter().position(|held| held.kind == wanted.kind);
        let same_status = position.map(|at| &current[at]).filter(|held| held.status == wanted.status);
        let since = same_status.and_then(|held| held.last_transition_time).unwrap_or(now);
        let document = to_document(&Condition { last_transition_time: Some(since), ..wanted.clone() });
        match position {
            Some(at) => conditions[at] = document,
            None => conditions.push(document),
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
        let text = |condition: &serde_json::Value| {
            let field = |name: &str| condition[name].as_str().unwrap_or("").to_owned();
            let since = field("lastTransitionTime").parse::<Timestamp>().unwrap().as_second();
            format!("{}={} {} {since}", field("type"), field("status"), field("reason"))
        };
        patch["status"]["conditions"].as_array().unwrap().iter().map(text).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_condition_replaces_its_own_kind_and_keeps_the_others() {
        let wanted = false_condition("B", "New", "new");
        for (case, before, want) in [
            ("first", vec![], "B=False New 100"),
            ("with others", vec![held("A", "True", 5)], "A=True Before 5; B=False New 100"),
            ("status changes", vec![held("B", "True", 5), held("C", "True", 6)], "B=False New 100; C=True Before 6"),
            ("status stays", vec![held("B", "False", 5)], "B=False New 5"),
        ] {
            assert_eq!(list(&before, &wanted), want, "{case}");
        }
    }

    #[test]
    fn a_long_message_is_truncated_at_a_character_boundary() {
        let message = "é".repeat(20000);
        let truncated = false_condition("A", "B", &message).message;
        assert!(truncated.len() <= 32768 && truncated.len() > 32760, "{}", truncated.len());
    }
}
