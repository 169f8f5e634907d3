//! Whether the Job has ended, and how.

use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, JobView, PodPhase, PodView};
use jiff::SignedDuration;

use super::pod_outcome::PodOutcome;
use super::success_policy::first_met;
use crate::job::job_params::{CompletionMode, JobParams, PerIndexLimits, restarts};
use crate::job::status::tally::Tally;

/// Why a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutcome {
    /// Whether it succeeded.
    pub succeeded: bool,
    /// CamelCase reason, the same on the interim and on the final condition.
    pub reason: String,
    /// Its text.
    pub message: String,
    /// Whether the interim condition is in the status. Only then may pods be deleted because of it: the decision must
    /// survive a crash before anything irreversible is done.
    pub is_in_status: bool,
}

impl JobOutcome {
    /// The condition while the last pods are counted.
    pub fn interim_condition(&self) -> &'static str {
        if self.succeeded { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// The condition of the finished Job.
    pub fn final_condition(&self) -> &'static str {
        if self.succeeded { "Complete" } else { "Failed" }
    }

    /// What the end of a pod counts as in a Job with this outcome; `None` while the pod has not ended.
    ///
    /// Once the outcome is written, the controller deletes the active pods. Such a pod did not fail by itself: it counts as
    /// failed in a Job that failed, but its index has not failed, and it does not count at all in a Job that succeeded.
    /// Pods that a rule of the Job ignores stay ignored.
    // Upstream: counts, deletes and releases the active pods in one sync, from pods as they were before the deletion. If
    // that sync is interrupted, the same pods are counted by other rules afterwards. Here a restart changes nothing.
    pub fn pod_outcome(&self, params: &JobParams<'_>, pod: &PodView) -> Option<PodOutcome> {
        let end = params.pod_outcome(pod);
        if !(self.is_in_status && pod.metadata.is_deleting()) {
            return end;
        }
        match end {
            Some(PodOutcome::Succeeded | PodOutcome::Ignored | PodOutcome::Disrupted) => end,
            _ if self.succeeded => Some(PodOutcome::Stopped),
            _ => Some(PodOutcome::Failed),
        }
    }
}

/// The outcome of a Job, if it has one. An outcome in the status is final, whatever the pods do later.
pub fn job_outcome(job: &JobView, params: &JobParams<'_>, tally: &Tally, now: Timestamp) -> Option<JobOutcome> {
    if let Some(written) = recorded_outcome(job, true).or_else(|| recorded_outcome(job, false)) {
        return Some(written);
    }
    if let Some(message) = &tally.job_failure {
        return new(false, "PodFailurePolicy", message);
    }
    if tally.failed > params.backoff_limit || restarted_too_often(params, &tally.active) {
        return new(false, "BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if deadline_in(job, params, now) == Some(Duration::ZERO) {
        return new(false, "DeadlineExceeded", "Job was active longer than specified deadline");
    }
    if let Some(outcome) = indexed_outcome(params, tally) {
        return Some(outcome);
    }
    let enough = params.completions.map_or(tally.succeeded > 0, |completions| tally.succeeded >= completions);
    if enough && tally.active.is_empty() {
        return new(true, "CompletionsReached", "Reached expected number of succeeded pods");
    }
    None
}

/// Outcomes that only Indexed Jobs have.
fn indexed_outcome(params: &JobParams<'_>, tally: &Tally) -> Option<JobOutcome> {
    let CompletionMode::Indexed { completions } = params.completion_mode else { return None };
    if let Some(PerIndexLimits { max_failed_indexes, .. }) = params.per_index_limits {
        let failed = tally.failed_indexes.len();
        if max_failed_indexes.is_some_and(|max| failed > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return new(false, "MaxFailedIndexesExceeded", message);
        }
        if failed > 0 && failed.saturating_add(tally.succeeded) >= completions {
            return new(false, "FailedIndexes", "Job has failed indexes");
        }
    }
    let rule = first_met(params.success_policy?, &tally.completed_indexes, completions)?;
    new(true, "SuccessPolicy", &format!("Matched rules at index {rule}"))
}

fn new(succeeded: bool, reason: &str, message: &str) -> Option<JobOutcome> {
    Some(JobOutcome { succeeded, reason: reason.to_owned(), message: message.to_owned(), is_in_status: false })
}

/// How long the Job may still be active; `None` without a deadline or while it is not started.
pub fn deadline_in(job: &JobView, params: &JobParams<'_>, now: Timestamp) -> Option<Duration> {
    let seconds = job.spec.active_deadline_seconds.filter(|_| !params.suspended)?;
    let active_for = now.duration_since(job.status.start_time?);
    // Saturating: any number of seconds is a valid deadline. The active time is negative if the clock was set back.
    let left = SignedDuration::from_secs(seconds).saturating_sub(active_for);
    Some(left.try_into().unwrap_or(Duration::ZERO))
}

fn recorded_outcome(job: &JobView, succeeded: bool) -> Option<JobOutcome> {
    let mut outcome = JobOutcome { succeeded, reason: String::new(), message: String::new(), is_in_status: true };
    let is_interim =
        |condition: &&Condition| condition.kind == outcome.interim_condition() && condition.status == "True";
    let condition = job.status.conditions.iter().find(is_interim)?.clone();
    (outcome.reason, outcome.message) = (condition.reason, condition.message);
    Some(outcome)
}

/// Restarts in place are failures without a failed pod.
fn restarted_too_often<'a>(params: &JobParams<'_>, active: &'a [Arc<PodView>]) -> bool {
    if !params.restarts_in_place {
        return false;
    }
    let running = active.iter().filter(|pod| matches!(pod.status.phase, PodPhase::Running | PodPhase::Pending));
    let statuses =
        |pod: &'a Arc<PodView>| pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let total = restarts(running.flat_map(statuses));
    if params.backoff_limit == 0 { total > 0 } else { total >= params.backoff_limit.into() }
}
