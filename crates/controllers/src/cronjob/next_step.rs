//! The decision: one write, the one that matters most.

use std::sync::Arc;

use api::Timestamp;
use api::views::{ActiveJobView, CronJobStatusView, JobView};
use serde_json::Value;

use super::News;
use super::account::{account, unknown};
use super::due::{Due, due};
use super::history::too_old;
use super::observe::Observed;
use super::template::{job, job_name};

/// What is to be done for one CronJob next. In this order, so that a status is written once, after the Job it speaks of,
/// and history holds up nothing.
#[derive(Clone, Debug)]
pub enum NextStep {
    /// These Jobs should run, and no cache knows them: ask the server.
    Ask(Vec<ActiveJobView>),
    /// These Jobs make way for the next.
    Replace(Vec<ActiveJobView>),
    /// The Job for this time of the schedule.
    CreateJob {
        /// The time.
        slot: Timestamp,
        /// The Job.
        job: Box<Value>,
    },
    /// The status is to follow the Jobs.
    WriteStatus(CronJobStatusView),
    /// These Jobs are too old to keep.
    DropHistory(Vec<Arc<JobView>>),
    /// Nothing, until something changes.
    Rest,
}

/// A step, and what goes with it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What to do.
    pub step: NextStep,
    /// What to tell once it is done.
    pub news: Vec<News>,
    /// When to look again at the latest.
    pub wake: Option<Timestamp>,
}

/// Decides on what is to be done next.
pub fn next_step(observed: &Observed) -> Decision {
    let cron_job = &observed.cron_job;
    let unknown = unknown(observed);
    if !unknown.is_empty() {
        return Decision { step: NextStep::Ask(unknown), news: Vec::new(), wake: None };
    }
    let account = account(observed);
    let is_asleep = cron_job.metadata.is_deleting() || cron_job.spec.suspend == Some(true);
    let (mut told, mut wake) = (account.oddities, None);
    if !is_asleep {
        match due(cron_job, account.status.last_schedule_time, observed.now) {
            Err(trouble) => told.push(trouble),
            Ok(due) => {
                wake = due.next;
                match serve(observed, &account.status, due) {
                    Ok((step, news)) => return Decision { step, news, wake },
                    Err(news) => told.extend(news),
                }
            }
        }
    }
    if account.status != cron_job.status {
        return Decision { step: NextStep::WriteStatus(account.status), news: account.changes, wake };
    }
    // Whoever deletes a CronJob says himself what becomes of its Jobs.
    let old = if cron_job.metadata.is_deleting() { Vec::new() } else { too_old(&cron_job.spec, &observed.jobs) };
    if !old.is_empty() {
        return Decision { step: NextStep::DropHistory(old), news: Vec::new(), wake };
    }
    Decision { step: NextStep::Rest, news: told, wake }
}

/// The step toward the Job that is due, with what to tell; or what to tell because nothing can be started.
fn serve(observed: &Observed, status: &CronJobStatusView, due: Due) -> Result<(NextStep, Vec<News>), Vec<News>> {
    let Due { slot: Some(slot), zone, mut news, .. } = due else { return Err(due.news) };
    let cron_job = &observed.cron_job;
    let name = job_name(&cron_job.metadata, slot);
    let is_there = observed.jobs.iter().any(|job| job.metadata.name == name)
        || status.active.iter().any(|active| active.name == name);
    // A schedule of less than a minute has several times of one name: the first has it.
    if is_there || observed.learned.refused == Some(slot) {
        return Err(Vec::new());
    }
    match cron_job.spec.concurrency_policy.as_str() {
        // The time stays unserved, so that it is made up for when the Job has ended.
        "Forbid" if !status.active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            news.push(News::normal("JobAlreadyActive", message.to_owned()));
            Err(news)
        }
        "Replace" if !status.active.is_empty() => Ok((NextStep::Replace(status.active.clone()), Vec::new())),
        _ => Ok((NextStep::CreateJob { slot, job: Box::new(job(cron_job, slot, &zone)) }, news)),
    }
}
