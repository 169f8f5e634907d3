//! Ended Jobs beyond the history limits.

use std::cmp::Ordering;
use std::sync::Arc;

use api::views::{CronJobSpecView, JobView};

/// The ended Jobs beyond the CronJob's limits, the oldest of each outcome first. Without a limit all Jobs stay.
pub fn beyond_history_limits(spec: &CronJobSpecView, jobs: &[Arc<JobView>]) -> Vec<Arc<JobView>> {
    let limits = [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
    limits.into_iter().flat_map(|(outcome, limit)| beyond_limit(limit, outcome, jobs)).collect()
}

fn beyond_limit(limit: Option<i32>, outcome: &str, jobs: &[Arc<JobView>]) -> Vec<Arc<JobView>> {
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return Vec::new() };
    let ended = |job: &&Arc<JobView>| job.finished_condition().is_some_and(|end| end.kind == outcome);
    let mut ended: Vec<_> = jobs.iter().filter(ended).filter(|job| !job.metadata.is_deleting()).cloned().collect();
    ended.sort_by(|a, b| by_age(a, b));
    ended.truncate(ended.len().saturating_sub(limit));
    ended
}

/// Oldest first. A Job that never started is younger than all that did.
fn by_age(a: &JobView, b: &JobView) -> Ordering {
    let age = |job: &JobView| (job.status.start_time.is_none(), job.status.start_time);
    age(a).cmp(&age(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
}
