//! Does what was decided: one write, or one batch of alike writes, and waits until the caches show it.

mod pods; // writes to pods

use api::Revision;
use api::clock::rfc3339;
use api::views::{CompositePodGroupView, JobStatusView, JobView, Meta, ObjectKey, PodGroupView, View, WorkloadView};
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::failure::message;
use runtime::request::{catch_up, delete, patch, post, read};
use runtime::{
    Cache, EventKind, ObjectRef, PatchKind, is_already_exists, is_conflict, is_namespace_terminating, is_not_found,
};
use serde_json::{Value, json};
use thiserror::Error;
use workloadbuilder::links::PARENT_COMPOSITE_POD_GROUP;

use super::Parts;
use super::claims::is_abandoned;
use super::expected::ExpectedCount;
use super::next_step::NextStep;
use super::observe::Observed;
use super::scheduling::{Made, MinCount};
use super::shape::{Shape, is_held};
use super::status::News;

pub use pods::{release, release_orphan};

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The caches show the write: decide again.
    Again,
    /// The write shows itself as an event that wakes the Job; until then the caches may be older than it.
    AwaitEvents,
    /// The caches may lack something that no event will bring: ask the server before anything is decided.
    Ask,
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
    #[error("cannot set the expected count")]
    SetExpectedCount(#[source] kube::Error),
    #[error("cannot read the pod template")]
    Template(#[source] serde_json::Error),
    #[error("cannot create a pod")]
    CreatePods {
        #[source]
        error: kube::Error,
        /// Whether there may be pods that the cache does not show.
        unsure: bool,
    },
    #[error("cannot delete a pod")]
    DeletePod(#[source] kube::Error),
    #[error("cannot write the status")]
    WriteStatus(#[source] kube::Error),
    #[error("cannot remove the tracking finalizer of a pod")]
    ReleasePod(#[source] kube::Error),
    #[error("cannot adopt a pod or let go of it")]
    ClaimPod(#[source] kube::Error),
    #[error("cannot ask for the job")]
    ReadJob(#[source] kube::Error),
    #[error("cannot ask for the pods")]
    ReadPods(#[source] kube::Error),
    #[error("cannot ask for an owner of the job")]
    ReadOwner(#[source] kube::Error),
}

impl Failure {
    /// Why something could not be created (or made ready for), if that is what failed.
    pub fn creation(&self) -> Option<&kube::Error> {
        match self {
            Failure::CreateWorkload(error) | Failure::CreatePodGroup(error) => Some(error),
            Failure::CreatePods { error, .. } | Failure::Remove(error) => Some(error),
            Failure::SetMinCount(error) | Failure::SetExpectedCount(error) => Some(error),
            _ => None,
        }
    }

    /// Whether there is more to be done about the Job all the same.
    pub fn leaves_work(&self) -> bool {
        self.creation().is_some() || matches!(self, Failure::ReleasePod(_))
    }

    /// Whether the cache may lack or keep pods that no event will bring or take away.
    pub fn leaves_doubt(&self) -> bool {
        match self {
            Failure::CreatePods { unsure, .. } => *unsure,
            // The pod is not as the cache shows it.
            Failure::ReleasePod(_) | Failure::ClaimPod(_) => true,
            _ => false,
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
        NextStep::SetMinCount(min_count) => set_min_count(parts, job, &min_count).await,
        NextStep::SetExpectedCount(expected) => set_expected_count(parts, job, &expected).await,
        NextStep::Disown(pods) => pods::disown(parts, job, &pods).await,
        NextStep::Adopt(pods) => pods::adopt(parts, job, &pods).await,
        NextStep::CreatePods(slots, group) => pods::create(parts, observed, &slots, group.as_ref()).await,
        NextStep::DropPods(pods) => {
            // Without the finalizer first: what the controller itself takes away is no failure of the Job.
            let held: Vec<_> = pods.iter().filter(|pod| is_held(pod)).cloned().collect();
            release(parts, &held).await?;
            pods::delete_all(parts, job, &pods).await
        }
        NextStep::StopPods(pods) => pods::delete_all(parts, job, &pods).await,
        NextStep::WriteStatus(status, news) => write_status(parts, job, &status, &news).await,
        NextStep::ReleasePods(pods) => {
            let then = release(parts, &pods).await?;
            // A pod is let go once, so here each failure is seen once.
            let shape = Shape::of(job, &parts.config);
            let actions = pods.iter().filter_map(|pod| shape.as_ref()?.action(pod));
            actions.for_each(|action| parts.metrics.job.failure_handled(action.name()));
            Ok(then)
        }
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
            parts.metrics.job.workload_created(job, parts.clock.now());
            parts.workloads.reached(answer.revision).await;
            Ok(Then::Again)
        }
        Err(error) => {
            // The name holds the Job's uid, so a taken name is our own earlier create whose answer was lost.
            if is_already_exists(&error) {
                let key = key_of(&workload.metadata);
                catch_up(&parts.client, &parts.workloads, &key).await.map_err(Failure::CreateWorkload)?;
            } else {
                warn(
                    parts,
                    job,
                    "FailedWorkloadCreate",
                    "Create",
                    &format!("Error creating Workload: {}", message(&error)),
                );
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
            tell_missing_parent(parts, job, group).await;
            Ok(Then::Again)
        }
        Err(error) => {
            if is_already_exists(&error) {
                let key = key_of(&group.metadata);
                catch_up(&parts.client, &parts.pod_groups, &key).await.map_err(Failure::CreatePodGroup)?;
            } else {
                warn(
                    parts,
                    job,
                    "FailedPodGroupCreate",
                    "Create",
                    &format!("Error creating PodGroup: {}", message(&error)),
                );
            }
            Err(Failure::CreatePodGroup(error))
        }
    }
}

/// Tells of a new group that hangs below one that is not there. Where that cannot be read, nothing is known to be wrong.
async fn tell_missing_parent(parts: &Parts, job: &JobView, group: &PodGroup) {
    let Some(parent) = &group.spec.parent_composite_pod_group_name else { return };
    let key = ObjectKey::new(&job.metadata.namespace, parent);
    if let Ok(None) = read::<CompositePodGroupView>(&parts.client, &key).await {
        let name = group.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "annotation {PARENT_COMPOSITE_POD_GROUP}: there is no CompositePodGroup {parent}, below which PodGroup {name} \
             hangs: create it, or make the Job with the name of one that is there"
        );
        warn(parts, job, "ParentGroupNotFound", "Create", &message);
    }
}

async fn set_min_count(parts: &Parts, job: &JobView, change: &MinCount) -> Result<Then, Failure> {
    let field = match &change.object {
        Made::Workload(_) => "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount",
        Made::PodGroup(_) => "/spec/schedulingPolicy/gang/minCount",
    };
    let (kind, path) = kind_and_path(&change.object);
    let body =
        json!([same_object(change.object.meta()), { "op": "replace", "path": field, "value": change.min_count }]);
    let answer = patch(&parts.client, &path, PatchKind::Json, &body).await.map_err(|error| {
        let (name, count) = (&change.object.meta().name, change.min_count);
        let message = format!("Error setting minCount of {kind} {name} to {count}: {}", message(&error));
        warn(parts, job, "FailedMinCountUpdate", "Update", &message);
        Failure::SetMinCount(error)
    })?;
    let key = change.object.meta().key();
    match &change.object {
        Made::Workload(_) => shows(&parts.workloads, &key, answer.revision).await,
        Made::PodGroup(_) => shows(&parts.pod_groups, &key, answer.revision).await,
    }
    Ok(Then::Again)
}

async fn set_expected_count(parts: &Parts, job: &JobView, change: &ExpectedCount) -> Result<Then, Failure> {
    let meta = &change.group.metadata;
    let path = PodGroupView::RESOURCE.object_path(&meta.key());
    let field = format!("/metadata/annotations/{}", PodGroupView::EXPECTED_COUNT.replace('/', "~1"));
    let body = json!([same_object(meta), { "op": "add", "path": field, "value": change.count.to_string() }]);
    let answer = patch(&parts.client, &path, PatchKind::Json, &body).await.map_err(|error| {
        let (name, count) = (&meta.name, change.count);
        let message = format!("Error setting the expected count of PodGroup {name} to {count}: {}", message(&error));
        warn(parts, job, "FailedExpectedCountUpdate", "Update", &message);
        Failure::SetExpectedCount(error)
    })?;
    shows(&parts.pod_groups, &meta.key(), answer.revision).await;
    Ok(Then::Again)
}

/// Waits until the cache shows a write that no version guards: as long as it does not, the same write would be decided on
/// again and again. Where its event was lost, the kind is listed anew.
async fn shows<V: View>(cache: &Cache<V>, key: &ObjectKey, revision: Revision) {
    cache.reached(revision).await;
    if cache.get(key).is_some_and(|held| held.meta().resource_version < revision) {
        cache.renew().await;
    }
}

async fn write_status(parts: &Parts, job: &JobView, status: &JobStatusView, news: &[News]) -> Result<Then, Failure> {
    let path = format!("{}/status", JobView::RESOURCE.object_path(&job.metadata.key()));
    let body = json!({
        // With the version, so that counts from an outdated Job are refused instead of written over newer ones.
        "metadata": { "uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version },
        "status": status_document(status),
    });
    let answer = match patch(&parts.client, &path, PatchKind::Merge, &body).await {
        Err(error) if is_conflict(&error) => {
            catch_up(&parts.client, &parts.jobs, &job.metadata.key()).await.map_err(Failure::WriteStatus)?;
            return Err(Failure::WriteStatus(error));
        }
        answer => answer.map_err(Failure::WriteStatus)?,
    };
    parts.metrics.job.status_written(job, status);
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
        "failedIndexes": status.failed_indexes,
        "uncountedTerminatedPods": uncounted.map(|uncounted| json!({
            "succeeded": uids(&uncounted.succeeded),
            "failed": uids(&uncounted.failed),
        })),
    })
}

/// Whether the pods of a Job that the cache does not have may be let go. It may only lag behind that of pods, and an end
/// that is not counted cannot be counted later, so the server is asked.
pub async fn is_gone(parts: &Parts, key: &ObjectKey, uid: &str) -> Result<bool, Failure> {
    let live = read::<JobView>(&parts.client, key).await.map_err(Failure::ReadJob)?;
    Ok(is_abandoned(uid, live.as_ref()))
}

fn key_of(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
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
