//! CronJobs as their controller reads them.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::meta::MetaView;
use crate::kinds;
use crate::small_map::SmallMap;
use crate::views::view;

/// A CronJob.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CronJobView {
    /// Metadata.
    pub metadata: MetaView,
    /// What was asked for.
    pub spec: CronJobSpecView,
    /// What has been started.
    pub status: CronJobStatusView,
}

view!(CronJobView, kinds::CRON_JOB);

/// `cronJob.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpecView {
    /// When, in cron's words.
    pub schedule: String,
    /// On which clocks; an IANA name.
    pub time_zone: Option<String>,
    /// How late a Job may still be started.
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`; empty means Allow.
    pub concurrency_policy: String,
    /// Nothing is started while set.
    pub suspend: Option<bool>,
    /// What the Jobs look like.
    pub job_template: JobTemplateView,
    /// How many Jobs that completed are kept; unset: all.
    pub successful_jobs_history_limit: Option<i32>,
    /// How many Jobs that failed are kept; unset: all.
    pub failed_jobs_history_limit: Option<i32>,
}

/// `cronJob.spec.jobTemplate`: the Jobs' spec stays text until one is made from it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobTemplateView {
    /// What the Jobs' metadata begins with.
    pub metadata: JobTemplateMetaView,
    /// The Jobs' spec as JSON.
    pub spec: Option<Box<RawValue>>,
}

/// `cronJob.spec.jobTemplate.metadata`, as far as Jobs get it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobTemplateMetaView {
    /// Labels of the Jobs.
    pub labels: SmallMap<String>,
    /// Annotations of the Jobs.
    pub annotations: SmallMap<String>,
}

/// `cronJob.status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatusView {
    /// Jobs that were started and have not ended.
    pub active: Vec<ActiveJobView>,
    /// The time that the schedule names for the last Job that was started; not the time of its start.
    pub last_schedule_time: Option<Timestamp>,
    /// When a Job last completed.
    pub last_successful_time: Option<Timestamp>,
}

/// `cronJob.status.active[]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActiveJobView {
    /// The Job's name.
    pub name: String,
    /// The Job's uid.
    pub uid: String,
    /// The Job's version when it was started.
    pub resource_version: String,
}
