//! Ends one pod: it is marked Failed if it has not ended, then deleted without grace.

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{PodView, View};
use kube::{Client, Error};
use runtime::request::{delete, patch};
use runtime::{PatchKind, is_not_found};
use serde_json::{Value, json};

use super::decide::PodGcReason;

/// Takes `pod` away, unless another has come to bear its name. A pod that is gone needs nothing more; one that changed
/// meanwhile is an error, and to be looked at again.
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
            answer => answer?,
        };
    }
    let options = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": pod.metadata.uid } });
    match delete(client, &path, &options).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The phase, the generation that this is about, and for a pod that lost its node the condition by which its Job knows that it was not the pod's fault.
fn failed_status_patch(pod: &PodView, reason: PodGcReason, now: Timestamp) -> Vec<Value> {
    let meta = &pod.metadata;
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": meta.uid }),
        // The positions below are those of this version.
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
        let held = &pod.status.conditions;
        operations.push(match held.iter().position(|condition| condition.kind == "DisruptionTarget") {
            Some(at) => json!({ "op": "replace", "path": format!("/status/conditions/{at}"), "value": condition }),
            None if held.is_empty() => json!({ "op": "add", "path": "/status/conditions", "value": [condition] }),
            None => json!({ "op": "add", "path": "/status/conditions/-", "value": condition }),
        });
    }
    operations
}
