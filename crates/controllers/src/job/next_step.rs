//! The decision: from a snapshot of a Job to the next write.

use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::views::{JobStatusView, JobView, PodView};
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};
use workloadbuilder::BuildError;

use super::Config;
use super::job_params::{JobParams, has_tracking_finalizer, is_active, is_finished, is_managed_by_others};
use super::observe::JobSnapshot;
use super::pods::backoff;
use super::pods::retries::IndexRetries;
use super::pods::{PodPlan, PodSlot, plan};
use super::policy::job_outcome::{deadline_in, job_outcome};
use super::scheduling::expected_count::{self, ExpectedCountUpdate};
use super::scheduling::server_compat::adapt_to_server;
use super::scheduling::{Fallback, JoinedGroup, ManagedObject, MinCountUpdate, Scheduling, scheduling};
use super::status::tally::Tally;
use super::status::{JobEvaluation, JobEvent, next_status, pods_to_remove_finalizer};

/// The next write. The variants are in creation order. Each is decided from what the earlier ones left in the API, so a
/// controller that crashes between two of them resumes there.
#[derive(Clone, Debug)]
pub enum NextStep {
    /// Release pods that no longer match the Job's selector.
    Release(Vec<Arc<PodView>>),
    /// Adopt pods that match the selector and have no controller.
    Adopt(Vec<Arc<PodView>>),
    /// Delete an object of ours.
    DeleteObject(ManagedObject),
    /// Create the Workload.
    CreateWorkload(Box<Workload>),
    /// Create the PodGroup.
    CreatePodGroup(Box<PodGroup>),
    /// Set `minCount` of one of the two to follow the Job.
    SetMinCount(MinCountUpdate),
    /// Write to the PodGroup how many pods it can still have at once.
    SetExpectedCount(ExpectedCountUpdate),
    /// Create pods, in the group if there is one.
    CreatePods(Vec<PodSlot>, Option<JoinedGroup>),
    /// Delete pods whose end is not counted: the Job is suspended or became smaller.
    DeleteWithoutCounting(Vec<Arc<PodView>>),
    /// Delete pods whose end is counted: the Job has ended.
    DeleteAndCount(Vec<Arc<PodView>>),
    /// Write the status, then record the Events.
    WriteStatus(Box<JobStatusView>, Vec<JobEvent>),
    /// Remove the tracking finalizer of pods whose end is in the status.
    RemoveFinalizers(Vec<Arc<PodView>>),
    /// Record why nothing can be done.
    RecordEvent(JobEvent),
    /// Wait until something changes or this time has passed.
    Wait(Option<Duration>),
}

impl NextStep {
    /// Its name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            NextStep::Release(_) => "Release",
            NextStep::Adopt(_) => "Adopt",
            NextStep::DeleteObject(_) => "DeleteObject",
            NextStep::CreateWorkload(_) => "CreateWorkload",
            NextStep::CreatePodGroup(_) => "CreatePodGroup",
            NextStep::SetMinCount(_) => "SetMinCount",
            NextStep::SetExpectedCount(_) => "SetExpectedCount",
            NextStep::CreatePods(..) => "CreatePods",
            NextStep::DeleteWithoutCounting(_) => "DeleteWithoutCounting",
            NextStep::DeleteAndCount(_) => "DeleteAndCount",
            NextStep::WriteStatus(..) => "WriteStatus",
            NextStep::RemoveFinalizers(_) => "RemoveFinalizers",
            NextStep::RecordEvent(_) => "RecordEvent",
            NextStep::Wait(_) => "Wait",
        }
    }

    /// Whether it creates an object or prepares for that.
    fn creates(&self) -> bool {
        let creates =
            matches!(self, NextStep::CreateWorkload(_) | NextStep::CreatePodGroup(_) | NextStep::CreatePods(..));
        creates || matches!(self, NextStep::DeleteObject(_) | NextStep::SetMinCount(_) | NextStep::SetExpectedCount(_))
    }
}

/// The next step for a Job.
pub fn next_step(observed: &JobSnapshot, gates: &Gates, config: &Config) -> Result<NextStep, BuildError> {
    let (job, now) = (&observed.job, observed.now);
    if is_managed_by_others(job) {
        return Ok(NextStep::Wait(None));
    }
    if is_finished(job) {
        return Ok(remove_finalizers(pods_with_finalizer(observed, config)).unwrap_or(NextStep::Wait(None)));
    }
    let Some(params) = JobParams::of(job, config) else {
        return Ok(NextStep::RecordEvent(unknown_completion_mode(job)));
    };
    if let Some(step) = adopt_or_release(observed, config) {
        return Ok(step);
    }
    let tally = Tally::of(job, &params, &observed.pods);
    let outcome = job_outcome(job, &params, &tally, now);
    let is_running = outcome.is_none() && !job.metadata.is_deleting();

    let mut scheduling_state = None;
    let mut retries = IndexRetries::default();
    let mut after_status = None;
    let mut recheck = deadline_in(job, &params, now).filter(|_| outcome.is_none());
    if is_running {
        let mut found = adapt_to_server(scheduling(observed, gates, config)?, observed, gates)?;
        if let Scheduling::NeedsPodGroup(group) = &mut found {
            expected_count::adjust_new(group, &params, &tally);
        }
        retries = IndexRetries::of(&params, &tally, &observed.pods, config.pod_backoff, now);
        let pause = backoff::remaining_backoff(&params, &observed.pods, observed.counted_pods, config.pod_backoff, now);
        let planned = plan(&params, &tally, pause, &retries);
        let expected =
            expected_count::count_update(observed, &params, &tally, &found, &planned).map(NextStep::SetExpectedCount);
        let step = expected.or_else(|| creation_step(job, &found, &planned));
        let step = step.filter(|step| !(observed.blocked && step.creates()));
        match step {
            Some(NextStep::CreatePods(slots, group))
                if is_unstarted_and_large(job, &params, &slots)
                    || is_counting_batch_full(observed, &params, &retries) =>
            {
                after_status = Some(NextStep::CreatePods(slots, group));
            }
            Some(step) => return Ok(step),
            None => {}
        }
        let pause = match planned {
            PodPlan::CreateAfter(pause) => Some(pause),
            _ => None,
        };
        recheck = [recheck, pause, owner_lookup_due_in(observed, &found, config)].into_iter().flatten().min();
        scheduling_state = Some(found);
    }
    if outcome.as_ref().is_some_and(|outcome| outcome.is_in_status) && !job.metadata.is_deleting() {
        let active: Vec<_> = observed.pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        if !active.is_empty() {
            return Ok(NextStep::DeleteAndCount(active));
        }
    }
    let findings = JobEvaluation { params: &params, tally: &tally, retries: &retries, outcome: outcome.as_ref() };
    let finalizer_removal = remove_finalizers(pods_to_remove_finalizer(observed, &findings));
    if let Some(step) = finalizer_removal.as_ref().filter(|_| is_running && !observed.blocked) {
        // The ends of these pods are in the written status and decide nothing more while the Job runs. If they waited until
        // the status is up to date, the finalizers of a Job whose pods end all the time would stay until its end.
        return Ok(step.clone());
    }
    let (status, events) = next_status(observed, &findings, scheduling_state.as_ref());
    if status != job.status {
        return Ok(NextStep::WriteStatus(Box::new(status), events));
    }
    Ok(finalizer_removal.or(after_status).unwrap_or(NextStep::Wait(recheck)))
}

fn unknown_completion_mode(job: &JobView) -> JobEvent {
    let message = format!("Unknown completion mode: {}", job.spec.completion_mode.as_deref().unwrap_or_default());
    JobEvent { warning: true, reason: "UnknownCompletionMode".to_owned(), message }
}

/// When the owners of a child that waits for an owner's Workload are read again.
fn owner_lookup_due_in(observed: &JobSnapshot, found: &Scheduling, config: &Config) -> Option<Duration> {
    let waits = matches!(found, Scheduling::Blocked(blocked) if blocked.reason == Fallback::PARENT_NOT_FOUND);
    let chain = observed.owner_chain.as_ref().filter(|_| waits)?;
    Some(chain.due_in(observed.now, config.retry))
}

/// Whether a full batch of pods is to be created for a Job without `startTime`. Creating the first pods of a large Job
/// takes a while, and its deadline runs from its start.
fn is_unstarted_and_large(job: &JobView, params: &JobParams<'_>, slots: &[PodSlot]) -> bool {
    job.status.start_time.is_none() && slots.len() == params.max_pods_per_sync
}

/// Whether a full batch of pods has ended and still has the tracking finalizer. Where pods end as fast as they are created
/// one is always missing, and ended pods would accumulate until the end; each reconcile reads all of them.
fn is_counting_batch_full(observed: &JobSnapshot, params: &JobParams<'_>, retries: &IndexRetries) -> bool {
    let waits = |pod: &&Arc<PodView>| {
        has_tracking_finalizer(pod) && params.pod_outcome(pod).is_some() && !retries.needs_pod(params, pod)
    };
    observed.pods.iter().filter(waits).take(params.max_uncounted_pods).count() == params.max_uncounted_pods
}

/// Adoption and release come before anything is counted.
fn adopt_or_release(observed: &JobSnapshot, config: &Config) -> Option<NextStep> {
    let batch = |pods: &[Arc<PodView>]| pods.iter().take(config.max_pods_per_sync).cloned().collect();
    match (observed.to_release.is_empty(), observed.to_adopt.is_empty()) {
        (false, _) => Some(NextStep::Release(batch(&observed.to_release))),
        (true, false) => Some(NextStep::Adopt(batch(&observed.to_adopt))),
        (true, true) => None,
    }
}

/// What a running Job lacks, in creation order.
fn creation_step(job: &JobView, scheduling: &Scheduling, planned: &PodPlan) -> Option<NextStep> {
    match (scheduling, planned) {
        (Scheduling::NeedsRemoval(object), _) => Some(NextStep::DeleteObject(object.clone())),
        (Scheduling::NeedsWorkload(workload), _) => Some(NextStep::CreateWorkload(workload.clone())),
        (Scheduling::NeedsPodGroup(group), _) => Some(NextStep::CreatePodGroup(group.clone())),
        (Scheduling::NeedsMinCount(min_count), _) => Some(NextStep::SetMinCount(min_count.clone())),
        (_, PodPlan::Delete(pods)) => Some(NextStep::DeleteWithoutCounting(pods.clone())),
        // The condition that explains the pods is written before the first of them.
        (Scheduling::Join(JoinedGroup { fallback: Some(fallback), .. }), _) if !fallback.is_in_status(job) => None,
        (Scheduling::Join(group), PodPlan::Create(slots)) => {
            Some(NextStep::CreatePods(slots.clone(), Some(group.clone())))
        }
        (Scheduling::Plain(Some(fallback)), _) if !fallback.is_in_status(job) => None,
        (Scheduling::Plain(_), PodPlan::Create(slots)) => Some(NextStep::CreatePods(slots.clone(), None)),
        (Scheduling::Blocked(_) | Scheduling::OwnersUnknown | Scheduling::Plain(_) | Scheduling::Join(_), _) => None,
    }
}

fn pods_with_finalizer(observed: &JobSnapshot, config: &Config) -> Vec<Arc<PodView>> {
    observed.pods.iter().filter(|pod| has_tracking_finalizer(pod)).take(config.max_pods_per_sync).cloned().collect()
}

fn remove_finalizers(pods: Vec<Arc<PodView>>) -> Option<NextStep> {
    (!pods.is_empty()).then_some(NextStep::RemoveFinalizers(pods))
}
