//! What the caches have about one CronJob.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Timestamp;
use api::views::{CronJobView, JobView, ObjectKey};

use super::CronJobContext;

/// Everything that a decision about one CronJob depends on.
#[derive(Clone, Debug)]
pub struct CronJobSnapshot {
    /// The CronJob.
    pub cron_job: Arc<CronJobView>,
    /// The Jobs it controls, in any state.
    pub jobs: Vec<Arc<JobView>>,
    /// The time.
    pub now: Timestamp,
    /// What this reconcile learned and the caches may not show yet.
    pub memory: ReconcileMemory,
}

/// What one reconcile learned from the server. It is dropped afterwards: by then the caches show it.
#[derive(Clone, Debug, Default)]
pub struct ReconcileMemory {
    /// By uid: whether a Job that the status lists as active, but the cache does not have, exists.
    pub exists_by_uid: BTreeMap<String, bool>,
    /// Uids of Jobs that were deleted because the next one replaces them.
    pub replaced: BTreeSet<String>,
    /// The scheduled time whose Job could not be created.
    pub refused_time: Option<Timestamp>,
}

/// The snapshot of a CronJob; `None` if it is gone.
pub fn observe(ctx: &CronJobContext, key: &ObjectKey, memory: &ReconcileMemory) -> Option<CronJobSnapshot> {
    let cron_job = ctx.cron_jobs.get(key)?;
    let jobs = ctx.jobs.by_index(&JobView::BY_CONTROLLER, &cron_job.metadata.uid);
    Some(CronJobSnapshot { cron_job, jobs, now: ctx.clock.now(), memory: memory.clone() })
}
