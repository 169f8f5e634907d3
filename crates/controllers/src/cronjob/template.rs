//! The Job for one scheduled time.

use api::Timestamp;
use api::views::{CronJobView, JobView, MetaView, View};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

/// Annotation on a Job: its scheduled time.
pub const SCHEDULED_ANNOTATION: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The name of the Job for `scheduled_time`. One time has one name, so its Job is never created twice.
pub fn job_name(cron_job: &MetaView, scheduled_time: Timestamp) -> String {
    format!("{}-{}", cron_job.name, scheduled_time.as_second().div_euclid(60))
}

/// The scheduled time of `job`; none if it was created by hand, for example with `kubectl create job --from`.
pub fn scheduled_time_of(job: &JobView) -> Option<Timestamp> {
    job.metadata.annotations.get(SCHEDULED_ANNOTATION)?.parse().ok()
}

/// The Job for `scheduled_time`. Its annotation has the time in `zone`.
pub fn job(cron_job: &CronJobView, scheduled_time: Timestamp, zone: &TimeZone) -> Value {
    let template = &cron_job.spec.job_template;
    let mut annotations = json!(template.metadata.annotations);
    annotations[SCHEDULED_ANNOTATION] = zoned_rfc3339(scheduled_time, zone).into();
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(&cron_job.metadata, scheduled_time),
            "namespace": cron_job.metadata.namespace,
            "labels": template.metadata.labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": CronJobView::RESOURCE.api_version(),
                "kind": CronJobView::RESOURCE.kind,
                "name": cron_job.metadata.name,
                "uid": cron_job.metadata.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": template.spec,
    })
}

/// RFC 3339 with the zone's offset; `Z` where there is none.
fn zoned_rfc3339(scheduled_time: Timestamp, zone: &TimeZone) -> String {
    let local_time = scheduled_time.to_zoned(zone.clone());
    let offset = if local_time.offset().is_zero() { "Z" } else { "%:z" };
    local_time.strftime(&format!("%Y-%m-%dT%H:%M:%S{offset}")).to_string()
}
