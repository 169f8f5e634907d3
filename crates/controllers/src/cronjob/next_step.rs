//! The decision: from a snapshot of a CronJob to the next write.

use std::sync::Arc;

use api::Timestamp;
use api::views::{ActiveJobView, CronJobStatusView, JobView};
use serde_json::Value;

use super::CronJobEvent;
use super::due_times::{DueTimes, due_times};
use super::history::beyond_history_limits;
use super::observe::CronJobSnapshot;
use super::status::{next_status, uncached_jobs};
use super::template::{job, job_name};

/// The next write for one CronJob. The variants are in the order of execution: the status is written once, after the Job
/// that it lists, and history delays nothing.
#[derive(Clone, Debug)]
pub enum CronJobStep {
    /// Read these Jobs from the server: the status lists them as active, but the cache does not have them.
    LookUpJobs(Vec<ActiveJobView>),
    /// Delete these Jobs, which the next one replaces.
    Replace(Vec<ActiveJobView>),
    /// Create the Job for this scheduled time.
    CreateJob {
        /// The time.
        scheduled_time: Timestamp,
        /// The Job.
        job: Box<Value>,
    },
    /// Write the status.
    WriteStatus(CronJobStatusView),
    /// Delete these Jobs, which are beyond the history limits.
    DeleteHistory(Vec<Arc<JobView>>),
    /// Wait until something changes.
    Wait,
}

/// A step with its Events and the next time.
#[derive(Clone, Debug)]
pub struct CronJobDecision {
    /// The step.
    pub step: CronJobStep,
    /// Events to record after the step.
    pub events: Vec<CronJobEvent>,
    /// When to decide again at the latest.
    pub requeue_at: Option<Timestamp>,
}

/// The next step for a CronJob.
pub fn next_step(observed: &CronJobSnapshot) -> CronJobDecision {
    let cron_job = &observed.cron_job;
    let uncached = uncached_jobs(observed);
    if !uncached.is_empty() {
        return CronJobDecision { step: CronJobStep::LookUpJobs(uncached), events: Vec::new(), requeue_at: None };
    }
    let update = next_status(observed);
    let is_inactive = cron_job.metadata.is_deleting() || cron_job.spec.suspend == Some(true);
    let (mut events, mut requeue_at) = (update.anomaly_events, None);
    if !is_inactive {
        match due_times(cron_job, update.status.last_schedule_time, observed.now) {
            Err(event) => events.push(event),
            Ok(due) => {
                requeue_at = due.next_time;
                match start_due_job(observed, &update.status, due) {
                    Ok((step, events)) => return CronJobDecision { step, events, requeue_at },
                    Err(reasons) => events.extend(reasons),
                }
            }
        }
    }
    if update.status != cron_job.status {
        return CronJobDecision {
            step: CronJobStep::WriteStatus(update.status),
            events: update.change_events,
            requeue_at,
        };
    }
    // The propagation policy of the delete decides what happens to the Jobs of a deleted CronJob.
    let old = if cron_job.metadata.is_deleting() {
        Vec::new()
    } else {
        beyond_history_limits(&cron_job.spec, &observed.jobs)
    };
    if !old.is_empty() {
        return CronJobDecision { step: CronJobStep::DeleteHistory(old), events: Vec::new(), requeue_at };
    }
    CronJobDecision { step: CronJobStep::Wait, events, requeue_at }
}

/// The step toward the Job that is due, with its Events; an error has the Events that explain why there is no step.
fn start_due_job(
    observed: &CronJobSnapshot,
    status: &CronJobStatusView,
    due: DueTimes,
) -> Result<(CronJobStep, Vec<CronJobEvent>), Vec<CronJobEvent>> {
    let DueTimes { scheduled_time: Some(scheduled_time), zone, mut events, .. } = due else { return Err(due.events) };
    let cron_job = &observed.cron_job;
    let name = job_name(&cron_job.metadata, scheduled_time);
    let exists = observed.jobs.iter().any(|job| job.metadata.name == name)
        || status.active.iter().any(|active| active.name == name);
    // A name has the minute only. Of several scheduled times in one minute the first gets the Job.
    if exists || observed.memory.refused_time == Some(scheduled_time) {
        return Err(Vec::new());
    }
    match cron_job.spec.concurrency_policy.as_str() {
        // The time stays due, so that it gets its Job when the active one has ended.
        "Forbid" if !status.active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            events.push(CronJobEvent::normal("JobAlreadyActive", message.to_owned()));
            Err(events)
        }
        "Replace" if !status.active.is_empty() => Ok((CronJobStep::Replace(status.active.clone()), Vec::new())),
        _ => {
            Ok((CronJobStep::CreateJob { scheduled_time, job: Box::new(job(cron_job, scheduled_time, &zone)) }, events))
        }
    }
}
