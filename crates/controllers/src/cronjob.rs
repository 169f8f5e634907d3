//! Starts Jobs at given times: makes them, keeps account of those that run, and takes old ones away.
//!
//! In: the caches of CronJobs and Jobs, and the time.
//! Out: Jobs, one per time that the schedule names; deletes of Jobs that are replaced or old; CronJob status; Events.
//! Promises: a time of the schedule gets at most one Job, whatever crashes when: the Job's name is made of the time, and
//! a Job that is there is accounted for even if the status was never written. Of several times that were missed only the
//! last is made up for.
//! Never: looks in vain: it sleeps until the next time of the schedule or until something changes. Touches Jobs that it
//! does not control. Says anything about groups: the Job controller gives each of its Jobs a Workload and a PodGroup.

pub mod run; // the loop: changes to keys, keys to reconcile; read this first
pub mod observe; // what the caches say about one CronJob
pub mod next_step; // the decision: one write
pub mod status; // the status that the Jobs add up to
pub mod due_times; // which time of the schedule is to be served now, and when to look again
pub mod history; // which Jobs are too old to keep
pub mod template; // what a new Job looks like
pub mod execute; // does what was decided

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use api::views::{CronJobView, JobView};
use runtime::{Backoff, Cache, EventKind, Recorder};

pub use run::run;

use crate::Metrics;

/// What the CronJob controller is made of. `jobs` is indexed by controller.
pub struct CronJobContext {
    /// The API server.
    pub client: kube::Client,
    /// All CronJobs.
    pub cron_jobs: Cache<CronJobView>,
    /// All Jobs.
    pub jobs: Cache<JobView>,
    /// The time that objects carry and schedules are read by.
    pub clock: Arc<dyn Clock>,
    /// Where Events go.
    pub recorder: Recorder,
    /// Settings.
    pub config: Config,
    /// What is counted.
    pub metrics: Metrics,
}

/// Settings of the CronJob controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many CronJobs are worked on side by side.
    pub workers: usize,
    /// The wait after an error of the API server.
    // Upstream: from 5 ms to 1000 s. Beyond a minute a schedule of minutes would miss several times.
    pub retry: Backoff,
}

impl Default for Config {
    fn default() -> Config {
        Config { workers: 5, retry: Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(60) } }
    }
}

/// Something people are told of in an Event on the CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJobEvent {
    /// Normal, or worth a look.
    pub kind: EventKind,
    /// CamelCase reason.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
}

impl CronJobEvent {
    /// Something went as it should.
    pub fn normal(reason: &'static str, message: String) -> CronJobEvent {
        CronJobEvent { kind: EventKind::Normal, reason, message }
    }

    /// Somebody may want to look.
    pub fn warning(reason: &'static str, message: String) -> CronJobEvent {
        CronJobEvent { kind: EventKind::Warning, reason, message }
    }
}
