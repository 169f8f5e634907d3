//! Writes to pods: each step is one batch of the same write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::Revision;
use api::views::{JobView, ObjectKey, PodView, View};
use futures::{StreamExt, stream};
use runtime::failure::message;
use runtime::request::{WriteResponse, delete, patch, post, read};
use runtime::{PatchKind, is_not_found, is_uncertain};
use serde_json::{Value, json};

use super::{AfterStep, StepError, record_normal, record_warning, uid_precondition};
use crate::job::JobContext;
use crate::job::job_params::{TRACKING_FINALIZER, has_tracking_finalizer};
use crate::job::observe::JobSnapshot;
use crate::job::pods::claims::may_adopt;
use crate::job::pods::{PodFactory, PodSlot, job_owner};
use crate::job::scheduling::JoinedGroup;

/// Creates the pods concurrently and waits until the cache shows all of them, so that none is created twice. Until the
/// server has accepted a pod of the Job, the first one is sent alone; after a refusal no more are sent (decision
/// 0005).
// Upstream: starts with one pod and doubles.
pub(super) async fn create(
    ctx: &JobContext,
    observed: &JobSnapshot,
    slots: &[PodSlot],
    group: Option<&JoinedGroup>,
) -> Result<AfterStep, StepError> {
    let job = &observed.job;
    let factory = PodFactory::new(job, group).map_err(StepError::Template)?;
    let path = PodView::RESOURCE.collection_path(&job.metadata.namespace);
    let refused = AtomicBool::new(false);
    let create = |slot: &PodSlot| {
        let (pod, path, refused) = (factory.pod(*slot), path.as_str(), &refused);
        async move {
            if refused.load(Ordering::Relaxed) {
                return None;
            }
            let response = post(&ctx.client, path, &pod).await;
            refused.fetch_or(response.is_err(), Ordering::Relaxed);
            Some(response)
        }
    };
    let first = usize::from(is_first_creation(observed)).min(slots.len());
    let (mut created, mut refused_count, mut failure) = (Vec::new(), 0, None);
    for batch in [&slots[..first], &slots[first..]] {
        let writes = stream::iter(batch.iter().map(create)).buffered(ctx.config.max_writes_in_flight);
        for response in writes.collect::<Vec<_>>().await.into_iter().flatten() {
            match response {
                Ok(response) => {
                    record_normal(ctx, job, "SuccessfulCreate", "Create", &format!("Created pod: {}", response.name));
                    created.push(response);
                }
                Err(error) => {
                    refused_count += 1;
                    record_warning(ctx, job, "FailedCreate", "Create", &format!("Error creating: {}", message(&error)));
                    // An uncertain create matters more than a refused one.
                    failure = failure.filter(|earlier| is_uncertain(earlier) || !is_uncertain(&error)).or(Some(error));
                }
            }
        }
    }
    ctx.metrics.job.pods_created(job, &observed.pods, created.len(), refused_count);
    let all_cached = wait_until_cached(ctx, job, &created).await;
    match failure {
        None if all_cached => Ok(AfterStep::DecideAgain),
        None => Ok(AfterStep::VerifyPods),
        Some(error) => {
            let may_exist = !all_cached || is_uncertain(&error);
            Err(StepError::CreatePods { error, may_exist })
        }
    }
}

/// Whether the server has not accepted a pod of the Job yet, as far as is known.
fn is_first_creation(observed: &JobSnapshot) -> bool {
    let status = &observed.job.status;
    !observed.owns_pods() && status.succeeded == 0 && status.failed == 0
}

/// Waits until the cache has reached the revision of the created pods. False if one of them is missing even after: it
/// was deleted, or its event was lost or is late.
async fn wait_until_cached(ctx: &JobContext, job: &JobView, created: &[WriteResponse]) -> bool {
    let latest = created.iter().map(|response| response.revision).max().unwrap_or(Revision::ZERO);
    ctx.pods.wait_for_revision(latest).await;
    let is_cached = |response: &WriteResponse| {
        let key = ObjectKey::new(&job.metadata.namespace, &response.name);
        ctx.pods.get(&key).is_some_and(|pod| pod.metadata.uid == response.uid)
    };
    created.iter().all(is_cached)
}

/// Deletes the pods. Those that still have the tracking finalizer are counted.
pub(super) async fn delete_all(ctx: &JobContext, job: &JobView, pods: &[Arc<PodView>]) -> Result<AfterStep, StepError> {
    let delete_one = |pod: &Arc<PodView>| {
        let path = PodView::RESOURCE.object_path(&pod.metadata.key());
        let options = json!({ "preconditions": { "uid": pod.metadata.uid } });
        let name = pod.metadata.name.clone();
        async move { (name, delete(&ctx.client, &path, &options).await) }
    };
    let pods = stream::iter(pods.iter().map(delete_one));
    let responses: Vec<_> = pods.buffered(ctx.config.max_writes_in_flight).collect().await;
    // The response to a delete may have no revision, so there is none to wait for. Until the event arrives the pods
    // look active; deleting them twice does no harm, and nothing is created in their place.
    let (mut after, mut failure) = (AfterStep::AwaitEvents, None);
    for (name, response) in responses {
        match response {
            Ok(_) => record_normal(ctx, job, "SuccessfulDelete", "Delete", &format!("Deleted pod: {name}")),
            Err(error) if is_not_found(&error) => after = AfterStep::VerifyPods,
            Err(error) => {
                record_warning(
                    ctx,
                    job,
                    "FailedDelete",
                    "Delete",
                    &format!("Error deleting pod {name}: {}", message(&error)),
                );
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(after), |error| Err(StepError::DeletePod(error)))
}

/// Removes the tracking finalizer of the pods. A pod that is gone counts as done.
pub async fn remove_tracking_finalizers(ctx: &JobContext, pods: &[Arc<PodView>]) -> Result<AfterStep, StepError> {
    let body = |pod: &PodView| {
        let mut operations = vec![uid_precondition(&pod.metadata)];
        operations.extend(finalizer_removal_ops(pod));
        Value::Array(operations)
    };
    patch_all(ctx, pods, body).await.map_err(StepError::RemoveFinalizer)
}

/// The same for a pod without a controller, as long as it has none.
pub async fn remove_orphan_finalizer(ctx: &JobContext, pod: Arc<PodView>) -> Result<AfterStep, StepError> {
    let body = |pod: &PodView| {
        let mut operations = vec![uid_precondition(&pod.metadata), version_precondition(pod)];
        operations.extend(finalizer_removal_ops(pod));
        Value::Array(operations)
    };
    patch_all(ctx, &[pod], body).await.map_err(StepError::RemoveFinalizer)
}

/// Makes the Job the controller of pods that have none, and adds the tracking finalizer.
pub(super) async fn adopt(ctx: &JobContext, job: &JobView, pods: &[Arc<PodView>]) -> Result<AfterStep, StepError> {
    let key = job.metadata.key();
    let live = read::<JobView>(&ctx.client, &key).await.map_err(StepError::ReadJob)?;
    if !may_adopt(live.as_ref(), &key, &job.metadata.uid) {
        return Ok(AfterStep::AwaitEvents);
    }
    let owner = json!(job_owner(job));
    let body = |pod: &PodView| {
        let meta = &pod.metadata;
        let mut operations = vec![uid_precondition(meta), version_precondition(pod)];
        operations.push(append_op("/metadata/ownerReferences", meta.owner_references.is_empty(), owner.clone()));
        if !has_tracking_finalizer(pod) {
            operations.push(append_op("/metadata/finalizers", meta.finalizers.is_empty(), json!(TRACKING_FINALIZER)));
        }
        Value::Array(operations)
    };
    patch_all(ctx, pods, body).await.map_err(StepError::ClaimPod)
}

/// Releases pods that no longer match the Job's selector. Their ends are not counted.
pub(super) async fn release_pods(
    ctx: &JobContext,
    job: &JobView,
    pods: &[Arc<PodView>],
) -> Result<AfterStep, StepError> {
    let body = |pod: &PodView| {
        let is_job = |uid: &str| uid == job.metadata.uid;
        let position = pod.metadata.owner_references.iter().position(|owner| is_job(&owner.uid)).unwrap_or(0);
        let owner = format!("/metadata/ownerReferences/{position}");
        let mut operations = vec![
            uid_precondition(&pod.metadata),
            json!({ "op": "test", "path": format!("{owner}/uid"), "value": job.metadata.uid }),
            json!({ "op": "remove", "path": owner }),
        ];
        operations.extend(finalizer_removal_ops(pod));
        Value::Array(operations)
    };
    patch_all(ctx, pods, body).await.map_err(StepError::ClaimPod)
}

/// Patches all pods concurrently and waits until the cache shows it.
async fn patch_all(
    ctx: &JobContext,
    pods: &[Arc<PodView>],
    body: impl Fn(&PodView) -> Value,
) -> Result<AfterStep, kube::Error> {
    let patch_one = |pod: &Arc<PodView>| {
        let (path, body) = (PodView::RESOURCE.object_path(&pod.metadata.key()), body(pod));
        async move { patch(&ctx.client, &path, PatchKind::Json, &body).await }
    };
    let writes = stream::iter(pods.iter().map(patch_one));
    let responses: Vec<_> = writes.buffered(ctx.config.max_writes_in_flight).collect().await;
    // A pod that is being deleted is gone with its last finalizer, and that event enqueues the Job.
    let mut after =
        if pods.iter().any(|pod| pod.metadata.is_deleting()) { AfterStep::AwaitEvents } else { AfterStep::DecideAgain };
    let (mut latest, mut failure) = (Revision::ZERO, None);
    for response in responses {
        match response {
            Ok(response) => latest = latest.max(response.revision),
            Err(error) if is_not_found(&error) => after = AfterStep::VerifyPods,
            Err(error) => _ = failure.get_or_insert(error),
        }
    }
    if after == AfterStep::DecideAgain {
        ctx.pods.wait_for_revision(latest).await;
    }
    failure.map_or(Ok(after), Err)
}

/// Removes only this finalizer of this pod, whatever else has changed; nothing if the pod does not have it.
fn finalizer_removal_ops(pod: &PodView) -> Vec<Value> {
    let position = pod.metadata.finalizers.iter().position(|finalizer| finalizer == TRACKING_FINALIZER);
    let remove = |position: usize| {
        let finalizer = format!("/metadata/finalizers/{position}");
        vec![
            json!({ "op": "test", "path": finalizer, "value": TRACKING_FINALIZER }),
            json!({ "op": "remove", "path": finalizer }),
        ]
    };
    position.map(remove).unwrap_or_default()
}

/// Refuses the patch if the pod has changed: it may have a controller by now.
fn version_precondition(pod: &PodView) -> Value {
    json!({ "op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version.to_string() })
}

/// Appends to a list. The API omits an empty list.
fn append_op(list: &str, is_empty: bool, value: Value) -> Value {
    if is_empty {
        json!({ "op": "add", "path": list, "value": [value] })
    } else {
        json!({ "op": "add", "path": format!("{list}/-"), "value": value })
    }
}
