//! The decision: one write, the one that matters most.

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

/// What is to be done for one CronJob next. In this order, so that a status is written once, after the Job it speaks of,
/// and history holds up nothing.
#[derive(Clone, Debug)]
pub enum CronJobStep {
    /// These Jobs should run, and no cache knows them: ask the server.
    LookUpJobs(Vec<ActiveJobView>),
    /// These Jobs make way for the next.
    Replace(Vec<ActiveJobView>),
    /// The Job for this time of the schedule.
    CreateJob {
        /// The time.
        scheduled_time: Timestamp,
        /// The Job.
        job: Box<Value>,
    },
    /// The status is to follow the Jobs.
    WriteStatus(CronJobStatusView),
    /// These Jobs are too old to keep.
    DeleteHistory(Vec<Arc<JobView>>),
    /// Nothing, until something changes.
    Wait,
}

/// A step, and what goes with it.
#[derive(Clone, Debug)]
pub struct CronJobDecision {
    /// What to do.
    pub step: CronJobStep,
    /// What to tell once it is done.
    pub events: Vec<CronJobEvent>,
    /// When to look again at the latest.
    pub requeue_at: Option<Timestamp>,
}

/// Decides on what is to be done next.
pub fn next_step(observed: &CronJobSnapshot) -> CronJobDecision {
    let cron_job = &observed.cron_job;
    let uncached = uncached_jobs(observed);
    if !uncached.is_empty() {
        return CronJobDecision { step: CronJobStep::LookUpJobs(uncached), events: Vec::new(), requeue_at: None };
    }
    let update = next_status(observed);
    let is_asleep = cron_job.metadata.is_deleting() || cron_job.spec.suspend == Some(true);
    let (mut events, mut requeue_at) = (update.anomaly_events, None);
    if !is_asleep {
        match due_times(cron_job, update.status.last_schedule_time, observed.now) {
            Err(trouble) => events.push(trouble),
            Ok(due) => {
                requeue_at = due.next_time;
                match start_due_job(observed, &update.status, due) {
                    Ok((step, news)) => return CronJobDecision { step, events: news, requeue_at },
                    Err(news) => events.extend(news),
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
    // Whoever deletes a CronJob says himself what becomes of its Jobs.
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

/// The step toward the Job that is due, with what to tell; or what to tell because nothing can be started.
fn start_due_job(
    observed: &CronJobSnapshot,
    status: &CronJobStatusView,
    due: DueTimes,
) -> Result<(CronJobStep, Vec<CronJobEvent>), Vec<CronJobEvent>> {
    let DueTimes { scheduled_time: Some(slot), zone, events: mut news, .. } = due else { return Err(due.events) };
    let cron_job = &observed.cron_job;
    let name = job_name(&cron_job.metadata, slot);
    let is_there = observed.jobs.iter().any(|job| job.metadata.name == name)
        || status.active.iter().any(|active| active.name == name);
    // A schedule of less than a minute has several times of one name: the first has it.
    if is_there || observed.memory.refused_time == Some(slot) {
        return Err(Vec::new());
    }
    match cron_job.spec.concurrency_policy.as_str() {
        // The time stays unserved, so that it is made up for when the Job has ended.
        "Forbid" if !status.active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            news.push(CronJobEvent::normal("JobAlreadyActive", message.to_owned()));
            Err(news)
        }
        "Replace" if !status.active.is_empty() => Ok((CronJobStep::Replace(status.active.clone()), Vec::new())),
        _ => Ok((CronJobStep::CreateJob { scheduled_time: slot, job: Box::new(job(cron_job, slot, &zone)) }, news)),
    }
}
