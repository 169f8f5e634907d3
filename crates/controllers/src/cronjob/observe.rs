//! What the caches say about one CronJob.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Timestamp;
use api::views::{CronJobView, JobView, ObjectKey};

use super::Parts;

/// Everything a decision about one CronJob looks at.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The CronJob.
    pub cron_job: Arc<CronJobView>,
    /// The Jobs it controls, in any state.
    pub jobs: Vec<Arc<JobView>>,
    /// The time.
    pub now: Timestamp,
    /// What was learned by doing, and the caches may not show yet.
    pub learned: Learned,
}

/// What one reconciliation has learned from the server. It is forgotten afterwards: the caches catch up.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// By uid: whether a Job that runs by the CronJob's status, but is in no cache, is there after all.
    pub asked: BTreeMap<String, bool>,
    /// Uids of Jobs that were deleted to make way for the next.
    pub replaced: BTreeSet<String>,
    /// The time of the schedule for which no Job can be had just now.
    pub refused: Option<Timestamp>,
}

/// Looks the CronJob up; `None` if it is gone.
pub fn observe(parts: &Parts, key: &ObjectKey, learned: &Learned) -> Option<Observed> {
    let cron_job = parts.cron_jobs.get(key)?;
    let jobs = parts.jobs.by_index(&JobView::BY_CONTROLLER, &cron_job.metadata.uid);
    Some(Observed { cron_job, jobs, now: parts.clock.now(), learned: learned.clone() })
}
