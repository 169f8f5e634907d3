//! Ends one pod: it is marked Failed if it has not ended, then deleted without grace.

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{PodView, View};
use kube::{Client, Error};
use runtime::request::{delete, patch};
use runtime::{PatchKind, is_not_found};
use serde_json::{Value, json};

use super::decide::PodGcReason;

/// Deletes `pod`, but not another pod with its name. A missing pod is not an error. A changed one is, and is
/// reconciled again.
pub async fn mark_failed_and_delete(
    client: &Client,
    pod: &PodView,
    reason: PodGcReason,
    now: Timestamp,
) -> Result<(), Error> {
    let path = PodView::RESOURCE.object_path(&pod.metadata.key());
    if !pod.is_finished() {
        let failed =
            patch(client, &format!("{path}/status"), PatchKind::Json, &failed_status_patch(pod, reason, now)).await;
        match failed {
            Err(error) if is_not_found(&error) => return Ok(()),
            response => response?,
        };
    }
    let options = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": pod.metadata.uid } });
    match delete(client, &path, &options).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The phase, the observed generation and, for a pod that lost its node, the condition that marks a disruption for its Job.
fn failed_status_patch(pod: &PodView, reason: PodGcReason, now: Timestamp) -> Vec<Value> {
    let meta = &pod.metadata;
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": meta.uid }),
        // The position below is that of this version.
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version }),
        json!({ "op": "add", "path": "/status/phase", "value": "Failed" }),
        json!({ "op": "add", "path": "/status/observedGeneration", "value": meta.generation }),
    ];
    if reason == PodGcReason::Orphaned {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "lastTransitionTime": rfc3339(now),
            "observedGeneration": meta.generation,
        });
        let conditions = &pod.status.conditions;
        operations.push(match conditions.iter().position(|condition| condition.kind == "DisruptionTarget") {
            Some(at) => json!({ "op": "replace", "path": format!("/status/conditions/{at}"), "value": condition }),
            None if conditions.is_empty() => json!({ "op": "add", "path": "/status/conditions", "value": [condition] }),
            None => json!({ "op": "add", "path": "/status/conditions/-", "value": condition }),
        });
    }
    operations
}
