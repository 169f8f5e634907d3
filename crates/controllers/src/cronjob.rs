//! The CronJob controller: creates Jobs at scheduled times, tracks active ones, and deletes old ones.
//!
//! In: the caches of CronJobs and Jobs, and the time.
//! Out: Jobs, one per scheduled time; deletes of Jobs that are replaced or old; CronJob status; Events.
//! Promises: a scheduled time gets at most one Job after any crash: the Job's name contains the time, and an existing
//! Job is tracked even if the status was never written. Of several missed times only the last gets a Job.
//! Never: polls: it sleeps until the next scheduled time or a change. Writes Jobs that it does not control. Creates
//! scheduling objects: the Job controller gives each of its Jobs a Workload and a PodGroup.

pub mod run; // the loop: changes to keys, keys to reconcile; read this first
pub mod observe; // what the caches have about one CronJob
pub mod next_step; // the decision: one write
pub mod status; // the status a CronJob should have
pub mod due_times; // the scheduled time that is due, and the next one
pub mod history; // ended Jobs beyond the history limits
pub mod template; // what a new Job looks like
pub mod execute; // executes it

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use api::views::{CronJobView, JobView};
use runtime::{Backoff, Cache, EventKind, Recorder};

pub use run::run;

use crate::Metrics;

/// What the CronJob controller uses. `jobs` is indexed by controller.
pub struct CronJobContext {
    /// The API server.
    pub client: kube::Client,
    /// All CronJobs.
    pub cron_jobs: Cache<CronJobView>,
    /// All Jobs.
    pub jobs: Cache<JobView>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Where Events go.
    pub recorder: Recorder,
    /// Settings.
    pub config: Config,
    /// Metrics.
    pub metrics: Metrics,
}

/// Settings of the CronJob controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many CronJobs are reconciled concurrently.
    pub workers: usize,
    /// Back-off after an error of the API server.
    // Upstream: from 5 ms to 1000 s. With more than a minute, a schedule of every minute would miss several times.
    pub retry: Backoff,
}

impl Default for Config {
    fn default() -> Config {
        Config { workers: 5, retry: Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(60) } }
    }
}

/// An Event on the CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJobEvent {
    /// Normal or Warning.
    pub kind: EventKind,
    /// CamelCase reason.
    pub reason: &'static str,
    /// Its text.
    pub message: String,
}

impl CronJobEvent {
    /// A Normal Event.
    pub fn normal(reason: &'static str, message: String) -> CronJobEvent {
        CronJobEvent { kind: EventKind::Normal, reason, message }
    }

    /// A Warning Event.
    pub fn warning(reason: &'static str, message: String) -> CronJobEvent {
        CronJobEvent { kind: EventKind::Warning, reason, message }
    }
}
