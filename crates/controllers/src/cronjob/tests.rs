//! The rules of CronJobs, each on values alone: text in, text out.
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

/// 2026-01-01 begins with this minute.
const NEW_YEAR: i64 = 1_767_225_600 / 60;

fn time(text: &str) -> Timestamp {
    // Of the day that all tests are on, the time is enough.
    let full = if text.contains('T') { text.to_owned() } else { format!("2026-01-01T{text}Z") };
    full.parse().unwrap()
}

/// Every five minutes, made at midnight, with the fields of `spec` and `status` on top.
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

/// A Job of the CronJob for the time `slot`, none: made by hand. `end` is the condition it ended with.
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

/// The decision in a line: what is done, what is told, when to look again.
fn decide(observed: &CronJobSnapshot) -> String {
    let CronJobDecision { step, events: news, requeue_at: wake } = next_step(observed);
    let names = |jobs: Vec<&str>| jobs.join(",").replace(&format!("c-{}", NEW_YEAR / 100), "c-…");
    let step = match &step {
        CronJobStep::LookUpJobs(jobs) => format!("ask {}", names(jobs.iter().map(|job| job.name.as_str()).collect())),
        CronJobStep::Replace(jobs) => format!("replace {}", names(jobs.iter().map(|job| job.name.as_str()).collect())),
        CronJobStep::CreateJob { scheduled_time: slot, .. } => format!("create {}", minute_text(*slot)),
        CronJobStep::WriteStatus(status) => {
            let active = names(status.active.iter().map(|active| active.name.as_str()).collect());
            let last = status.last_schedule_time.map_or("never".to_owned(), minute_text);
            let succeeded =
                status.last_successful_time.map_or(String::new(), |at| format!(" succeeded {}", minute_text(at)));
            format!("status [{active}] last {last}{succeeded}")
        }
        CronJobStep::DeleteHistory(jobs) => {
            format!("drop {}", names(jobs.iter().map(|job| job.metadata.name.as_str()).collect()))
        }
        CronJobStep::Wait => "rest".to_owned(),
    };
    let news: BTreeSet<&str> = news.iter().map(|CronJobEvent { reason, .. }| *reason).collect();
    let news = if news.is_empty() { String::new() } else { format!(" ({})", Vec::from_iter(news).join(" ")) };
    format!("{step}{news}{}", wake.map_or(String::new(), |wake| format!(", then {}", minute_text(wake))))
}

fn minute_text(at: Timestamp) -> String {
    rfc3339(at).replace("2026-01-01T", "").replace('Z', "")
}

#[test]
fn a_time_of_the_schedule_gets_its_job_and_the_controller_sleeps_until_the_next() {
    let last = json!({"lastScheduleTime": "2026-01-01T00:05:00Z"});
    for (case, spec, status, now, want) in [
        ("before the first time", json!({}), json!({}), "00:04:59", "rest, then 00:05:00"),
        ("at the first time", json!({}), json!({}), "00:05:00", "create 00:05:00, then 00:10:00"),
        ("a little late", json!({}), json!({}), "00:05:01", "create 00:05:00, then 00:10:00"),
        ("served already", json!({}), last.clone(), "00:05:01", "rest, then 00:10:00"),
        (
            "three were missed: the last is made up for",
            json!({}),
            json!({}),
            "00:17:00",
            "create 00:15:00, then 00:20:00",
        ),
        ("suspended", json!({"suspend": true}), json!({}), "00:05:00", "rest"),
        ("the clock was set back", json!({}), last.clone(), "00:01:00", "rest, then 00:10:00"),
        ("no such schedule", json!({"schedule": "* *"}), json!({}), "00:05:00", "rest (UnparseableSchedule)"),
        ("never", json!({"schedule": "0 0 31 2 *"}), json!({}), "00:05:00", "rest (InvalidSchedule)"),
        ("no such zone", json!({"timeZone": "Mars/Base"}), json!({}), "00:05:00", "rest (UnknownTimeZone)"),
        (
            "zone in the schedule",
            json!({"schedule": "TZ=UTC */5 * * * *"}),
            json!({}),
            "00:05:00",
            "create 00:05:00 (UnsupportedSchedule), then 00:10:00",
        ),
        ("spans keep their beat", json!({"schedule": "@every 7m"}), last, "00:27:00", "create 00:26:00, then 00:33:00"),
    ] {
        assert_eq!(decide(&observed(cron_job(spec, status), vec![], now)), want, "{case}");
    }
}

#[test]
fn a_time_that_is_past_its_deadline_is_not_made_up_for() {
    let spec = |deadline: i64| json!({"startingDeadlineSeconds": deadline});
    for (case, deadline, now, want) in [
        ("in time", 60, "00:06:00", "create 00:05:00, then 00:10:00"),
        ("a second late", 60, "00:06:01", "rest (MissSchedule), then 00:10:00"),
        ("the last of several is in time", 60, "00:15:30", "create 00:15:00, then 00:20:00"),
        ("a deadline of nothing", 0, "00:05:00", "create 00:05:00, then 00:10:00"),
        ("longer than there is time", i64::MAX, "00:05:00", "create 00:05:00, then 00:10:00"),
    ] {
        assert_eq!(decide(&observed(cron_job(spec(deadline), json!({})), vec![], now)), want, "{case}");
    }
    let spans = json!({"schedule": "@every 1h", "startingDeadlineSeconds": 10});
    assert_eq!(
        decide(&observed(cron_job(spans, json!({})), vec![], "02:00:05")),
        "create 02:00:00, then 03:00:00",
        "a deadline does not move the beat of spans"
    );
}

#[test]
fn more_than_a_hundred_missed_times_are_told_and_the_last_is_made_up_for() {
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
        ("Forbid", "rest (JobAlreadyActive), then 00:15:00"),
        ("Replace", "replace c-…65, then 00:15:00"),
    ] {
        let cron_job = cron_job(json!({"concurrencyPolicy": policy}), status.clone());
        assert_eq!(decide(&observed(cron_job, vec![running_job("00:05:00")], "00:10:02")), want, "{policy}");
    }
}

#[test]
fn a_forbidden_time_is_made_up_for_when_the_job_has_ended() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let cron_job = cron_job(json!({"concurrencyPolicy": "Forbid"}), status);
    let ended = child(&job_name_at("00:05:00"), Some("00:05:00"), Some("Complete"));
    assert_eq!(decide(&observed(cron_job, vec![ended], "00:12:00")), "create 00:10:00, then 00:15:00");
}

#[test]
fn a_replaced_job_makes_way_before_its_going_is_seen() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let mut world =
        observed(cron_job(json!({"concurrencyPolicy": "Replace"}), status), vec![running_job("00:05:00")], "00:10:00");
    world.memory.replaced.insert(format!("{}-u", job_name_at("00:05:00")));
    assert_eq!(decide(&world), "create 00:10:00, then 00:15:00");
    world.jobs.push(running_job("00:10:00"));
    assert_eq!(decide(&world), "status [c-…70] last 00:10:00, then 00:15:00");
}

#[test]
fn the_status_follows_the_jobs_that_are_there() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let (complete, failed) = (Some("Complete"), Some("Failed"));
    let first = |end| child(&job_name_at("00:05:00"), Some("00:05:00"), end);
    let going = {
        let mut job = (*running_job("00:05:00")).clone();
        job.metadata.deletion_timestamp = Some(time("00:05:30"));
        Arc::new(job)
    };
    for (case, status, jobs, want) in [
        ("it runs", status.clone(), vec![first(None)], "rest, then 00:10:00"),
        (
            "it completed",
            status.clone(),
            vec![first(complete)],
            "status [] last 00:05:00 succeeded 00:09:00 (SawCompletedJob), then 00:10:00",
        ),
        ("it failed", status.clone(), vec![first(failed)], "status [] last 00:05:00 (SawCompletedJob), then 00:10:00"),
        ("nobody knows it", status, vec![], "ask c-…65"),
        (
            "made, and the status was never written",
            json!({}),
            vec![first(None)],
            "status [c-…65] last 00:05:00, then 00:10:00",
        ),
        (
            "made and ended, and the status was never written",
            json!({}),
            vec![first(complete)],
            "status [] last 00:05:00 succeeded 00:09:00, then 00:10:00",
        ),
        ("deleted by hand", json!({"lastScheduleTime": "2026-01-01T00:05:00Z"}), vec![going], "rest, then 00:10:00"),
        (
            "made by hand",
            json!({"lastScheduleTime": "2026-01-01T00:05:00Z"}),
            vec![child("mine", None, None)],
            "rest (UnexpectedJob), then 00:10:00",
        ),
    ] {
        assert_eq!(decide(&observed(cron_job(json!({}), status), jobs, "00:06:00")), want, "{case}");
    }
}

#[test]
fn a_job_that_no_cache_knows_is_given_up_only_if_the_server_does_not_know_it_either() {
    let status = json!({"active": active(&["00:05:00"]), "lastScheduleTime": "2026-01-01T00:05:00Z"});
    let mut world = observed(cron_job(json!({}), status), vec![], "00:06:00");
    for (is_there, want) in
        [(true, "rest, then 00:10:00"), (false, "status [] last 00:05:00 (MissingJob), then 00:10:00")]
    {
        world.memory.exists_by_uid.insert(format!("{}-u", job_name_at("00:05:00")), is_there);
        assert_eq!(decide(&world), want);
    }
}

#[test]
fn no_second_job_is_made_for_a_time_whose_name_is_taken() {
    let mut world = observed(cron_job(json!({"schedule": "@every 20s"}), json!({})), vec![], "00:00:45");
    assert_eq!(decide(&world), "create 00:00:40, then 00:01:00");
    world.memory.refused_time = Some(time("00:00:40"));
    assert_eq!(decide(&world), "rest, then 00:01:00", "somebody else has the name");
    let first = child(&job_name_at("00:00:20"), Some("00:00:20"), Some("Failed"));
    let world = observed(
        cron_job(json!({"schedule": "@every 20s"}), json!({"lastScheduleTime": "2026-01-01T00:00:20Z"})),
        vec![first],
        "00:00:45",
    );
    assert_eq!(decide(&world), "rest, then 00:01:00", "the first time of the minute has it");
}

#[test]
fn of_the_jobs_that_ended_the_youngest_are_kept() {
    let slots = ["00:05:00", "00:10:00", "00:15:00", "00:20:00"];
    let jobs = |end: &str| slots.map(|slot| child(&job_name_at(slot), Some(slot), Some(end))).to_vec();
    let status = |succeeded: bool| {
        let at = succeeded.then_some("2026-01-01T00:09:00Z");
        json!({"lastScheduleTime": "2026-01-01T00:20:00Z", "lastSuccessfulTime": at})
    };
    for (case, spec, end, want) in [
        ("three", json!({"successfulJobsHistoryLimit": 3}), "Complete", "drop c-…65, then 00:25:00"),
        ("one", json!({"failedJobsHistoryLimit": 1}), "Failed", "drop c-…65,c-…70,c-…75, then 00:25:00"),
        ("none", json!({"failedJobsHistoryLimit": 0}), "Failed", "drop c-…65,c-…70,c-…75,c-…80, then 00:25:00"),
        ("no limit", json!({}), "Failed", "rest, then 00:25:00"),
        ("the other limit", json!({"failedJobsHistoryLimit": 0}), "Complete", "rest, then 00:25:00"),
        ("suspended", json!({"suspend": true, "failedJobsHistoryLimit": 3}), "Failed", "drop c-…65"),
    ] {
        let world = observed(cron_job(spec, status(end == "Complete")), jobs(end), "00:21:00");
        assert_eq!(decide(&world), want, "{case}");
    }
}

#[test]
fn a_cron_job_that_is_deleted_starts_and_drops_nothing() {
    let mut gone = (*cron_job(json!({"failedJobsHistoryLimit": 0}), json!({}))).clone();
    gone.metadata.deletion_timestamp = Some(time("00:01:00"));
    let ended = child(&job_name_at("00:05:00"), Some("00:05:00"), Some("Failed"));
    assert_eq!(decide(&observed(Arc::new(gone.clone()), vec![ended], "00:06:00")), "status [] last 00:05:00");
    assert_eq!(decide(&observed(Arc::new(gone), vec![], "00:06:00")), "rest");
}

// Shows: S000-13
#[test]
fn a_job_is_its_template_with_a_name_an_owner_and_its_time() {
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
fn turned_clocks_skip_a_time_in_spring_and_serve_it_twice_in_autumn() {
    let spec = json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"});
    for (last, now, want) in [
        ("2026-03-28T01:30:00Z", "2026-03-29T12:00:00Z", "rest, then 2026-03-30T00:30:00"),
        ("2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "create 2026-10-25T00:30:00, then 2026-10-25T01:30:00"),
        ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "create 2026-10-25T01:30:00, then 2026-10-26T01:30:00"),
    ] {
        let cron_job = cron_job(spec.clone(), json!({"lastScheduleTime": last}));
        assert_eq!(decide(&observed(cron_job, vec![], now)), want);
    }
}
