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
    /// Desired state.
    pub spec: CronJobSpecView,
    /// Observed state.
    pub status: CronJobStatusView,
}

view!(CronJobView, kinds::CRON_JOB);

/// `cronJob.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpecView {
    /// The schedule in cron format.
    pub schedule: String,
    /// The IANA name of the schedule's time zone.
    pub time_zone: Option<String>,
    /// How late a Job may still be started, in seconds.
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`; empty means Allow.
    pub concurrency_policy: String,
    /// While true, no Job is started.
    pub suspend: Option<bool>,
    /// The template of the Jobs.
    pub job_template: JobTemplateView,
    /// How many completed Jobs are kept. Unset means all.
    pub successful_jobs_history_limit: Option<i32>,
    /// How many failed Jobs are kept. Unset means all.
    pub failed_jobs_history_limit: Option<i32>,
}

/// `cronJob.spec.jobTemplate`. The Jobs' spec is decoded when a Job is created.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobTemplateView {
    /// Metadata of the template.
    pub metadata: JobTemplateMetaView,
    /// The Jobs' spec as JSON.
    pub spec: Option<Box<RawValue>>,
}

/// `cronJob.spec.jobTemplate.metadata`: the fields that Jobs get.
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
    /// Jobs that were started and have not finished.
    pub active: Vec<ActiveJobView>,
    /// The scheduled time of the last Job that was started, not its start time.
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
    /// The Job's `resourceVersion` when it was started.
    pub resource_version: String,
}
