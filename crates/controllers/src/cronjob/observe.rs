//! What the caches say about one CronJob.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Timestamp;
use api::views::{CronJobView, JobView, ObjectKey};

use super::CronJobContext;

/// Everything a decision about one CronJob looks at.
#[derive(Clone, Debug)]
pub struct CronJobSnapshot {
    /// The CronJob.
    pub cron_job: Arc<CronJobView>,
    /// The Jobs it controls, in any state.
    pub jobs: Vec<Arc<JobView>>,
    /// The time.
    pub now: Timestamp,
    /// What was learned by doing, and the caches may not show yet.
    pub memory: ReconcileMemory,
}

/// What one reconciliation has learned from the server. It is forgotten afterwards: the caches catch up.
#[derive(Clone, Debug, Default)]
pub struct ReconcileMemory {
    /// By uid: whether a Job that runs by the CronJob's status, but is in no cache, is there after all.
    pub exists_by_uid: BTreeMap<String, bool>,
    /// Uids of Jobs that were deleted to make way for the next.
    pub replaced: BTreeSet<String>,
    /// The time of the schedule for which no Job can be had just now.
    pub refused_time: Option<Timestamp>,
}

/// Looks the CronJob up; `None` if it is gone.
pub fn observe(ctx: &CronJobContext, key: &ObjectKey, memory: &ReconcileMemory) -> Option<CronJobSnapshot> {
    let cron_job = ctx.cron_jobs.get(key)?;
    let jobs = ctx.jobs.by_index(&JobView::BY_CONTROLLER, &cron_job.metadata.uid);
    Some(CronJobSnapshot { cron_job, jobs, now: ctx.clock.now(), memory: memory.clone() })
}
