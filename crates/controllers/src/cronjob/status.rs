//! The status a CronJob should have.

use std::sync::Arc;

use api::Timestamp;
use api::views::{ActiveJobView, CronJobStatusView, JobView};

use super::CronJobEvent;
use super::observe::CronJobSnapshot;
use super::template::scheduled_time_of;

/// The status a CronJob should have, and its Events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusUpdate {
    /// The status.
    pub status: CronJobStatusView,
    /// Events about changes of the status, recorded after it is written.
    pub change_events: Vec<CronJobEvent>,
    /// Events about unexpected Jobs, recorded whenever they are seen.
    pub anomaly_events: Vec<CronJobEvent>,
}

/// Jobs that the status lists as active, but the cache does not have. They are read from the server first.
pub fn uncached_jobs(observed: &CronJobSnapshot) -> Vec<ActiveJobView> {
    let known = |active: &ActiveJobView| observed.jobs.iter().any(|job| job.metadata.uid == active.uid);
    let looked_up = &observed.memory.exists_by_uid;
    let active = observed.cron_job.status.active.iter();
    active.filter(|active| !known(active) && !looked_up.contains_key(&active.uid)).cloned().collect()
}

/// The status that follows from the existing Jobs.
pub fn next_status(observed: &CronJobSnapshot) -> StatusUpdate {
    let mut update = StatusUpdate { status: observed.cron_job.status.clone(), ..StatusUpdate::default() };
    update.status.active.retain(|active| !observed.memory.replaced.contains(&active.uid));
    for job in &observed.jobs {
        update.add_job(job, observed);
    }
    update.status.active.retain(|active| {
        let stays = observed.memory.exists_by_uid.get(&active.uid) != Some(&false);
        if !stays {
            let message = format!("Active job went missing: {}", active.name);
            update.change_events.push(CronJobEvent::normal("MissingJob", message));
        }
        stays
    });
    update
}

impl StatusUpdate {
    fn add_job(&mut self, job: &Arc<JobView>, observed: &CronJobSnapshot) {
        let meta = &job.metadata;
        let position = self.status.active.iter().position(|active| active.uid == meta.uid);
        let scheduled_time = scheduled_time_of(job);
        // Corrects a status that was not written after the Job was created.
        // Upstream: such a Job counts as unexpected, and a Forbid that should see it does not.
        self.status.last_schedule_time = self.status.last_schedule_time.max(scheduled_time);
        if let Some(end) = job.finished_condition() {
            if let Some(position) = position {
                self.status.active.remove(position);
                let message = format!("Saw completed job: {}, condition: {}", meta.name, end.kind);
                self.change_events.push(CronJobEvent::normal("SawCompletedJob", message));
            }
            self.status.last_successful_time = self.status.last_successful_time.max(succeeded_at(job));
            return;
        }
        if position.is_some() || meta.is_deleting() || observed.memory.replaced.contains(&meta.uid) {
            return;
        }
        if scheduled_time.is_some() {
            self.status.active.push(active_entry(job));
        } else {
            let message = format!("Saw a job that the controller did not create or forgot: {}", meta.name);
            self.anomaly_events.push(CronJobEvent::warning("UnexpectedJob", message));
        }
    }
}

/// The entry of an active Job.
fn active_entry(job: &JobView) -> ActiveJobView {
    ActiveJobView {
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.to_string(),
    }
}

fn succeeded_at(job: &JobView) -> Option<Timestamp> {
    job.status.completion_time.filter(|_| job.finished_condition().is_some_and(|end| end.kind == "Complete"))
}
