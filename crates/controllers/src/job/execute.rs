//! Executes a step: one write, or one batch of the same write, and waits until the caches show it.

mod pods; // writes to pods

use api::Revision;
use api::clock::rfc3339;
use api::views::{
    CompositePodGroupView, JobStatusView, JobView, MetaView, ObjectKey, PodGroupView, View, WorkloadView,
};
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::failure::message;
use runtime::request::{catch_up, delete, patch, post, read};
use runtime::{
    Cache, EventKind, ObjectRef, PatchKind, is_already_exists, is_conflict, is_lost_race, is_namespace_terminating,
    is_not_found,
};
use serde_json::{Value, json};
use thiserror::Error;
use workloadbuilder::group_annotations::PARENT_COMPOSITE_POD_GROUP_ANNOTATION;

use super::JobContext;
use super::job_params::{JobParams, has_tracking_finalizer};
use super::next_step::NextStep;
use super::observe::JobSnapshot;
use super::pods::claims::is_abandoned;
use super::scheduling::expected_count::ExpectedCountUpdate;
use super::scheduling::{ManagedObject, MinCountUpdate};
use super::status::JobEvent;

pub use pods::{remove_orphan_finalizer, remove_tracking_finalizers};

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterStep {
    /// The caches show the write: decide again.
    DecideAgain,
    /// The write is observed as an event that enqueues the Job; until then the caches may be older than it.
    AwaitEvents,
    /// The caches may lack pods for which no event will arrive: list them on the server before the next decision.
    VerifyPods,
}

/// A step that failed, wholly or in part. The Job is reconciled again with back-off.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The variants name the step that failed.
pub enum StepError {
    #[error("cannot compile the workload")]
    Compile(#[source] workloadbuilder::BuildError),
    #[error("cannot delete a scheduling object")]
    DeleteObject(#[source] kube::Error),
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
        /// Whether pods may exist that the cache does not show.
        may_exist: bool,
    },
    #[error("cannot delete a pod")]
    DeletePod(#[source] kube::Error),
    #[error("cannot write the status")]
    WriteStatus(#[source] kube::Error),
    #[error("cannot remove the tracking finalizer of a pod")]
    RemoveFinalizer(#[source] kube::Error),
    #[error("cannot adopt or release a pod")]
    ClaimPod(#[source] kube::Error),
    #[error("cannot read the job")]
    ReadJob(#[source] kube::Error),
    #[error("cannot read the pods")]
    ReadPods(#[source] kube::Error),
    #[error("cannot read an owner of the job")]
    ReadOwner(#[source] kube::Error),
}

impl StepError {
    /// The error of a create, or of a write that prepares one, if that is what failed.
    pub fn create_error(&self) -> Option<&kube::Error> {
        match self {
            StepError::CreateWorkload(error) | StepError::CreatePodGroup(error) => Some(error),
            StepError::CreatePods { error, .. } | StepError::DeleteObject(error) => Some(error),
            StepError::SetMinCount(error) | StepError::SetExpectedCount(error) => Some(error),
            _ => None,
        }
    }

    /// The error of the request that failed; `None` if none did.
    fn request_error(&self) -> Option<&kube::Error> {
        match self {
            StepError::Compile(_) | StepError::Template(_) => None,
            StepError::DeleteObject(error) | StepError::CreateWorkload(error) | StepError::CreatePodGroup(error) => {
                Some(error)
            }
            StepError::SetMinCount(error) | StepError::SetExpectedCount(error) => Some(error),
            StepError::CreatePods { error, .. } | StepError::DeletePod(error) => Some(error),
            StepError::WriteStatus(error) | StepError::RemoveFinalizer(error) | StepError::ClaimPod(error) => {
                Some(error)
            }
            StepError::ReadJob(error) | StepError::ReadPods(error) | StepError::ReadOwner(error) => Some(error),
        }
    }

    /// The text of the cause.
    pub fn cause(&self) -> String {
        let source = || std::error::Error::source(self).map(ToString::to_string).unwrap_or_default();
        self.request_error().map_or_else(source, message)
    }

    /// Whether another write came first.
    pub fn is_lost_race(&self) -> bool {
        self.request_error().is_some_and(is_lost_race)
    }

    /// Whether ended pods can be counted all the same.
    pub fn allows_counting(&self) -> bool {
        self.create_error().is_some() || matches!(self, StepError::RemoveFinalizer(_))
    }

    /// Whether the cache of pods may differ from the server in a way that no event corrects.
    pub fn needs_pod_verification(&self) -> bool {
        match self {
            StepError::CreatePods { may_exist, .. } => *may_exist,
            // The pod is not as the cache shows it.
            StepError::RemoveFinalizer(_) | StepError::ClaimPod(_) => true,
            _ => false,
        }
    }

    /// No error if the namespace is being deleted: a retry does not help, and the Job is deleted with it.
    pub fn unless_namespace_terminating(self) -> Result<(), StepError> {
        if self.create_error().is_some_and(is_namespace_terminating) { Ok(()) } else { Err(self) }
    }
}

/// Executes one step for one Job.
pub async fn execute(ctx: &JobContext, observed: &JobSnapshot, step: NextStep) -> Result<AfterStep, StepError> {
    let job = &observed.job;
    match step {
        NextStep::DeleteObject(object) => delete_object(ctx, job, &object).await,
        NextStep::CreateWorkload(workload) => create_workload(ctx, job, &workload).await,
        NextStep::CreatePodGroup(group) => create_pod_group(ctx, job, &group).await,
        NextStep::SetMinCount(min_count) => set_min_count(ctx, job, &min_count).await,
        NextStep::SetExpectedCount(expected) => set_expected_count(ctx, job, &expected).await,
        NextStep::Release(pods) => pods::release_pods(ctx, job, &pods).await,
        NextStep::Adopt(pods) => pods::adopt(ctx, job, &pods).await,
        NextStep::CreatePods(slots, group) => pods::create(ctx, observed, &slots, group.as_ref()).await,
        NextStep::DeleteWithoutCounting(pods) => {
            // The finalizer goes first: a pod that the controller deletes is not a failure of the Job.
            let tracked: Vec<_> = pods.iter().filter(|pod| has_tracking_finalizer(pod)).cloned().collect();
            remove_tracking_finalizers(ctx, &tracked).await?;
            pods::delete_all(ctx, job, &pods).await
        }
        NextStep::DeleteAndCount(pods) => pods::delete_all(ctx, job, &pods).await,
        NextStep::WriteStatus(status, events) => write_status(ctx, job, &status, &events).await,
        NextStep::RemoveFinalizers(pods) => {
            let after = remove_tracking_finalizers(ctx, &pods).await?;
            // The finalizer of a pod is removed once, so each failure is counted once here.
            let params = JobParams::of(job, &ctx.config);
            let actions = pods.iter().filter_map(|pod| params.as_ref()?.failure_policy_action(pod));
            actions.for_each(|action| ctx.metrics.job.failure_handled(action.name()));
            Ok(after)
        }
        NextStep::RecordEvent(event) => {
            record_event(ctx, job, &event);
            Ok(AfterStep::AwaitEvents)
        }
        NextStep::Wait(_) => Ok(AfterStep::AwaitEvents),
    }
}

/// Deletes an object of ours. The event of its deletion enqueues the Job; until then nothing else is decided.
async fn delete_object(ctx: &JobContext, job: &JobView, object: &ManagedObject) -> Result<AfterStep, StepError> {
    let (kind, path) = kind_and_path(object);
    let options = json!({ "preconditions": { "uid": object.meta().uid }, "propagationPolicy": "Background" });
    match delete(&ctx.client, &path, &options).await {
        Ok(_) => {
            let message = format!("Deleted {kind}: {}", object.meta().name);
            record_normal(ctx, job, &format!("{kind}Deleted"), "Delete", &message);
        }
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(StepError::DeleteObject(error)),
    }
    Ok(AfterStep::AwaitEvents)
}

fn kind_and_path(object: &ManagedObject) -> (&'static str, String) {
    let (resource, meta) = match object {
        ManagedObject::Workload(_) => (WorkloadView::RESOURCE, object.meta()),
        ManagedObject::PodGroup(_) => (PodGroupView::RESOURCE, object.meta()),
    };
    (resource.kind, resource.object_path(&meta.key()))
}

async fn create_workload(ctx: &JobContext, job: &JobView, workload: &Workload) -> Result<AfterStep, StepError> {
    let path = WorkloadView::RESOURCE.collection_path(&job.metadata.namespace);
    match post(&ctx.client, &path, workload).await {
        Ok(response) => {
            record_normal(ctx, job, "WorkloadCreated", "Create", &format!("Created Workload: {}", response.name));
            ctx.metrics.job.workload_created(job, ctx.clock.now());
            ctx.workloads.wait_for_revision(response.revision).await;
            Ok(AfterStep::DecideAgain)
        }
        Err(error) => {
            // The name contains the Job's uid, so a taken name is our own earlier create whose response was lost.
            if is_already_exists(&error) {
                let key = key_of(&workload.metadata);
                catch_up(&ctx.client, &ctx.workloads, &key).await.map_err(StepError::CreateWorkload)?;
            } else {
                record_warning(
                    ctx,
                    job,
                    "FailedWorkloadCreate",
                    "Create",
                    &format!("Error creating Workload: {}", message(&error)),
                );
            }
            Err(StepError::CreateWorkload(error))
        }
    }
}

async fn create_pod_group(ctx: &JobContext, job: &JobView, group: &PodGroup) -> Result<AfterStep, StepError> {
    let path = PodGroupView::RESOURCE.collection_path(&job.metadata.namespace);
    match post(&ctx.client, &path, group).await {
        Ok(response) => {
            record_normal(ctx, job, "PodGroupCreated", "Create", &format!("Created PodGroup: {}", response.name));
            ctx.pod_groups.wait_for_revision(response.revision).await;
            warn_missing_parent(ctx, job, group).await;
            Ok(AfterStep::DecideAgain)
        }
        Err(error) => {
            if is_already_exists(&error) {
                let key = key_of(&group.metadata);
                catch_up(&ctx.client, &ctx.pod_groups, &key).await.map_err(StepError::CreatePodGroup)?;
            } else {
                record_warning(
                    ctx,
                    job,
                    "FailedPodGroupCreate",
                    "Create",
                    &format!("Error creating PodGroup: {}", message(&error)),
                );
            }
            Err(StepError::CreatePodGroup(error))
        }
    }
}

/// Records a Warning if the parent of a new group does not exist. No Warning if the parent cannot be read.
async fn warn_missing_parent(ctx: &JobContext, job: &JobView, group: &PodGroup) {
    let Some(parent) = &group.spec.parent_composite_pod_group_name else { return };
    let key = ObjectKey::new(&job.metadata.namespace, parent);
    if let Ok(None) = read::<CompositePodGroupView>(&ctx.client, &key).await {
        let name = group.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "annotation {PARENT_COMPOSITE_POD_GROUP_ANNOTATION}: PodGroup {name} has the parent CompositePodGroup {parent}, which \
             does not exist: create it, or recreate the Job with the name of an existing one"
        );
        record_warning(ctx, job, "ParentGroupNotFound", "Create", &message);
    }
}

async fn set_min_count(ctx: &JobContext, job: &JobView, change: &MinCountUpdate) -> Result<AfterStep, StepError> {
    let field = match &change.object {
        ManagedObject::Workload(_) => "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount",
        ManagedObject::PodGroup(_) => "/spec/schedulingPolicy/gang/minCount",
    };
    let (kind, path) = kind_and_path(&change.object);
    let body =
        json!([uid_precondition(change.object.meta()), { "op": "replace", "path": field, "value": change.min_count }]);
    let response = patch(&ctx.client, &path, PatchKind::Json, &body).await.map_err(|error| {
        let (name, count) = (&change.object.meta().name, change.min_count);
        let message = format!("Error setting minCount of {kind} {name} to {count}: {}", message(&error));
        record_warning(ctx, job, "FailedMinCountUpdate", "Update", &message);
        StepError::SetMinCount(error)
    })?;
    let key = change.object.meta().key();
    match &change.object {
        ManagedObject::Workload(_) => wait_until_cached(&ctx.workloads, &key, response.revision).await,
        ManagedObject::PodGroup(_) => wait_until_cached(&ctx.pod_groups, &key, response.revision).await,
    }
    Ok(AfterStep::DecideAgain)
}

async fn set_expected_count(
    ctx: &JobContext,
    job: &JobView,
    change: &ExpectedCountUpdate,
) -> Result<AfterStep, StepError> {
    let meta = &change.group.metadata;
    let path = PodGroupView::RESOURCE.object_path(&meta.key());
    let field = format!("/metadata/annotations/{}", PodGroupView::EXPECTED_COUNT_ANNOTATION.replace('/', "~1"));
    let body = json!([uid_precondition(meta), { "op": "add", "path": field, "value": change.count.to_string() }]);
    let response = patch(&ctx.client, &path, PatchKind::Json, &body).await.map_err(|error| {
        let (name, count) = (&meta.name, change.count);
        let message = format!("Error setting the expected count of PodGroup {name} to {count}: {}", message(&error));
        record_warning(ctx, job, "FailedExpectedCountUpdate", "Update", &message);
        StepError::SetExpectedCount(error)
    })?;
    wait_until_cached(&ctx.pod_groups, &meta.key(), response.revision).await;
    Ok(AfterStep::DecideAgain)
}

/// Waits until the cache shows a write without a version precondition. Otherwise the same write would be decided again
/// and again. If its event was lost, the kind is listed again.
async fn wait_until_cached<V: View>(cache: &Cache<V>, key: &ObjectKey, revision: Revision) {
    cache.wait_for_revision(revision).await;
    if cache.get(key).is_some_and(|cached| cached.meta().resource_version < revision) {
        cache.relist().await;
    }
}

async fn write_status(
    ctx: &JobContext,
    job: &JobView,
    status: &JobStatusView,
    events: &[JobEvent],
) -> Result<AfterStep, StepError> {
    let path = format!("{}/status", JobView::RESOURCE.object_path(&job.metadata.key()));
    let body = json!({
        // With the version, so that counts from an outdated Job are refused and do not overwrite newer ones.
        "metadata": { "uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version },
        "status": status_patch(status),
    });
    let response = match patch(&ctx.client, &path, PatchKind::Merge, &body).await {
        Err(error) if is_conflict(&error) => {
            catch_up(&ctx.client, &ctx.jobs, &job.metadata.key()).await.map_err(StepError::WriteStatus)?;
            return Err(StepError::WriteStatus(error));
        }
        response => response.map_err(StepError::WriteStatus)?,
    };
    ctx.metrics.job.status_written(job, status);
    events.iter().for_each(|event| record_event(ctx, job, event));
    if response.revision == job.metadata.resource_version {
        // Deciding again would lead to the same write forever.
        tracing::error!(job = %job.metadata.key(), "the server stores another status than the one written");
        return Ok(AfterStep::AwaitEvents);
    }
    ctx.jobs.wait_for_revision(response.revision).await;
    Ok(AfterStep::DecideAgain)
}

/// The whole status as a merge patch: absent fields are removed. Zero counts are left out, as upstream does.
fn status_patch(status: &JobStatusView) -> Value {
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

/// Whether the pods of a Job that is not in the cache may lose their finalizer. The cache of Jobs may lag behind that
/// of pods, and an end that is not counted cannot be counted later, so the Job is read from the server.
pub async fn is_job_gone(ctx: &JobContext, key: &ObjectKey, uid: &str) -> Result<bool, StepError> {
    let live = read::<JobView>(&ctx.client, key).await.map_err(StepError::ReadJob)?;
    Ok(is_abandoned(uid, live.as_ref()))
}

fn key_of(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// Refuses a JSON patch of another object with the same name.
fn uid_precondition(meta: &MetaView) -> Value {
    json!({ "op": "test", "path": "/metadata/uid", "value": meta.uid })
}

fn record_event(ctx: &JobContext, job: &JobView, event: &JobEvent) {
    let kind = if event.warning { EventKind::Warning } else { EventKind::Normal };
    ctx.recorder.event(&ObjectRef::of(job), kind, &event.reason, "Reconcile", &event.message);
}

fn record_normal(ctx: &JobContext, job: &JobView, reason: &str, action: &str, message: &str) {
    ctx.recorder.event(&ObjectRef::of(job), EventKind::Normal, reason, action, message);
}

/// Records a Warning Event.
pub fn record_warning(ctx: &JobContext, job: &JobView, reason: &str, action: &str, message: &str) {
    ctx.recorder.event(&ObjectRef::of(job), EventKind::Warning, reason, action, message);
}
