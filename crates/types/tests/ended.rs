//! Stripped views: fields of finished objects that are kept, and nothing is dropped of others.
#![allow(clippy::unwrap_used)]

use phalanx_types::views::{JobView, PodView, View};
use serde_json::{Value, json};

/// The view before and after `strip`.
fn stripped<V: View>(document: &Value) -> (String, V) {
    let mut view = V::decode(document.to_string().as_bytes()).unwrap();
    let before = format!("{view:?}");
    view.strip();
    (before, view)
}

fn pod(phase: &str) -> Value {
    let conditions = json!([
        {"type": "PodScheduled", "status": "True"},
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "DisruptionTarget", "status": "True"},
    ]);
    let ended = json!({"exitCode": 3, "finishedAt": "2026-01-01T00:00:00Z"});
    json!({
        "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}, "finalizers": ["f"]},
        "spec": {
            "nodeName": "n", "schedulerName": "s", "restartPolicy": "Never", "priority": 7,
            "schedulingGroup": {"podGroupName": "g"}, "nodeSelector": {"a": "b"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
        },
        "status": {
            "phase": phase, "conditions": conditions,
            "containerStatuses": [{"name": "c", "restartCount": 2, "state": {"terminated": ended}}],
        },
    })
}

#[test]
fn unfinished_pod_keeps_all_fields() {
    for phase in ["Pending", "Running", "Unknown"] {
        let (before, view) = stripped::<PodView>(&pod(phase));
        assert_eq!(format!("{view:?}"), before, "{phase}");
    }
}

#[test]
fn finished_pod_keeps_identity_node_and_outcome() {
    for (phase, conditions) in [("Succeeded", "Ready"), ("Failed", "PodScheduled Ready DisruptionTarget")] {
        let (_, view) = stripped::<PodView>(&pod(phase));
        assert!(view.spec.containers.is_empty() && view.spec.tolerations.is_empty(), "{phase}: it is not scheduled");
        let spec = &view.spec;
        let placed = (view.node_name(), view.group_name(), &*spec.scheduler_name, &*spec.restart_policy, spec.priority);
        assert_eq!(placed, (Some("n"), Some("g"), "s", "Never", Some(7)));
        assert_eq!((view.metadata.labels["a"].as_str(), view.metadata.has_finalizer("f")), ("b", true));
        let kinds: Vec<&str> = view.status.conditions.iter().map(|condition| condition.kind.as_str()).collect();
        assert_eq!(kinds.join(" "), conditions, "{phase}");
        let container = &view.status.container_statuses[0];
        let end = container.state.terminated.as_ref().unwrap();
        assert_eq!((container.restart_count, end.exit_code, end.finished_at.is_some()), (2, 3, true));
    }
}

fn job(condition: &str, status: &str) -> Value {
    json!({
        "metadata": {"name": "j", "uid": "u"},
        "spec": {
            "completions": 3, "parallelism": 2, "ttlSecondsAfterFinished": 60, "workloadRef": {"name": "w"},
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}},
        },
        "status": {"succeeded": 3, "conditions": [{"type": condition, "status": status}]},
    })
}

#[test]
fn unfinished_job_keeps_all_fields() {
    for (condition, status) in [("SuccessCriteriaMet", "True"), ("Suspended", "True"), ("Failed", "False")] {
        let (before, view) = stripped::<JobView>(&job(condition, status));
        assert_eq!(format!("{view:?}"), before, "{condition}");
    }
}

#[test]
fn finished_job_keeps_counts_and_ttl() {
    for condition in ["Complete", "Failed"] {
        let (_, view) = stripped::<JobView>(&job(condition, "True"));
        assert!(view.spec.template.raw.is_none() && view.spec.selector.is_none(), "it creates no more pods");
        assert_eq!(view.finished_condition().map(|end| end.kind.as_str()), Some(condition));
        let spec = &view.spec;
        assert_eq!((spec.completions, spec.parallelism, spec.ttl_seconds_after_finished), (Some(3), Some(2), Some(60)));
        assert_eq!((view.status.succeeded, spec.workload_ref.as_ref().map(|named| &*named.name)), (3, Some("w")));
    }
}
