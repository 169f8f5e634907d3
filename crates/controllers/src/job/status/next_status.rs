//! The status that a Job should have, and the pods whose tracking finalizer may be removed because of it.
//!
//! A pod's end is counted exactly once, however often the controller crashes (KEP-2307): the end is first *recorded* in
//! the status (its uid among the uncounted, or its index among the completed), then the pod loses the tracking
//! finalizer, and only when that is seen the uid moves into the count. Each of these is one write; a crash between any
//! two leaves a state from which the next write follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Timestamp;
use api::views::{Condition, JobStatusView, PodView, UncountedPodsView};

use super::group_condition::{is_waiting_for_placement, set_group_condition};
use super::tally::{RecordedIndexes, Tally, recorded_uids, succeeded_first};
use crate::job::job_params::{CompletionMode, JobParams, has_tracking_finalizer};
use crate::job::observe::JobSnapshot;
use crate::job::pods::retries::IndexRetries;
use crate::job::policy::job_outcome::JobOutcome;
use crate::job::policy::pod_outcome::PodOutcome;
use crate::job::scheduling::{Fallback, JoinedGroup, Scheduling};

/// An Event to record once the status is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEvent {
    /// Whether it is a warning.
    pub warning: bool,
    /// CamelCase reason.
    pub reason: String,
    /// Its text.
    pub message: String,
}

impl JobEvent {
    fn normal(reason: &str, message: &str) -> JobEvent {
        JobEvent { warning: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn warning(reason: &str, message: impl Into<String>) -> JobEvent {
        JobEvent { warning: true, reason: reason.to_owned(), message: message.into() }
    }
}

/// The evaluation of a Job and its pods, from which its status follows.
#[derive(Debug)]
pub struct JobEvaluation<'a> {
    /// Its spec with defaults.
    pub params: &'a JobParams<'a>,
    /// The sums over its pods.
    pub tally: &'a Tally,
    /// Pods that are still needed although they failed.
    pub retries: &'a IndexRetries,
    /// Its outcome, if it has ended.
    pub outcome: Option<&'a JobOutcome>,
}

impl JobEvaluation<'_> {
    /// What the pod's end counts as; `None` while it has not ended.
    fn pod_outcome(&self, pod: &PodView) -> Option<PodOutcome> {
        self.outcome.map_or_else(|| self.params.pod_outcome(pod), |outcome| outcome.pod_outcome(self.params, pod))
    }
}

/// The status that a Job should have, and the Events to record when it is written. `scheduling` is the state of the Job's
/// group. It is `None` for a Job that has an outcome or is being deleted; conditions about the group then stay, because
/// they may explain the outcome.
pub fn next_status(
    observed: &JobSnapshot,
    evaluation: &JobEvaluation<'_>,
    scheduling: Option<&Scheduling>,
) -> (JobStatusView, Vec<JobEvent>) {
    let (job, now) = (&observed.job, whole_seconds(observed.now));
    let JobEvaluation { params, tally, outcome, .. } = *evaluation;
    let mut status = job.status.clone();
    let mut events = Vec::new();
    start_or_suspend(&mut status, params, outcome, now, &mut events);
    if let Some(scheduling) = scheduling {
        set_fallback_condition(&mut status, scheduling, now, &mut events);
        set_group_condition(&mut status, observed, evaluation, scheduling, now);
    }
    // A suspended Job waits for no placement, and one that has succeeded had it.
    if params.suspended || outcome.is_some_and(|outcome| outcome.succeeded) {
        status.conditions.retain(|condition| !is_waiting_for_placement(condition));
    }
    let all_recorded = count_and_record(&mut status, observed, evaluation);
    status.active = tally.active.len() as i32;
    status.ready = Some(tally.ready);
    status.terminating = Some(tally.terminating.len() as i32);
    let all_ended = all_recorded && tally.active.is_empty() && tally.terminating.is_empty();
    if let Some(outcome) = outcome {
        let all_counted = all_ended && !observed.pods.iter().any(|pod| has_tracking_finalizer(pod));
        finish(&mut status, params, outcome, all_counted, now, &mut events);
    }
    (status, events)
}

/// Pods whose tracking finalizer may be removed, at most one batch: their end is in the written status, or is not counted.
pub fn pods_to_remove_finalizer(observed: &JobSnapshot, evaluation: &JobEvaluation<'_>) -> Vec<Arc<PodView>> {
    let job = &observed.job;
    let JobEvaluation { params, retries, .. } = *evaluation;
    let uids = recorded_uids(job);
    let indexes = RecordedIndexes::of(job, params);
    let is_removable = |pod: &PodView| {
        let recorded_uid = || uids.contains(pod.metadata.uid.as_str());
        match evaluation.pod_outcome(pod) {
            Some(_) if !params.is_countable(pod) => true,
            Some(PodOutcome::Succeeded) => {
                recorded_uid() || params.index_of(pod).is_some_and(|index| indexes.contain(index))
            }
            Some(PodOutcome::Failed | PodOutcome::FailedIndex) => recorded_uid(),
            Some(PodOutcome::Ignored | PodOutcome::Disrupted) => !retries.needs_pod(params, pod),
            Some(PodOutcome::Stopped) => true,
            // A Job that is being deleted releases the rest.
            None => recorded_uid() || job.metadata.is_deleting(),
        }
    };
    let removable = observed.pods.iter().filter(|pod| has_tracking_finalizer(pod) && is_removable(pod));
    removable.take(params.max_pods_per_sync).cloned().collect()
}

/// `startTime` is set while the Job may have pods; a suspended Job has none, and a resumed one starts again.
fn start_or_suspend(
    status: &mut JobStatusView,
    params: &JobParams<'_>,
    outcome: Option<&JobOutcome>,
    now: Timestamp,
    events: &mut Vec<JobEvent>,
) {
    let was_suspended = Condition::is_true(&status.conditions, "Suspended");
    if params.suspended && outcome.is_none() {
        if set_condition(&mut status.conditions, "Suspended", "True", "JobSuspended", "Job suspended", now) {
            events.push(JobEvent::normal("Suspended", "Job suspended"));
        }
        status.start_time = None;
    } else if was_suspended && outcome.is_none() {
        set_condition(&mut status.conditions, "Suspended", "False", "JobResumed", "Job resumed", now);
        events.push(JobEvent::normal("Resumed", "Job resumed"));
        status.start_time = Some(now);
    } else if status.start_time.is_none() && !(params.suspended && params.completions == Some(0)) {
        // Also for a Job that ends at once, unless it is suspended and has nothing to complete.
        status.start_time = Some(now);
    }
}

/// Sets the condition that explains why the pods are not scheduled as a group (S000-36, S000-39, S000-43).
fn set_fallback_condition(
    status: &mut JobStatusView,
    scheduling: &Scheduling,
    now: Timestamp,
    events: &mut Vec<JobEvent>,
) {
    let conditions = &mut status.conditions;
    let (kind, fallback) = match scheduling {
        Scheduling::Blocked(blocked) => (Fallback::BLOCKED_CONDITION, Some(blocked)),
        Scheduling::Plain(fallback) => (Fallback::CONDITION, fallback.as_ref()),
        Scheduling::Join(JoinedGroup { fallback, .. }) => (Fallback::CONDITION, fallback.as_ref()),
        _ => (Fallback::CONDITION, None),
    };
    if let Some(Fallback { reason, message }) = fallback {
        let is_reported = conditions.iter().any(|condition| {
            let same = condition.reason == *reason && without_numbers(&condition.message) == without_numbers(message);
            condition.kind == kind && condition.status == "True" && same
        });
        if set_condition(conditions, kind, "True", reason, message, now) && !is_reported {
            events.push(JobEvent::warning(reason, message));
        }
    }
    let resolved = match scheduling {
        Scheduling::Join(JoinedGroup { fallback: None, .. }) => Some("new pods join their PodGroup"),
        Scheduling::Plain(None) => Some("the Job needs no PodGroup"),
        _ => None,
    };
    if let Some(message) = resolved.filter(|_| Condition::is_true(conditions, Fallback::CONDITION)) {
        set_condition(conditions, Fallback::CONDITION, "False", "Resolved", message, now);
    }
    let continues = matches!(scheduling, Scheduling::Join(_) | Scheduling::Plain(_));
    if continues {
        // A child that was cached before its parent's Workload needs no condition afterwards.
        conditions.retain(|it| it.kind != Fallback::BLOCKED_CONDITION || it.reason != Fallback::PARENT_NOT_FOUND);
    }
    if continues && Condition::is_true(conditions, Fallback::BLOCKED_CONDITION) {
        set_condition(
            conditions,
            Fallback::BLOCKED_CONDITION,
            "False",
            "Resolved",
            "the Job is no longer blocked",
            now,
        );
    }
}

/// A text without its counts. A change of only the counts causes no Event.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Counts recorded uids whose pod has no finalizer any more, and records new ends. True if all could be recorded.
fn count_and_record(status: &mut JobStatusView, observed: &JobSnapshot, evaluation: &JobEvaluation<'_>) -> bool {
    let JobEvaluation { params, retries, .. } = *evaluation;
    let tracked: Vec<&Arc<PodView>> = observed.pods.iter().filter(|pod| has_tracking_finalizer(pod)).collect();
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    count_recorded_pods(status, &mut uncounted, &tracked);

    let mut indexes = RecordedIndexes::of(&observed.job, params);
    let recorded = recorded_uids(&observed.job);
    let is_new = |pod: &&&Arc<PodView>| params.is_countable(pod) && !recorded.contains(pod.metadata.uid.as_str());
    let ends = tracked.iter().filter(is_new).filter_map(|pod| Some((*pod, evaluation.pod_outcome(pod)?)));
    let ends: Vec<_> = ends.filter(|(pod, _)| !retries.needs_pod(params, pod)).collect();
    let mut all_recorded = true;
    for (pod, end) in succeeded_first(&ends) {
        let fits = uncounted.succeeded.len() + uncounted.failed.len() < params.max_uncounted_pods;
        match end {
            // The index records it and needs no uid.
            PodOutcome::Succeeded if params.completion_mode != CompletionMode::NonIndexed => {}
            PodOutcome::Succeeded if fits => uncounted.succeeded.push(pod.metadata.uid.clone()),
            PodOutcome::Failed | PodOutcome::FailedIndex if fits => uncounted.failed.push(pod.metadata.uid.clone()),
            PodOutcome::Ignored | PodOutcome::Disrupted | PodOutcome::Stopped => {}
            PodOutcome::Succeeded | PodOutcome::Failed | PodOutcome::FailedIndex => {
                all_recorded = false;
                continue;
            }
        }
        indexes.record(params, pod, end);
    }
    if let CompletionMode::Indexed { .. } = params.completion_mode {
        status.succeeded = indexes.completed.len();
        status.completed_indexes = indexes.completed.to_string();
        status.failed_indexes = params.per_index_limits.map(|_| indexes.failed.to_string());
    }
    all_recorded &= uncounted == UncountedPodsView::default();
    status.uncounted_terminated_pods = Some(uncounted);
    all_recorded
}

/// A recorded pod without the tracking finalizer is counted.
fn count_recorded_pods(status: &mut JobStatusView, uncounted: &mut UncountedPodsView, tracked: &[&Arc<PodView>]) {
    let tracked: BTreeSet<&str> = tracked.iter().map(|pod| pod.metadata.uid.as_str()).collect();
    let take_untracked = |uids: &mut Vec<String>| {
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid.as_str()));
        (before - uids.len()) as i32
    };
    status.succeeded = status.succeeded.saturating_add(take_untracked(&mut uncounted.succeeded));
    status.failed = status.failed.saturating_add(take_untracked(&mut uncounted.failed));
}

/// Writes the interim condition at once and the final one when no pod is left to count.
fn finish(
    status: &mut JobStatusView,
    params: &JobParams<'_>,
    outcome: &JobOutcome,
    all_counted: bool,
    now: Timestamp,
    events: &mut Vec<JobEvent>,
) {
    let JobOutcome { reason, message, .. } = outcome;
    set_condition(&mut status.conditions, outcome.interim_condition(), "True", reason, message, now);
    if !all_counted {
        return;
    }
    set_condition(&mut status.conditions, outcome.final_condition(), "True", reason, message, now);
    if !outcome.succeeded {
        events.push(JobEvent::warning(reason, message));
        return;
    }
    status.completion_time = Some(now);
    if params.completions.is_some_and(|completions| status.succeeded > completions) {
        events.push(JobEvent::warning(
            "TooManySucceededPods",
            "Too many succeeded pods running after completion count reached",
        ));
    }
    events.push(JobEvent::normal("Completed", "Job completed"));
}

/// Sets a condition; false if nothing changed. The transition time changes only with the status, not with the message.
pub(super) fn set_condition(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let position = conditions.iter().position(|condition| condition.kind == kind);
    let before = position.map(|position| &conditions[position]);
    if let Some(before) = before
        && (before.status.as_str(), before.reason.as_str(), before.message.as_str()) == (status, reason, message)
    {
        return false;
    }
    let unchanged = before.filter(|before| before.status == status);
    let condition = Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: unchanged.and_then(|before| before.last_transition_time).or(Some(now)),
    };
    match position {
        Some(position) => conditions[position] = condition,
        None => conditions.push(condition),
    }
    true
}

/// Objects have whole seconds. A status with fractions would never equal the stored one.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
