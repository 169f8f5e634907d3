//! CronJobs on both test clusters, within a minute or two of any clock.
//!
//! A CronJob whose last schedule time is in the past starts its missed time at once, so that no test on the wall clock
//! waits for more than one scheduled time.

use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{Condition, JobView};
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, on_shared_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// A suspended CronJob `c` of Jobs like `job`, with the fields of `spec` on top.
fn cron_job(job: JobBuilder, spec: &Value) -> Value {
    let mut manifest = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
        "spec": {"schedule": "* * * * *", "suspend": true, "jobTemplate": {"spec": job.build()["spec"]}},
    });
    for (field, value) in spec.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    manifest
}

/// Creates a CronJob whose last schedule time is `by` ago, and resumes it. Returns the time of that.
async fn create_overdue_cron_job(cluster: &TestCluster, by: Duration, job: JobBuilder, spec: Value) -> Timestamp {
    cluster.create(&cron_job(job, &spec)).await;
    let last = cluster.now().checked_sub(by).unwrap();
    cluster.patch("cronjobs/c/status", &json!({"status": {"lastScheduleTime": rfc3339(last)}})).await;
    let at = cluster.now();
    cluster.patch("cronjobs/c", &json!({"spec": {"suspend": false}})).await;
    at
}

/// Waits for `count` active Jobs.
async fn wait_for_active_jobs(cluster: &TestCluster, count: usize) -> Vec<Arc<JobView>> {
    cluster
        .eventually(&format!("{count} Jobs are active"), 2 * MINUTE, |cluster| {
            let jobs: Vec<_> = cluster.jobs().into_iter().filter(|job| job.status.active > 0).collect();
            (jobs.len() == count).then_some(jobs)
        })
        .await
}

fn minute_of(job: &JobView) -> i64 {
    job.metadata.name.strip_prefix("c-").unwrap().parse().unwrap()
}

/// Waits until five seconds after the start of the next minute.
async fn wait_for_next_minute(cluster: &TestCluster) {
    let now = cluster.now().as_second();
    let next = now - now % 60 + 65;
    cluster
        .eventually("the next minute", 2 * MINUTE, |cluster| (cluster.now().as_second() >= next).then_some(()))
        .await;
}

// Shows: U-TestCronJobLaunchesPodAndCleansUp, U-e2e-cron-history-success, U-e2e-cron-no-warnings
#[test]
fn a_cron_job_runs_jobs_and_keeps_at_most_its_limit_of_successful_ones() {
    on_shared_test_cluster(async |cluster| {
        create_overdue_cron_job(&cluster, 2 * MINUTE, job("x").gang(), json!({"successfulJobsHistoryLimit": 0})).await;
        cluster
            .eventually("its Job ran and is deleted", 2 * MINUTE, |cluster| {
                let is_deleted =
                    cluster.history().iter().any(|change| change.resource == "batch/jobs" && change.deleted);
                (is_deleted && cluster.pods().is_empty() && cluster.pod_groups().is_empty()).then_some(())
            })
            .await;
        let history = cluster.history();
        let ran = |change: &testkit::RecordedWrite| {
            change.resource == "pods" && change.object["status"]["phase"] == "Succeeded"
        };
        assert!(history.iter().any(ran), "a pod of it succeeded");
        cluster.wait_for_event("SuccessfulCreate", "c").await;
        cluster.wait_for_event("SawCompletedJob", "c").await;
        let warnings: Vec<&testkit::RecordedWrite> = history
            .iter()
            .filter(|change| change.resource == "events" && change.object["involvedObject"]["name"] == "c")
            .filter(|change| change.object["type"] == "Warning")
            .collect();
        assert!(warnings.is_empty(), "{warnings:?}");
        let status = cluster.get("cronjobs/c").await["status"].clone();
        assert!(status["lastSuccessfulTime"].is_string(), "{status}");
    });
}

// Shows: U-e2e-cron-history-failed
#[test]
fn a_cron_job_keeps_at_most_its_limit_of_failed_jobs() {
    on_shared_test_cluster(async |cluster| {
        let fails = job("x").spec("backoffLimit", 0).annotate("phalanx.dev/exit-code", "1");
        create_overdue_cron_job(&cluster, 2 * MINUTE, fails, json!({"failedJobsHistoryLimit": 0})).await;
        cluster
            .eventually("its Job failed and is deleted", 2 * MINUTE, |cluster| {
                let history = cluster.history();
                let of_jobs = || history.iter().filter(|change| change.resource == "batch/jobs");
                let failed = |job: &Value| job["status"]["conditions"].to_string().contains("BackoffLimitExceeded");
                let has_failed = of_jobs().any(|change| failed(&change.object));
                (has_failed && of_jobs().any(|change| change.deleted)).then_some(())
            })
            .await;
    });
}

// Shows: U-e2e-cron-concurrent
#[test]
fn allow_runs_several_jobs_concurrently() {
    on_shared_test_cluster(async |cluster| {
        create_overdue_cron_job(&cluster, 2 * MINUTE, job("x").run_forever(), json!({"concurrencyPolicy": "Allow"}))
            .await;
        let jobs = wait_for_active_jobs(&cluster, 2).await;
        assert_eq!(minute_of(&jobs[1]) - minute_of(&jobs[0]), 1, "one after the other");
        let listed = cluster.get("cronjobs/c").await["status"]["active"].as_array().map_or(0, Vec::len);
        assert_eq!(listed, 2);
    });
}

// Shows: U-e2e-cron-suspended
#[test]
fn a_suspended_cron_job_starts_no_job() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&cron_job(job("x"), &json!({}))).await;
        let last = cluster.now().checked_sub(2 * MINUTE).unwrap();
        cluster.patch("cronjobs/c/status", &json!({"status": {"lastScheduleTime": rfc3339(last)}})).await;
        wait_for_next_minute(&cluster).await;
        assert_eq!(cluster.created_count("batch/jobs"), 0);
    });
}

// Shows: U-e2e-cron-forbid
#[test]
fn forbid_starts_no_second_job_while_one_runs() {
    on_shared_test_cluster(async |cluster| {
        create_overdue_cron_job(&cluster, 2 * MINUTE, job("x").run_forever(), json!({"concurrencyPolicy": "Forbid"}))
            .await;
        wait_for_active_jobs(&cluster, 1).await;
        wait_for_next_minute(&cluster).await;
        assert_eq!(cluster.created_count("batch/jobs"), 1);
        cluster.wait_for_event("JobAlreadyActive", "c").await;
    });
}

// Shows: U-e2e-cron-replace
#[test]
fn replace_puts_a_new_job_in_place_of_the_running_one() {
    on_shared_test_cluster(async |cluster| {
        create_overdue_cron_job(&cluster, 2 * MINUTE, job("x").run_forever(), json!({"concurrencyPolicy": "Replace"}))
            .await;
        let first = wait_for_active_jobs(&cluster, 1).await.pop().unwrap();
        cluster
            .eventually("another Job runs instead", 3 * MINUTE, |cluster| {
                let jobs = cluster.jobs();
                let is_another =
                    jobs.len() == 1 && jobs[0].metadata.uid != first.metadata.uid && jobs[0].status.active == 1;
                (is_another && cluster.pods().len() == 1).then_some(())
            })
            .await;
    });
}

// Shows: U-e2e-cron-missed
#[test]
fn after_a_hundred_missed_times_only_the_latest_is_started_and_an_event_is_written() {
    on_shared_test_cluster(async |cluster| {
        let at = create_overdue_cron_job(&cluster, 180 * MINUTE, job("x").run_forever(), json!({})).await;
        let first = wait_for_active_jobs(&cluster, 1).await.pop().unwrap();
        let behind = at.as_second() / 60 - minute_of(&first);
        assert!((-1..=1).contains(&behind), "the latest missed time, not the first: {behind}");
        cluster.wait_for_event("TooManyMissedTimes", "c").await;
    });
}

// Shows: U-e2e-cron-timestamp, U-trap-cron-groups
#[test]
fn a_job_has_its_scheduled_time_and_its_own_group() {
    on_shared_test_cluster(async |cluster| {
        create_overdue_cron_job(&cluster, 2 * MINUTE, job("x").run_forever().gang(), json!({})).await;
        let first = wait_for_active_jobs(&cluster, 1).await.pop().unwrap();
        let at: Timestamp = first.metadata.annotations.get(SCHEDULED).unwrap().parse().unwrap();
        assert_eq!((at.as_second() % 60, at.as_second() / 60), (0, minute_of(&first)));
        let owners: Vec<String> =
            cluster.pod_groups().iter().map(|group| group.metadata.controller().unwrap().name.clone()).collect();
        assert!(owners.contains(&first.metadata.name), "{owners:?}");
    });
}

// Shows: U-e2e-cron-deleted-job
#[test]
fn a_deleted_job_leaves_the_active_list() {
    on_shared_test_cluster(async |cluster| {
        // The next scheduled time is far away, so that no other Job is created.
        let now = cluster.now().in_tz("UTC").unwrap();
        let schedule = format!("{} {} * * *", now.minute(), now.hour());
        create_overdue_cron_job(&cluster, 2 * MINUTE, job("x").run_forever(), json!({"schedule": schedule})).await;
        let first = wait_for_active_jobs(&cluster, 1).await.pop().unwrap();
        assert_eq!(cluster.get("cronjobs/c").await["status"]["active"][0]["name"], first.metadata.name.as_str());
        cluster.delete(&format!("jobs/{}", first.metadata.name)).await;
        cluster
            .eventually("it is removed from the list", MINUTE, |cluster| {
                let history = cluster.history();
                let last = history.iter().rfind(|change| change.resource == "batch/cronjobs")?;
                last.object["status"]["active"].as_array().is_none_or(Vec::is_empty).then_some(())
            })
            .await;
        assert_eq!(cluster.created_count("batch/jobs"), 1);
    });
}

// Shows: U-e2e-cron-zone
#[test]
fn a_schedule_follows_its_time_zone() {
    on_shared_test_cluster(async |cluster| {
        // Two minutes ago, in Tokyo's time.
        let tokyo = cluster.now().checked_sub(2 * MINUTE).unwrap().in_tz("Asia/Tokyo").unwrap();
        let schedule = format!("{} {} * * *", tokyo.minute(), tokyo.hour());
        let spec = json!({"schedule": schedule, "timeZone": "Asia/Tokyo"});
        create_overdue_cron_job(&cluster, 60 * MINUTE, job("x").run_forever(), spec).await;
        let first = wait_for_active_jobs(&cluster, 1).await.pop().unwrap();
        assert_eq!(minute_of(&first), tokyo.timestamp().as_second() / 60);
        let scheduled = first.metadata.annotations.get(SCHEDULED).unwrap();
        assert!(scheduled.ends_with("+09:00"), "{scheduled}");
    });
}

// Shows: U-e2e-cron-api
#[test]
fn a_cron_job_can_be_created_read_changed_and_deleted_and_its_status_written() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&cron_job(job("x"), &json!({}))).await;
        cluster.patch("cronjobs/c", &json!({"spec": {"schedule": "*/5 * * * *"}})).await;
        let mut document = cluster.get("cronjobs/c").await;
        document["spec"]["concurrencyPolicy"] = json!("Forbid");
        cluster.request("PUT", &cluster.path("cronjobs/c"), &document).await.unwrap();
        cluster.patch("cronjobs/c/status", &json!({"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}})).await;
        let listed = cluster.get("cronjobs").await;
        let found = &listed["items"][0];
        assert_eq!(
            (&found["spec"]["schedule"], &found["spec"]["concurrencyPolicy"]),
            (&json!("*/5 * * * *"), &json!("Forbid"))
        );
        assert_eq!(found["status"]["lastScheduleTime"], "2026-01-01T00:00:00Z");
        cluster.delete("cronjobs/c").await;
        cluster
            .eventually("the history has the deletion", MINUTE, |cluster| {
                cluster
                    .history()
                    .iter()
                    .any(|change| change.resource == "batch/cronjobs" && change.deleted)
                    .then_some(())
            })
            .await;
    });
}

// Shows: U-e2e-gc-cron-children
#[test]
fn deleting_a_cron_job_deletes_its_jobs_and_pods() {
    on_shared_test_cluster(async |cluster| {
        create_overdue_cron_job(&cluster, 2 * MINUTE, job("x").run_forever().gang(), json!({})).await;
        let first = wait_for_active_jobs(&cluster, 1).await.pop().unwrap();
        assert!(!Condition::is_true(&first.status.conditions, "Failed"));
        cluster.delete("cronjobs/c").await;
        cluster
            .eventually("all are deleted", MINUTE, |cluster| {
                (cluster.jobs().is_empty() && cluster.pods().is_empty() && cluster.pod_groups().is_empty())
                    .then_some(())
            })
            .await;
    });
}
