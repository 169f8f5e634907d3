//! The rules of CronJobs, on values alone.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Timestamp;
use api::clock::rfc3339;
use api::cron::time_zone;
use api::views::{CronJobView, JobView, View};
use serde_json::{Value, json};

use super::CronJobEvent;
use super::next_step::{CronJobDecision, CronJobStep, next_step};
use super::observe::{CronJobSnapshot, ReconcileMemory};
use super::template::{SCHEDULED_ANNOTATION, job, job_name};

/// The first minute of 2026-01-01.
const NEW_YEAR: i64 = 1_767_225_600 / 60;

fn time(text: &str) -> Timestamp {
    // Without a date it is a time on the first day of the tests.
    let full = if text.contains('T') { text.to_owned() } else { format!("2026-01-01T{text}Z") };
    full.parse().unwrap()
}

/// A CronJob of every five minutes, created at midnight, with the fields of `spec` and `status`.
fn cron_job(spec: Value, status: Value) -> Arc<CronJobView> {
    let mut document = json!({
        "metadata": {"name": "c", "namespace": "ns", "uid": "cu", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {}}},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        document["spec"][field] = value.clone();
    }
    Arc::new(CronJobView::decode(document.to_string().as_bytes()).unwrap())
}

/// A Job of the CronJob for the scheduled time `slot`; without one it was created by hand. `end` is its final condition.
fn child(name: &str, slot: Option<&str>, end: Option<&str>) -> Arc<JobView> {
    let at = slot.map_or("2026-01-01T00:00:30Z".to_owned(), |slot| rfc3339(time(slot)));
    let conditions: Vec<_> = end.iter().map(|end| json!({"type": end, "status": "True"})).collect();
    let document = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("{name}-u"), "resourceVersion": "7",
            "annotations": slot.map(|_| json!({SCHEDULED_ANNOTATION: at})).unwrap_or_else(|| json!({})),
            "ownerReferences": [{"kind": "CronJob", "name": "c", "uid": "cu", "controller": true}],
        },
        "status": {
            "conditions": conditions, "startTime": at,
            "completionTime": (end == Some("Complete")).then_some("2026-01-01T00:09:00Z"),
        },
    });
    Arc::new(JobView::decode(document.to_string().as_bytes()).unwrap())
}

/// The name of the Job for a time.
fn job_name_at(slot: &str) -> String {
    format!("c-{}", time(slot).as_second() / 60)
}

fn running_job(slot: &str) -> Arc<JobView> {
    child(&job_name_at(slot), Some(slot), None)
}

fn active(slots: &[&str]) -> Value {
    let entry = |slot: &&str| json!({"name": job_name_at(slot), "uid": format!("{}-u", job_name_at(slot)), "resourceVersion": "7"});
    slots.iter().map(entry).collect()
}

fn observed(cron_job: Arc<CronJobView>, jobs: Vec<Arc<JobView>>, now: &str) -> CronJobSnapshot {
    CronJobSnapshot { cron_job, jobs, now: time(now), memory: ReconcileMemory::default() }
}

/// The decision in a line: the step, the Events, when to decide again.
fn decide(observed: &CronJobSnapshot) -> String {
    let CronJobDecision { step, events, requeue_at } = next_step(observed);
    let names = |jobs: Vec<&str>| jobs.join(",").replace(&format!("c-{}", NEW_YEAR / 100), "c-…");
    let step = match &step {
        CronJobStep::LookUpJobs(jobs) => {
            format!("look up {}", names(jobs.iter().map(|job| job.name.as_str()).collect()))
        }
        CronJobStep::Replace(jobs) => format!("replace {}", names(jobs.iter().map(|job| job.name.as_str()).collect())),
        CronJobStep::CreateJob { scheduled_time, .. } => format!("create {}", time_text(*scheduled_time)),
        CronJobStep::WriteStatus(status) => {
            let active = names(status.active.iter().map(|active| active.name.as_str()).collect());
            let last = status.last_schedule_time.map_or("never".to_owned(), time_text);
            let succeeded =
                status.last_successful_time.map_or(String::new(), |at| format!(" succeeded {}", time_text(at)));
            format!("status [{active}] last {last}{succeeded}")
        }
        CronJobStep::DeleteHistory(jobs) => {
            format!("delete {}", names(jobs.iter().map(|job| job.metadata.name.as_str()).collect()))
        }
        CronJobStep::Wait => "wait".to_owned(),
    };
    let reasons: BTreeSet<&str> = events.iter().map(|CronJobEvent { reason, .. }| *reason).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", Vec::from_iter(reasons).join(" ")) };
    format!("{step}{reasons}{}", requeue_at.map_or(String::new(), |at| format!(", then {}", time_text(at))))
}

fn time_text(at: Timestamp) -> String {
    rfc3339(at).replace("2026-01-01T", "").replace('Z', "")
}

#[test]
fn a_scheduled_time_gets_its_job_and_the_controller_sleeps_until_the_next() {
    let last = json!({"lastScheduleTime": "2026-01-01T00:05:00Z"});
    for (case, spec, status, now, want) in [
        ("before the first time", json!({}), json!({}), "00:04:59", "wait, then 00:05:00"),
        ("at the first time", json!({}), json!({}), "00:05:00", "create 00:05:00, then 00:10:00"),
        ("a little late", json!({}), json!({}), "00:05:01", "create 00:05:00, then 00:10:00"),
        ("it has its Job", json!({}), last.clone(), "00:05:01", "wait, then 00:10:00"),
        ("three were missed: the last gets a Job", json!({}), json!({}), "00:17:00", "create 00:15:00, then 00:20:00"),
        ("suspended", json!({"suspend": true}), json!({}), "00:05:00", "wait"),
        ("the clock was set back", json!({}), last.clone(), "00:01:00", "wait, then 00:10:00"),
        ("unparseable schedule", json!({"schedule": "* *"}), json!({}), "00:05:00", "wait (UnparseableSchedule)"),
        (
            "a date that does not exist",
            json!({"schedule": "0 0 31 2 *"}),
            json!({}),
            "00:05:00",
            "wait (InvalidSchedule)",
        ),
        ("unknown time zone", json!({"timeZone": "Mars/Base"}), json!({}), "00:05:00", "wait (UnknownTimeZone)"),
        (
            "time zone in the schedule",
            json!({"schedule": "TZ=UTC */5 * * * *"}),
            json!({}),
            "00:05:00",
            "create 00:05:00 (UnsupportedSchedule), then 00:10:00",
        ),
        (
            "@every keeps its phase",
            json!({"schedule": "@every 7m"}),
            last,
            "00:27:00",
            "create 00:26:00, then 00:33:00",
        ),
    ] {
        assert_eq!(decide(&observed(cron_job(spec, status), vec![], now)), want, "{case}");
    }
}

#[test]
fn a_time_past_its_starting_deadline_gets_no_job() {
    let spec = |deadline: i64| json!({"startingDeadlineSeconds": deadline});
    for (case, deadline, now, want) in [
        ("in time", 60, "00:06:00", "create 00:05:00, then 00:10:00"),
        ("a second late", 60, "00:06:01", "wait (MissSchedule), then 00:10:00"),
        ("the last of several is in time", 60, "00:15:30", "create 00:15:00, then 00:20:00"),
        ("a deadline of zero", 0, "00:05:00", "create 00:05:00, then 00:10:00"),
        ("the largest deadline", i64::MAX, "00:05:00", "create 00:05:00, then 00:10:00"),
    ] {
        assert_eq!(decide(&observed(cron_job(spec(deadline), json!({})), vec![], now)), want, "{case}");
    }
    let every_hour = json!({"schedule": "@every 1h", "startingDeadlineSeconds": 10});
    assert_eq!(
        decide(&observed(cron_job(every_hour, json!({})), vec![], "02:00:05")),
        "create 02:00:00, then 03:00:00",
        "a deadline does not change the phase of @every"
    );
}

#[test]
fn more_than_a_hundred_missed_times_are_reported_and_the_last_gets_a_job() {
    let every_minute = |deadline: Option<i64>| json!({"schedule": "* * * * *", "startingDeadlineSeconds": deadline});
    for (case, spec, now, want) in [
        ("a hundred", every_minute(None), "01:40:30", "create 01:40:00, then 01:41:00"),
        ("one more", every_minute(None), "01:41:30", "create 01:41:00 (TooManyMissedTimes), then 01:42:00"),
        ("a deadline that leaves few", every_minute(Some(600)), "09:00:30", "create 09:00:00, then 09:01:00"),
        (
            "years of them",
            every_minute(None),
            "2031-01-01T00:00:00Z",
            "create 2031-01-01T00:00:00 (TooManyMissedTimes), then 2031-01-01T00:01:00",
        ),
    ] {
        assert_eq!(decide(&observed(cron_job(spec, json!({})), vec![], now)), want, "{case}");
    }
}

#[test]
fn the_concurrency_policy_decides_while_a_job_runs() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    for (policy, want) in [
        ("Allow", "create 00:10:00, then 00:15:00"),
        ("Forbid", "wait (JobAlreadyActive), then 00:15:00"),
        ("Replace", "replace c-…65, then 00:15:00"),
    ] {
        let cron_job = cron_job(json!({"concurrencyPolicy": policy}), status.clone());
        assert_eq!(decide(&observed(cron_job, vec![running_job("00:05:00")], "00:10:02")), want, "{policy}");
    }
}

#[test]
fn a_forbidden_time_gets_its_job_when_the_active_one_has_ended() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let cron_job = cron_job(json!({"concurrencyPolicy": "Forbid"}), status);
    let ended = child(&job_name_at("00:05:00"), Some("00:05:00"), Some("Complete"));
    assert_eq!(decide(&observed(cron_job, vec![ended], "00:12:00")), "create 00:10:00, then 00:15:00");
}

#[test]
fn a_replaced_job_does_not_delay_the_next_until_its_deletion_is_seen() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let mut snapshot =
        observed(cron_job(json!({"concurrencyPolicy": "Replace"}), status), vec![running_job("00:05:00")], "00:10:00");
    snapshot.memory.replaced.insert(format!("{}-u", job_name_at("00:05:00")));
    assert_eq!(decide(&snapshot), "create 00:10:00, then 00:15:00");
    snapshot.jobs.push(running_job("00:10:00"));
    assert_eq!(decide(&snapshot), "status [c-…70] last 00:10:00, then 00:15:00");
}

#[test]
fn the_status_follows_the_existing_jobs() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let (complete, failed) = (Some("Complete"), Some("Failed"));
    let first = |end| child(&job_name_at("00:05:00"), Some("00:05:00"), end);
    let deleting = {
        let mut job = (*running_job("00:05:00")).clone();
        job.metadata.deletion_timestamp = Some(time("00:05:30"));
        Arc::new(job)
    };
    for (case, status, jobs, want) in [
        ("it runs", status.clone(), vec![first(None)], "wait, then 00:10:00"),
        (
            "it completed",
            status.clone(),
            vec![first(complete)],
            "status [] last 00:05:00 succeeded 00:09:00 (SawCompletedJob), then 00:10:00",
        ),
        ("it failed", status.clone(), vec![first(failed)], "status [] last 00:05:00 (SawCompletedJob), then 00:10:00"),
        ("it is not in the cache", status, vec![], "look up c-…65"),
        (
            "created, and the status was never written",
            json!({}),
            vec![first(None)],
            "status [c-…65] last 00:05:00, then 00:10:00",
        ),
        (
            "created and ended, and the status was never written",
            json!({}),
            vec![first(complete)],
            "status [] last 00:05:00 succeeded 00:09:00, then 00:10:00",
        ),
        ("deleted by hand", json!({"lastScheduleTime": "2026-01-01T00:05:00Z"}), vec![deleting], "wait, then 00:10:00"),
        (
            "created by hand",
            json!({"lastScheduleTime": "2026-01-01T00:05:00Z"}),
            vec![child("mine", None, None)],
            "wait (UnexpectedJob), then 00:10:00",
        ),
    ] {
        assert_eq!(decide(&observed(cron_job(json!({}), status), jobs, "00:06:00")), want, "{case}");
    }
}

#[test]
fn an_active_job_that_is_not_cached_is_removed_only_if_the_server_does_not_have_it() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let mut snapshot = observed(cron_job(json!({}), status), vec![], "00:06:00");
    for (exists, want) in
        [(true, "wait, then 00:10:00"), (false, "status [] last 00:05:00 (MissingJob), then 00:10:00")]
    {
        snapshot.memory.exists_by_uid.insert(format!("{}-u", job_name_at("00:05:00")), exists);
        assert_eq!(decide(&snapshot), want);
    }
}

#[test]
fn no_second_job_is_created_for_a_time_whose_name_is_taken() {
    let mut snapshot = observed(cron_job(json!({"schedule": "@every 20s"}), json!({})), vec![], "00:00:45");
    assert_eq!(decide(&snapshot), "create 00:00:40, then 00:01:00");
    snapshot.memory.refused_time = Some(time("00:00:40"));
    assert_eq!(decide(&snapshot), "wait, then 00:01:00", "another object has the name");
    let first = child(&job_name_at("00:00:20"), Some("00:00:20"), Some("Failed"));
    let snapshot = observed(
        cron_job(json!({"schedule": "@every 20s"}), json!({"lastScheduleTime": "2026-01-01T00:00:20Z"})),
        vec![first],
        "00:00:45",
    );
    assert_eq!(decide(&snapshot), "wait, then 00:01:00", "the first scheduled time of the minute has it");
}

#[test]
fn ended_jobs_beyond_the_history_limit_are_deleted_oldest_first() {
    let slots = ["00:05:00", "00:10:00", "00:15:00", "00:20:00"];
    let jobs = |end: &str| slots.map(|slot| child(&job_name_at(slot), Some(slot), Some(end))).to_vec();
    let status = |succeeded: bool| {
        let at = succeeded.then_some("2026-01-01T00:09:00Z");
        json!({"lastScheduleTime": "2026-01-01T00:20:00Z", "lastSuccessfulTime": at})
    };
    for (case, spec, end, want) in [
        ("three", json!({"successfulJobsHistoryLimit": 3}), "Complete", "delete c-…65, then 00:25:00"),
        ("one", json!({"failedJobsHistoryLimit": 1}), "Failed", "delete c-…65,c-…70,c-…75, then 00:25:00"),
        ("none", json!({"failedJobsHistoryLimit": 0}), "Failed", "delete c-…65,c-…70,c-…75,c-…80, then 00:25:00"),
        ("no limit", json!({}), "Failed", "wait, then 00:25:00"),
        ("the other limit", json!({"failedJobsHistoryLimit": 0}), "Complete", "wait, then 00:25:00"),
        ("suspended", json!({"suspend": true, "failedJobsHistoryLimit": 3}), "Failed", "delete c-…65"),
    ] {
        let snapshot = observed(cron_job(spec, status(end == "Complete")), jobs(end), "00:21:00");
        assert_eq!(decide(&snapshot), want, "{case}");
    }
}

#[test]
fn a_deleted_cron_job_creates_and_deletes_no_jobs() {
    let mut deleted = (*cron_job(json!({"failedJobsHistoryLimit": 0}), json!({}))).clone();
    deleted.metadata.deletion_timestamp = Some(time("00:01:00"));
    let ended = child(&job_name_at("00:05:00"), Some("00:05:00"), Some("Failed"));
    assert_eq!(decide(&observed(Arc::new(deleted.clone()), vec![ended], "00:06:00")), "status [] last 00:05:00");
    assert_eq!(decide(&observed(Arc::new(deleted), vec![], "00:06:00")), "wait");
}

// Shows: S000-13
#[test]
fn a_job_is_its_template_with_a_name_an_owner_and_its_scheduled_time() {
    let spec = json!({"parallelism": 4, "template": {"spec": {"restartPolicy": "Never"}}, "scheduling": {}});
    let metadata = json!({"labels": {"app": "a"}, "annotations": {"note": "n"}, "finalizers": ["x/y"]});
    let cron_job = cron_job(json!({"jobTemplate": {"metadata": metadata, "spec": spec}}), json!({}));
    let berlin = time_zone("Europe/Berlin").unwrap();
    assert_eq!(
        job(&cron_job, time("2026-07-01T10:00:00Z"), &berlin),
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": "c-29715000", "namespace": "ns", "labels": {"app": "a"},
                "annotations": {"note": "n", SCHEDULED_ANNOTATION: "2026-07-01T12:00:00+02:00"},
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "cu", "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": spec,
        })
    );
    let london = time_zone("Europe/London").unwrap();
    let winter = job(&cron_job, time("10:00:00"), &london);
    assert_eq!(winter["metadata"]["annotations"][SCHEDULED_ANNOTATION], "2026-01-01T10:00:00Z");
    assert_eq!(job_name(&cron_job.metadata, time("00:00:59")), format!("c-{NEW_YEAR}"));
}

#[test]
fn daylight_saving_time_skips_a_time_in_spring_and_repeats_it_in_autumn() {
    let spec = json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"});
    for (last, now, want) in [
        ("2026-03-28T01:30:00Z", "2026-03-29T12:00:00Z", "wait, then 2026-03-30T00:30:00"),
        ("2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "create 2026-10-25T00:30:00, then 2026-10-25T01:30:00"),
        ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "create 2026-10-25T01:30:00, then 2026-10-26T01:30:00"),
    ] {
        let cron_job = cron_job(spec.clone(), json!({"lastScheduleTime": last}));
        assert_eq!(decide(&observed(cron_job, vec![], now)), want);
    }
}
