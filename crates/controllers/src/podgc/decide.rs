//! Which pods are deleted, and why.

use std::sync::Arc;

use api::views::{Condition, NodeView, PodView};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodGcReason {
    /// Its node is gone.
    Orphaned,
    /// It is being deleted, and its node was declared out of service.
    OutOfService,
    /// It is being deleted, and is not bound.
    Unscheduled,
    /// It has ended, and too many ended pods exist.
    Terminated,
}

impl PodGcReason {
    /// Its name in the log and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            PodGcReason::Orphaned => "orphaned",
            PodGcReason::OutOfService => "out-of-service",
            PodGcReason::Unscheduled => "unscheduled",
            PodGcReason::Terminated => "terminated",
        }
    }
}

/// Why a pod that is being deleted is deleted without grace: no kubelet will end it. `None` if one may.
pub fn force_delete_reason(pod: &PodView, node: Option<&NodeView>) -> Option<PodGcReason> {
    if !pod.metadata.is_deleting() {
        return None;
    }
    match (pod.node_name(), node) {
        (None, _) => Some(PodGcReason::Unscheduled),
        (Some(_), Some(node)) if is_out_of_service(node) => Some(PodGcReason::OutOfService),
        _ => None,
    }
}

/// Whether the node has the out-of-service taint and is not ready, so nothing runs on it.
pub fn is_out_of_service(node: &NodeView) -> bool {
    let tainted = node.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE);
    tainted && !Condition::is_true(&node.status.conditions, "Ready")
}

/// The pods that have ended beyond `max`: evicted ones first, then the oldest.
pub fn beyond_threshold(max: i64, pods: Vec<Arc<PodView>>) -> Vec<Arc<PodView>> {
    let Some(max) = usize::try_from(max).ok().filter(|max| *max > 0) else { return Vec::new() };
    let mut ended: Vec<_> = pods.into_iter().filter(|pod| pod.is_finished() && !pod.metadata.is_deleting()).collect();
    let excess = ended.len().saturating_sub(max);
    if excess > 0 {
        ended.sort_by(|a, b| order(a).cmp(&order(b)));
    }
    ended.truncate(excess);
    ended
}

fn order(pod: &PodView) -> impl Ord + '_ {
    (!pod.status.evicted, pod.metadata.creation_timestamp, &pod.metadata.name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use api::views::View;
    use serde_json::{Value, json};

    use super::*;

    fn pod(document: Value) -> Arc<PodView> {
        Arc::new(PodView::decode(document.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn a_deleting_pod_that_no_kubelet_will_end_is_deleted_without_grace() {
        let taint = json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]);
        let node = |taints: &Value, ready: &str| {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            let document = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": status});
            NodeView::decode(document.to_string().as_bytes()).unwrap()
        };
        let dead = node(&taint, "Unknown");
        let none = json!([]);
        for (case, deleting, on, node, want) in [
            ("it is not being deleted", false, "", None, None),
            ("unbound", true, "", None, Some(PodGcReason::Unscheduled)),
            ("its node is ready", true, "n", Some(node(&none, "True")), None),
            ("its node is not ready", true, "n", Some(node(&none, "Unknown")), None),
            ("its node is out of service", true, "n", Some(dead.clone()), Some(PodGcReason::OutOfService)),
            ("its node has the taint, but is ready", true, "n", Some(node(&taint, "True")), None),
            ("it is not being deleted, and its node is out of service", false, "n", Some(dead), None),
            ("its node is missing: the quarantine comes first", true, "n", None, None),
        ] {
            let at = deleting.then_some("2026-01-01T00:00:00Z");
            let pod = pod(json!({"metadata": {"name": "p", "deletionTimestamp": at}, "spec": {"nodeName": on}}));
            assert_eq!(force_delete_reason(&pod, node.as_ref()), want, "{case}");
        }
    }

    #[test]
    fn ended_pods_beyond_the_threshold_are_deleted_evicted_and_oldest_first() {
        let ended = |name: &str, second: u32, reason: &str| {
            let created = format!("2026-01-01T00:00:{second:02}Z");
            let meta = json!({"name": name, "creationTimestamp": created});
            pod(json!({"metadata": meta, "status": {"phase": "Failed", "reason": reason}}))
        };
        let running = pod(json!({"metadata": {"name": "r"}, "status": {"phase": "Running"}}));
        let deleted = pod(json!({
            "metadata": {"name": "d", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Failed"},
        }));
        let pods =
            vec![ended("b", 1, ""), ended("a", 1, ""), ended("new", 9, "Evicted"), ended("c", 2, ""), running, deleted];
        let names = |max: i64| -> Vec<String> {
            beyond_threshold(max, pods.clone()).iter().map(|pod| pod.metadata.name.clone()).collect()
        };
        assert_eq!(names(4), Vec::<String>::new());
        assert_eq!(names(3), ["new"]);
        assert_eq!(names(1), ["new", "a", "b"]);
        assert_eq!(names(0), Vec::<String>::new(), "zero keeps all");
    }
}
