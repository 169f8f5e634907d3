//! Does what was decided: one write, or one batch of alike writes, and waits until the caches show it.

use std::sync::Arc;

use api::Revision;
use api::clock::rfc3339;
use api::views::{JobStatusView, JobView, Meta, ObjectKey, PodGroupView, PodView, View, WorkloadView};
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};
use runtime::request::{delete, get, patch, post};
use runtime::{EventKind, ObjectRef, PatchKind, is_already_exists, is_namespace_terminating, is_not_found};
use serde_json::{Value, json};
use thiserror::Error;

use super::Parts;
use super::next_step::NextStep;
use super::observe::Observed;
use super::pods::{Slot, Stamp};
use super::scheduling::{Group, Made, MinCount};
use super::shape::{TRACKING_FINALIZER, is_held};
use super::status::News;

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The caches show the write: decide again.
    Again,
    /// The write shows itself as an event that wakes the Job; until then the caches may be older than it.
    AwaitEvents,
}

/// A step that could not be done, or not wholly. The Job is tried again with back-off; all of it is decided anew.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The variants name the step that failed.
pub enum Failure {
    #[error("cannot compile the workload")]
    Compile(#[source] workloadbuilder::BuildError),
    #[error("cannot delete an object that has to go")]
    Remove(#[source] kube::Error),
    #[error("cannot create the workload")]
    CreateWorkload(#[source] kube::Error),
    #[error("cannot create the pod group")]
    CreatePodGroup(#[source] kube::Error),
    #[error("cannot set minCount")]
    SetMinCount(#[source] kube::Error),
    #[error("cannot read the pod template")]
    Template(#[source] serde_json::Error),
    #[error("cannot create a pod")]
    CreatePod(#[source] kube::Error),
    #[error("cannot delete a pod")]
    DeletePod(#[source] kube::Error),
    #[error("cannot write the status")]
    WriteStatus(#[source] kube::Error),
    #[error("cannot remove the tracking finalizer of a pod")]
    ReleasePod(#[source] kube::Error),
    #[error("cannot ask for the job")]
    ReadJob(#[source] kube::Error),
}

impl Failure {
    /// Why something could not be created (or made way for), if that is what failed.
    pub fn creation(&self) -> Option<&kube::Error> {
        match self {
            Failure::CreateWorkload(error) | Failure::CreatePodGroup(error) | Failure::CreatePod(error) => Some(error),
            Failure::Remove(error) => Some(error),
            _ => None,
        }
    }

    /// Nothing where trying again is of no use, because the namespace goes, and the Job with it.
    pub fn unless_final(self) -> Result<(), Failure> {
        if self.creation().is_some_and(is_namespace_terminating) { Ok(()) } else { Err(self) }
    }
}

/// Carries out one step for one Job.
pub async fn carry_out(parts: &Parts, observed: &Observed, step: NextStep) -> Result<Then, Failure> {
    let job = &observed.job;
    match step {
        NextStep::Remove(made) => remove(parts, job, &made).await,
        NextStep::CreateWorkload(workload) => create_workload(parts, job, &workload).await,
        NextStep::CreatePodGroup(group) => create_pod_group(parts, job, &group).await,
        NextStep::SetMinCount(min_count) => set_min_count(parts, &min_count).await,
        NextStep::CreatePods(slots, group) => create_pods(parts, job, &slots, group.as_ref()).await,
        NextStep::DropPods(pods) => {
            // Without the finalizer first: what the controller itself takes away is no failure of the Job.
            let held: Vec<_> = pods.iter().filter(|pod| is_held(pod)).cloned().collect();
            release_pods(parts, &held).await?;
            delete_pods(parts, job, &pods).await
        }
        NextStep::StopPods(pods) => delete_pods(parts, job, &pods).await,
        NextStep::WriteStatus(status, news) => write_status(parts, job, &status, &news).await,
        NextStep::ReleasePods(pods) => release_pods(parts, &pods).await,
        NextStep::Report(news) => {
            tell(parts, job, &news);
            Ok(Then::AwaitEvents)
        }
        NextStep::Rest(_) => Ok(Then::AwaitEvents),
    }
}

/// Deletes an object of ours. Its going wakes the Job; until then nothing else is decided about it.
async fn remove(parts: &Parts, job: &JobView, made: &Made) -> Result<Then, Failure> {
    let (kind, path) = kind_and_path(made);
    let options = json!({ "preconditions": { "uid": made.meta().uid }, "propagationPolicy": "Background" });
    match delete(&parts.client, &path, &options).await {
        Ok(_) => {
            let message = format!("Deleted {kind}: {}", made.meta().name);
            normal(parts, job, &format!("{kind}Deleted"), "Delete", &message);
        }
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(Failure::Remove(error)),
    }
    Ok(Then::AwaitEvents)
}

fn kind_and_path(made: &Made) -> (&'static str, String) {
    let (resource, meta) = match made {
        Made::Workload(_) => (WorkloadView::RESOURCE, made.meta()),
        Made::PodGroup(_) => (PodGroupView::RESOURCE, made.meta()),
    };
    (resource.kind, resource.object_path(&meta.key()))
}

async fn create_workload(parts: &Parts, job: &JobView, workload: &Workload) -> Result<Then, Failure> {
    let path = WorkloadView::RESOURCE.collection_path(&job.metadata.namespace);
    match post(&parts.client, &path, workload).await {
        Ok(answer) => {
            normal(parts, job, "WorkloadCreated", "Create", &format!("Created Workload: {}", answer.name));
            parts.workloads.reached(answer.revision).await;
            Ok(Then::Again)
        }
        Err(error) => {
            // The name holds the Job's uid, so a taken name is our own earlier create whose answer was lost.
            if !is_already_exists(&error) {
                warn(parts, job, "FailedWorkloadCreate", "Create", &format!("Error creating Workload: {error}"));
            }
            Err(Failure::CreateWorkload(error))
        }
    }
}

async fn create_pod_group(parts: &Parts, job: &JobView, group: &PodGroup) -> Result<Then, Failure> {
    let path = PodGroupView::RESOURCE.collection_path(&job.metadata.namespace);
    match post(&parts.client, &path, group).await {
        Ok(answer) => {
            normal(parts, job, "PodGroupCreated", "Create", &format!("Created PodGroup: {}", answer.name));
            parts.pod_groups.reached(answer.revision).await;
            Ok(Then::Again)
        }
        Err(error) => {
            if !is_already_exists(&error) {
                warn(parts, job, "FailedPodGroupCreate", "Create", &format!("Error creating PodGroup: {error}"));
            }
            Err(Failure::CreatePodGroup(error))
        }
    }
}

async fn set_min_count(parts: &Parts, change: &MinCount) -> Result<Then, Failure> {
    let field = match &change.object {
        Made::Workload(_) => "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount",
        Made::PodGroup(_) => "/spec/schedulingPolicy/gang/minCount",
    };
    let (_, path) = kind_and_path(&change.object);
    let body =
        json!([same_object(change.object.meta()), { "op": "replace", "path": field, "value": change.min_count }]);
    let answer = patch(&parts.client, &path, PatchKind::Json, &body).await.map_err(Failure::SetMinCount)?;
    match &change.object {
        Made::Workload(_) => parts.workloads.reached(answer.revision).await,
        Made::PodGroup(_) => parts.pod_groups.reached(answer.revision).await,
    }
    Ok(Then::Again)
}

/// Creates the pods side by side and waits until the cache shows all that were made, so that none is made twice.
// Upstream: starts with one pod and doubles, so that a template that is refused costs one request. A gang would only be
// held up by that.
async fn create_pods(parts: &Parts, job: &JobView, slots: &[Slot], group: Option<&Group>) -> Result<Then, Failure> {
    let stamp = Stamp::new(job, group).map_err(Failure::Template)?;
    let path = PodView::RESOURCE.collection_path(&job.metadata.namespace);
    let create = |slot: &Slot| {
        let (pod, path) = (stamp.pod(*slot), path.as_str());
        async move { post(&parts.client, path, &pod).await }
    };
    let answers: Vec<_> =
        stream::iter(slots.iter().map(create)).buffered(parts.config.writes_in_flight).collect().await;
    let (mut latest, mut failure) = (Revision::ZERO, None);
    for answer in answers {
        match answer {
            Ok(answer) => {
                latest = latest.max(answer.revision);
                normal(parts, job, "SuccessfulCreate", "Create", &format!("Created pod: {}", answer.name));
            }
            Err(error) => {
                warn(parts, job, "FailedCreate", "Create", &format!("Error creating: {error}"));
                failure.get_or_insert(error);
            }
        }
    }
    parts.pods.reached(latest).await;
    failure.map_or(Ok(Then::Again), |error| Err(Failure::CreatePod(error)))
}

async fn delete_pods(parts: &Parts, job: &JobView, pods: &[Arc<PodView>]) -> Result<Then, Failure> {
    let delete_one = |pod: &Arc<PodView>| {
        let path = PodView::RESOURCE.object_path(&pod.metadata.key());
        let options = json!({ "preconditions": { "uid": pod.metadata.uid } });
        let name = pod.metadata.name.clone();
        async move { (name, delete(&parts.client, &path, &options).await) }
    };
    let pods = stream::iter(pods.iter().map(delete_one));
    let answers: Vec<_> = pods.buffered(parts.config.writes_in_flight).collect().await;
    let mut failure = None;
    for (name, answer) in answers {
        match answer {
            Ok(_) => normal(parts, job, "SuccessfulDelete", "Delete", &format!("Deleted pod: {name}")),
            Err(error) if is_not_found(&error) => {}
            Err(error) => {
                warn(parts, job, "FailedDelete", "Delete", &format!("Error deleting pod {name}: {error}"));
                failure.get_or_insert(error);
            }
        }
    }
    // A server may answer a delete without a revision, so there is none to wait for. Until the event comes the pods
    // look active; deleting them twice does no harm, and nothing is created in their place.
    failure.map_or(Ok(Then::AwaitEvents), |error| Err(Failure::DeletePod(error)))
}

async fn write_status(parts: &Parts, job: &JobView, status: &JobStatusView, news: &[News]) -> Result<Then, Failure> {
    let path = format!("{}/status", JobView::RESOURCE.object_path(&job.metadata.key()));
    let body = json!({
        // With the version, so that counts from an outdated Job are refused instead of written over newer ones.
        "metadata": { "uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version },
        "status": status_document(status),
    });
    let answer = patch(&parts.client, &path, PatchKind::Merge, &body).await.map_err(Failure::WriteStatus)?;
    news.iter().for_each(|news| tell(parts, job, news));
    if answer.revision == job.metadata.resource_version {
        // Deciding again would come to the same write for ever.
        tracing::error!(job = %job.metadata.key(), "the server keeps another status than the one written");
        return Ok(Then::AwaitEvents);
    }
    parts.jobs.reached(answer.revision).await;
    Ok(Then::Again)
}

/// The whole status as a merge patch: what is not there is removed. Zero counts are left out, as upstream does.
fn status_document(status: &JobStatusView) -> Value {
    let count = |count: i32| (count != 0).then_some(count);
    let uids = |uids: &[String]| (!uids.is_empty()).then(|| uids.to_vec());
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let conditions = status.conditions.iter().map(|condition| {
        let at = condition.last_transition_time.map(rfc3339);
        json!({
            "type": condition.kind, "status": condition.status, "reason": condition.reason,
            "message": condition.message, "lastProbeTime": at, "lastTransitionTime": at,
        })
    });
    json!({
        "conditions": Some(conditions.collect::<Vec<_>>()).filter(|conditions| !conditions.is_empty()),
        "startTime": status.start_time.map(rfc3339),
        "completionTime": status.completion_time.map(rfc3339),
        "active": count(status.active),
        "ready": status.ready,
        "terminating": status.terminating,
        "succeeded": count(status.succeeded),
        "failed": count(status.failed),
        "completedIndexes": Some(&status.completed_indexes).filter(|text| !text.is_empty()),
        "uncountedTerminatedPods": uncounted.map(|uncounted| json!({
            "succeeded": uids(&uncounted.succeeded),
            "failed": uids(&uncounted.failed),
        })),
    })
}

/// Takes the tracking finalizer off the pods; a pod that is gone has lost it too.
pub async fn release_pods(parts: &Parts, pods: &[Arc<PodView>]) -> Result<Then, Failure> {
    let release = |pod: &Arc<PodView>| {
        let path = PodView::RESOURCE.object_path(&pod.metadata.key());
        let position = pod.metadata.finalizers.iter().position(|held| held == TRACKING_FINALIZER).unwrap_or(0);
        let finalizer = format!("/metadata/finalizers/{position}");
        // Only this finalizer of this pod, whatever else changed meanwhile.
        let body = json!([
            same_object(&pod.metadata),
            { "op": "test", "path": finalizer, "value": TRACKING_FINALIZER },
            { "op": "remove", "path": finalizer },
        ]);
        async move { patch(&parts.client, &path, PatchKind::Json, &body).await }
    };
    let writes = stream::iter(pods.iter().map(release));
    let answers: Vec<_> = writes.buffered(parts.config.writes_in_flight).collect().await;
    // With its last finalizer a pod that is being deleted goes, and its going wakes the Job.
    let mut then = if pods.iter().any(|pod| pod.metadata.is_deleting()) { Then::AwaitEvents } else { Then::Again };
    let (mut latest, mut failure) = (Revision::ZERO, None);
    for answer in answers {
        match answer {
            Ok(answer) => latest = latest.max(answer.revision),
            Err(error) if is_not_found(&error) => then = Then::AwaitEvents,
            Err(error) => _ = failure.get_or_insert(error),
        }
    }
    if then == Then::Again {
        parts.pods.reached(latest).await;
    }
    failure.map_or(Ok(then), |error| Err(Failure::ReleasePod(error)))
}

/// Whether the Job is really gone. The cache of Jobs may lag behind that of pods, and an end that is not counted cannot
/// be counted later, so the server is asked.
pub async fn is_gone(parts: &Parts, key: &ObjectKey, uid: &str) -> Result<bool, Failure> {
    match get(&parts.client, &JobView::RESOURCE.object_path(key)).await {
        Ok(bytes) => Ok(JobView::decode(&bytes).is_ok_and(|job| job.metadata.uid != uid)),
        Err(error) if is_not_found(&error) => Ok(true),
        Err(error) => Err(Failure::ReadJob(error)),
    }
}

/// Refuses a JSON patch for another object that came to bear the same name.
fn same_object(meta: &Meta) -> Value {
    json!({ "op": "test", "path": "/metadata/uid", "value": meta.uid })
}

fn tell(parts: &Parts, job: &JobView, news: &News) {
    let kind = if news.warning { EventKind::Warning } else { EventKind::Normal };
    parts.recorder.event(&ObjectRef::of(job), kind, &news.reason, "Reconcile", &news.message);
}

fn normal(parts: &Parts, job: &JobView, reason: &str, action: &str, message: &str) {
    parts.recorder.event(&ObjectRef::of(job), EventKind::Normal, reason, action, message);
}

/// Tells people about a failure.
pub fn warn(parts: &Parts, job: &JobView, reason: &str, action: &str, message: &str) {
    parts.recorder.event(&ObjectRef::of(job), EventKind::Warning, reason, action, message);
}
