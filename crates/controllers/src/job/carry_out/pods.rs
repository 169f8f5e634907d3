//! Writes to pods: each step is one batch of alike writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::Revision;
use api::views::{JobView, ObjectKey, PodView, View};
use futures::{StreamExt, stream};
use runtime::failure::message;
use runtime::request::{WriteAnswer, delete, patch, post, read};
use runtime::{PatchKind, is_not_found, is_uncertain};
use serde_json::{Value, json};

use super::{Failure, Then, normal, same_object, warn};
use crate::job::Parts;
use crate::job::claims::may_adopt;
use crate::job::observe::Observed;
use crate::job::pods::{Slot, Stamp, job_owner};
use crate::job::scheduling::Group;
use crate::job::shape::{TRACKING_FINALIZER, is_held};

/// Creates the pods side by side and waits until the cache shows all that were made, so that none is made twice. While
/// no pod of the Job was ever accepted the first one goes ahead, and after a refusal no more are sent (decision 0005).
// Upstream: starts with one pod and doubles.
pub(super) async fn create(
    parts: &Parts,
    observed: &Observed,
    slots: &[Slot],
    group: Option<&Group>,
) -> Result<Then, Failure> {
    let job = &observed.job;
    let stamp = Stamp::new(job, group).map_err(Failure::Template)?;
    let path = PodView::RESOURCE.collection_path(&job.metadata.namespace);
    let refused = AtomicBool::new(false);
    let create = |slot: &Slot| {
        let (pod, path, refused) = (stamp.pod(*slot), path.as_str(), &refused);
        async move {
            if refused.load(Ordering::Relaxed) {
                return None;
            }
            let answer = post(&parts.client, path, &pod).await;
            refused.fetch_or(answer.is_err(), Ordering::Relaxed);
            Some(answer)
        }
    };
    let ahead = usize::from(is_untried(observed)).min(slots.len());
    let (mut made, mut refused_count, mut failure) = (Vec::new(), 0, None);
    for batch in [&slots[..ahead], &slots[ahead..]] {
        let writes = stream::iter(batch.iter().map(create)).buffered(parts.config.writes_in_flight);
        for answer in writes.collect::<Vec<_>>().await.into_iter().flatten() {
            match answer {
                Ok(answer) => {
                    normal(parts, job, "SuccessfulCreate", "Create", &format!("Created pod: {}", answer.name));
                    made.push(answer);
                }
                Err(error) => {
                    refused_count += 1;
                    warn(parts, job, "FailedCreate", "Create", &format!("Error creating: {}", message(&error)));
                    // One that may have been done says more than one that was not.
                    failure = failure.filter(|held| is_uncertain(held) || !is_uncertain(&error)).or(Some(error));
                }
            }
        }
    }
    parts.metrics.job.pods_created(job, &observed.pods, made.len(), refused_count);
    let all_show = show(parts, job, &made).await;
    match failure {
        None if all_show => Ok(Then::Again),
        None => Ok(Then::Ask),
        Some(error) => {
            let unsure = !all_show || is_uncertain(&error);
            Err(Failure::CreatePods { error, unsure })
        }
    }
}

/// Whether nothing is known yet about what the server thinks of the Job's pods.
fn is_untried(observed: &Observed) -> bool {
    let status = &observed.job.status;
    !observed.owns_pods() && status.succeeded == 0 && status.failed == 0
}

/// Waits until the cache has come as far as the pods that were made. False if one of them does not show even then: it is
/// gone again, or its event was lost or is late.
async fn show(parts: &Parts, job: &JobView, made: &[WriteAnswer]) -> bool {
    let latest = made.iter().map(|answer| answer.revision).max().unwrap_or(Revision::ZERO);
    parts.pods.reached(latest).await;
    let shows = |answer: &WriteAnswer| {
        let key = ObjectKey::new(&job.metadata.namespace, &answer.name);
        parts.pods.get(&key).is_some_and(|pod| pod.metadata.uid == answer.uid)
    };
    made.iter().all(shows)
}

/// Deletes the pods; whether that counts for the Job depends on whether they still hold their finalizer.
pub(super) async fn delete_all(parts: &Parts, job: &JobView, pods: &[Arc<PodView>]) -> Result<Then, Failure> {
    let delete_one = |pod: &Arc<PodView>| {
        let path = PodView::RESOURCE.object_path(&pod.metadata.key());
        let options = json!({ "preconditions": { "uid": pod.metadata.uid } });
        let name = pod.metadata.name.clone();
        async move { (name, delete(&parts.client, &path, &options).await) }
    };
    let pods = stream::iter(pods.iter().map(delete_one));
    let answers: Vec<_> = pods.buffered(parts.config.writes_in_flight).collect().await;
    // A server may answer a delete without a revision, so there is none to wait for. Until the event comes the pods
    // look active; deleting them twice does no harm, and nothing is created in their place.
    let (mut then, mut failure) = (Then::AwaitEvents, None);
    for (name, answer) in answers {
        match answer {
            Ok(_) => normal(parts, job, "SuccessfulDelete", "Delete", &format!("Deleted pod: {name}")),
            Err(error) if is_not_found(&error) => then = Then::Ask,
            Err(error) => {
                warn(parts, job, "FailedDelete", "Delete", &format!("Error deleting pod {name}: {}", message(&error)));
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(then), |error| Err(Failure::DeletePod(error)))
}

/// Takes the tracking finalizer off the pods; a pod that is gone has lost it too.
pub async fn release(parts: &Parts, pods: &[Arc<PodView>]) -> Result<Then, Failure> {
    let body = |pod: &PodView| {
        let mut operations = vec![same_object(&pod.metadata)];
        operations.extend(without_finalizer(pod));
        Value::Array(operations)
    };
    patch_all(parts, pods, body).await.map_err(Failure::ReleasePod)
}

/// The same for a pod that nobody controls, as long as nobody does.
pub async fn release_orphan(parts: &Parts, pod: Arc<PodView>) -> Result<Then, Failure> {
    let body = |pod: &PodView| {
        let mut operations = vec![same_object(&pod.metadata), unchanged(pod)];
        operations.extend(without_finalizer(pod));
        Value::Array(operations)
    };
    patch_all(parts, &[pod], body).await.map_err(Failure::ReleasePod)
}

/// Makes the Job the controller of pods that have none, and holds them so that their ends are counted.
pub(super) async fn adopt(parts: &Parts, job: &JobView, pods: &[Arc<PodView>]) -> Result<Then, Failure> {
    let key = job.metadata.key();
    let live = read::<JobView>(&parts.client, &key).await.map_err(Failure::ReadJob)?;
    if !may_adopt(live.as_ref(), &key, &job.metadata.uid) {
        return Ok(Then::AwaitEvents);
    }
    let owner = json!(job_owner(job));
    let body = |pod: &PodView| {
        let meta = &pod.metadata;
        let mut operations = vec![same_object(meta), unchanged(pod)];
        operations.push(appended("/metadata/ownerReferences", meta.owner_references.is_empty(), owner.clone()));
        if !is_held(pod) {
            operations.push(appended("/metadata/finalizers", meta.finalizers.is_empty(), json!(TRACKING_FINALIZER)));
        }
        Value::Array(operations)
    };
    patch_all(parts, pods, body).await.map_err(Failure::ClaimPod)
}

/// Lets go of pods that the Job no longer selects; their ends are no affair of its any more.
pub(super) async fn disown(parts: &Parts, job: &JobView, pods: &[Arc<PodView>]) -> Result<Then, Failure> {
    let body = |pod: &PodView| {
        let is_job = |uid: &str| uid == job.metadata.uid;
        let position = pod.metadata.owner_references.iter().position(|owner| is_job(&owner.uid)).unwrap_or(0);
        let owner = format!("/metadata/ownerReferences/{position}");
        let mut operations = vec![
            same_object(&pod.metadata),
            json!({ "op": "test", "path": format!("{owner}/uid"), "value": job.metadata.uid }),
            json!({ "op": "remove", "path": owner }),
        ];
        operations.extend(without_finalizer(pod));
        Value::Array(operations)
    };
    patch_all(parts, pods, body).await.map_err(Failure::ClaimPod)
}

/// Patches all pods side by side and waits until the cache shows it.
async fn patch_all(
    parts: &Parts,
    pods: &[Arc<PodView>],
    body: impl Fn(&PodView) -> Value,
) -> Result<Then, kube::Error> {
    let patch_one = |pod: &Arc<PodView>| {
        let (path, body) = (PodView::RESOURCE.object_path(&pod.metadata.key()), body(pod));
        async move { patch(&parts.client, &path, PatchKind::Json, &body).await }
    };
    let writes = stream::iter(pods.iter().map(patch_one));
    let answers: Vec<_> = writes.buffered(parts.config.writes_in_flight).collect().await;
    // With its last finalizer a pod that is being deleted goes, and its going wakes the Job.
    let mut then = if pods.iter().any(|pod| pod.metadata.is_deleting()) { Then::AwaitEvents } else { Then::Again };
    let (mut latest, mut failure) = (Revision::ZERO, None);
    for answer in answers {
        match answer {
            Ok(answer) => latest = latest.max(answer.revision),
            Err(error) if is_not_found(&error) => then = Then::Ask,
            Err(error) => _ = failure.get_or_insert(error),
        }
    }
    if then == Then::Again {
        parts.pods.reached(latest).await;
    }
    failure.map_or(Ok(then), Err)
}

/// Only this finalizer of this pod, whatever else changed meanwhile; nothing where the pod does not hold it.
fn without_finalizer(pod: &PodView) -> Vec<Value> {
    let position = pod.metadata.finalizers.iter().position(|held| held == TRACKING_FINALIZER);
    let remove = |position: usize| {
        let finalizer = format!("/metadata/finalizers/{position}");
        vec![
            json!({ "op": "test", "path": finalizer, "value": TRACKING_FINALIZER }),
            json!({ "op": "remove", "path": finalizer }),
        ]
    };
    position.map(remove).unwrap_or_default()
}

/// Refuses the patch if anything about the pod is not as it was: it may have got a controller.
fn unchanged(pod: &PodView) -> Value {
    json!({ "op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version.to_string() })
}

/// Adds to a list, which the API leaves out while it is empty.
fn appended(list: &str, is_empty: bool, value: Value) -> Value {
    if is_empty {
        json!({ "op": "add", "path": list, "value": [value] })
    } else {
        json!({ "op": "add", "path": format!("{list}/-"), "value": value })
    }
}
