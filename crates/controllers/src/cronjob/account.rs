//! The status that a CronJob's Jobs add up to.

use std::sync::Arc;

use api::Timestamp;
use api::views::{ActiveJobView, CronJobStatusView, JobView};

use super::News;
use super::observe::Observed;
use super::template::slot_of;

/// The status as it should be, and what there is to tell of the way there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The status.
    pub status: CronJobStatusView,
    /// What has changed since it was last written; to be told once it is written.
    pub changes: Vec<News>,
    /// What is odd, and told whenever it is seen.
    pub oddities: Vec<News>,
}

/// Jobs that run by the status, and that no cache knows: the server must be asked for them before they are given up.
pub fn unknown(observed: &Observed) -> Vec<ActiveJobView> {
    let known = |active: &ActiveJobView| observed.jobs.iter().any(|job| job.metadata.uid == active.uid);
    let asked = &observed.learned.asked;
    let active = observed.cron_job.status.active.iter();
    active.filter(|active| !known(active) && !asked.contains_key(&active.uid)).cloned().collect()
}

/// Brings the status up to date with the Jobs that are there.
pub fn account(observed: &Observed) -> Account {
    let mut account = Account { status: observed.cron_job.status.clone(), ..Account::default() };
    account.status.active.retain(|active| !observed.learned.replaced.contains(&active.uid));
    for job in &observed.jobs {
        account.note(job, observed);
    }
    account.status.active.retain(|active| {
        let stays = observed.learned.asked.get(&active.uid) != Some(&false);
        if !stays {
            let message = format!("Active job went missing: {}", active.name);
            account.changes.push(News::normal("MissingJob", message));
        }
        stays
    });
    account
}

impl Account {
    fn note(&mut self, job: &Arc<JobView>, observed: &Observed) {
        let meta = &job.metadata;
        let position = self.status.active.iter().position(|active| active.uid == meta.uid);
        let slot = slot_of(job);
        // A status that was never written after the Job was made is made good here.
        // Upstream: such a Job counts as unexpected, and a Forbid that should see it does not.
        self.status.last_schedule_time = self.status.last_schedule_time.max(slot);
        if let Some(end) = job.end() {
            if let Some(position) = position {
                self.status.active.remove(position);
                let message = format!("Saw completed job: {}, condition: {}", meta.name, end.kind);
                self.changes.push(News::normal("SawCompletedJob", message));
            }
            self.status.last_successful_time = self.status.last_successful_time.max(succeeded_at(job));
            return;
        }
        if position.is_some() || meta.is_deleting() || observed.learned.replaced.contains(&meta.uid) {
            return;
        }
        if slot.is_some() {
            self.status.active.push(reference(job));
        } else {
            let message = format!("Saw a job that the controller did not create or forgot: {}", meta.name);
            self.oddities.push(News::warning("UnexpectedJob", message));
        }
    }
}

/// The entry of a Job that runs.
fn reference(job: &JobView) -> ActiveJobView {
    ActiveJobView {
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.to_string(),
    }
}

fn succeeded_at(job: &JobView) -> Option<Timestamp> {
    job.status.completion_time.filter(|_| job.end().is_some_and(|end| end.kind == "Complete"))
}
