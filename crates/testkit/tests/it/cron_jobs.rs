//! CronJobs through the whole control plane: start times, concurrency policies, exactly one Job for each time, cleanup.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::views::{JobView, ObjectKey};
use controlplane::{Component, Config};
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::fault::{EventFault, Fault, FaultRule, InjectedStatus, Verb, events_of, verb, writes};
use testkit::{JobBuilder, RecordedWrite, TestCluster, job, on_paused_clock};

const MINUTE: Duration = Duration::from_secs(60);
/// The minute at which the clock of test clusters starts.
const NEW_YEAR: i64 = 1_767_225_600 / 60;
const PATH: &str = "/apis/batch/v1/namespaces/default/cronjobs/c";

/// A CronJob `c` of Jobs like `job`, with the fields of `spec` on top.
fn cron_job(schedule: &str, job: JobBuilder, spec: Value) -> Value {
    let mut manifest = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job.build()["spec"]}},
    });
    for (field, value) in spec.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    manifest
}

/// A Job whose pod runs for this time.
fn job_running_for(seconds: u32) -> JobBuilder {
    job("unnamed").annotate("phalanx.dev/run-seconds", &seconds.to_string())
}

fn created<'a>(history: &'a [RecordedWrite], resource: &'a str) -> impl Iterator<Item = &'a RecordedWrite> {
    history.iter().filter(move |change| change.created && change.resource == resource)
}

/// The minute in the name of each Job, counted from new year, and its creation time, in the order of creation.
fn starts(cluster: &TestCluster) -> Vec<(i64, String)> {
    let history = cluster.history();
    let start = |change: &RecordedWrite| {
        let minute: i64 = change.name().strip_prefix("c-").unwrap().parse().unwrap();
        (minute - NEW_YEAR, change.object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned())
    };
    created(&history, "batch/jobs").map(start).collect()
}

/// The names of all existing objects, by resource.
fn existing_names(cluster: &TestCluster) -> BTreeMap<String, BTreeSet<String>> {
    let mut existing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for change in cluster.history() {
        let names = existing.entry(change.resource.clone()).or_default();
        if change.deleted {
            names.remove(change.name())
        } else {
            names.insert(change.name().to_owned())
        };
    }
    existing
}

/// The maximum number of unfinished Jobs of the CronJob at any time.
fn max_concurrent_jobs(cluster: &TestCluster) -> usize {
    let (mut unfinished, mut max) = (BTreeSet::new(), 0);
    for change in cluster.history().iter().filter(|change| change.resource == "batch/jobs") {
        let conditions = change.object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ended = conditions.iter().any(|one| matches!(one["type"].as_str(), Some("Complete" | "Failed")));
        if ended || change.deleted {
            unfinished.remove(change.name())
        } else {
            unfinished.insert(change.name().to_owned())
        };
        max = max.max(unfinished.len());
    }
    max
}

fn reasons(cluster: &TestCluster) -> BTreeSet<String> {
    let history = cluster.history();
    let about = created(&history, "events").filter(|event| event.object["involvedObject"]["kind"] == "CronJob");
    about.map(|event| event.object["reason"].as_str().unwrap().to_owned()).collect()
}

// Shows: S000-13, S000-64
#[test]
fn each_scheduled_time_gets_its_own_gang_and_old_jobs_are_deleted_with_their_objects() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(2)).await;
        let gang = job_running_for(5).pods(2).gang();
        cluster.create(&cron_job("* * * * *", gang, json!({"successfulJobsHistoryLimit": 1}))).await;
        cluster.advance(MINUTE * 4 + MINUTE / 2).await;
        let want: Vec<_> = (1..=4).map(|minute| (minute, format!("2026-01-01T00:0{minute}:00Z"))).collect();
        assert_eq!(starts(&cluster), want, "one Job for each minute, in its first second");
        let history = cluster.history();
        for resource in ["scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"] {
            let owners: Vec<_> = created(&history, resource)
                .map(|object| &object.object["metadata"]["ownerReferences"][0]["name"])
                .collect();
            let jobs: Vec<_> = created(&history, "batch/jobs").map(|job| &job.object["metadata"]["name"]).collect();
            assert_eq!(owners, jobs, "each Job has exactly one: {resource}");
            assert_eq!(existing_names(&cluster)[resource].len(), 1, "{resource} of deleted Jobs are deleted");
        }
        let jobs = &existing_names(&cluster)["batch/jobs"];
        assert_eq!(*jobs, BTreeSet::from([format!("c-{}", NEW_YEAR + 4)]), "the history keeps one");
        assert_eq!(existing_names(&cluster)["pods"].len(), 2);
        let status = &cluster.request("GET", PATH, &Value::Null).await.unwrap()["status"];
        assert_eq!(status["active"], Value::Null);
        assert_eq!(status["lastScheduleTime"], "2026-01-01T00:04:00Z");
        assert!(status["lastSuccessfulTime"].as_str().unwrap().starts_with("2026-01-01T00:04:0"), "{status}");
        let want = ["SawCompletedJob", "SuccessfulCreate", "SuccessfulDelete"].map(str::to_owned);
        assert_eq!(reasons(&cluster), want.into());
    });
}

#[test]
fn the_example_runs_a_gang_every_five_minutes() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        let text = include_str!("../../../../examples/cron-job.yaml");
        cluster.create(&serde_saphyr::from_str(text).unwrap()).await;
        cluster.advance(MINUTE * 11).await;
        let name = |minute: i64| format!("evaluation-{}", NEW_YEAR + minute);
        assert_eq!(existing_names(&cluster)["batch/jobs"], BTreeSet::from([name(5), name(10)]));
        assert_eq!(existing_names(&cluster)["pods"].len(), 8);
    });
}

#[test]
fn a_daylight_saving_change_skips_a_time_in_spring_and_repeats_it_in_autumn() {
    for (origin, want) in [
        ("2026-03-27T12:00:00Z", ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"].as_slice()),
        ("2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]),
    ] {
        on_paused_clock(async {
            let cluster = TestCluster::starting_at(origin, 3, Config::for_cluster(Cluster::default_of(1))).await;
            cluster.create(&cron_job("30 2 * * *", job_running_for(5), json!({"timeZone": "Europe/Berlin"}))).await;
            cluster.advance(MINUTE * 60 * 61).await;
            let times: Vec<_> = starts(&cluster).into_iter().map(|(_, created)| created).collect();
            assert_eq!(times, want);
            let history = cluster.history();
            let annotations = &created(&history, "batch/jobs").next().unwrap().object["metadata"]["annotations"];
            let scheduled = annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"].as_str().unwrap();
            assert!(scheduled.contains("T02:30:00+0"), "the local time: {scheduled}");
        });
    }
}

#[test]
fn forbid_waits_for_a_running_job_and_then_starts_the_last_missed_time() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&cron_job("* * * * *", job_running_for(150), json!({"concurrencyPolicy": "Forbid"}))).await;
        cluster.advance(MINUTE * 7).await;
        let minutes: Vec<_> = starts(&cluster).into_iter().map(|(minute, _)| minute).collect();
        assert_eq!(minutes, [1, 3, 6], "the first ends in minute 3, the second in minute 6");
        assert_eq!(max_concurrent_jobs(&cluster), 1);
        assert!(reasons(&cluster).contains("JobAlreadyActive"), "{:?}", reasons(&cluster));
    });
}

#[test]
fn replace_deletes_the_running_job() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&cron_job("* * * * *", job_running_for(1_000), json!({"concurrencyPolicy": "Replace"}))).await;
        cluster.advance(MINUTE * 3 + MINUTE / 2).await;
        let minutes: Vec<_> = starts(&cluster).into_iter().map(|(minute, _)| minute).collect();
        assert_eq!(minutes, [1, 2, 3]);
        assert_eq!(max_concurrent_jobs(&cluster), 1);
        cluster.advance(MINUTE / 2 - Duration::from_secs(5)).await;
        assert_eq!(existing_names(&cluster)["pods"].len(), 1, "pods of replaced Jobs are deleted with them");
        let status = &cluster.request("GET", PATH, &Value::Null).await.unwrap()["status"];
        assert_eq!(status["active"].as_array().unwrap().len(), 1);
        assert!(reasons(&cluster).contains("SuccessfulDelete") && !reasons(&cluster).contains("MissingJob"));
    });
}

#[test]
fn a_resumed_cron_job_starts_one_missed_time() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&cron_job("* * * * *", job_running_for(5), json!({"suspend": true}))).await;
        cluster.advance(MINUTE * 3 + MINUTE / 2).await;
        assert_eq!(starts(&cluster), []);
        cluster.request("PATCH", PATH, &json!({"spec": {"suspend": false}})).await.unwrap();
        cluster.advance(MINUTE / 4).await;
        assert_eq!(starts(&cluster), [(3, "2026-01-01T00:03:30Z".to_owned())]);
    });
}

// Shows: S000-64
#[test]
fn deleting_a_cron_job_deletes_its_jobs_and_their_groups() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&cron_job("* * * * *", job_running_for(1_000).gang(), json!({}))).await;
        cluster.advance(MINUTE + MINUTE / 2).await;
        cluster.request("DELETE", PATH, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
        cluster.advance(MINUTE * 2).await;
        let existing = existing_names(&cluster);
        for resource in
            ["batch/cronjobs", "batch/jobs", "pods", "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"]
        {
            assert_eq!(existing[resource], BTreeSet::new(), "{resource}");
        }
        assert_eq!(starts(&cluster).len(), 1);
    });
}

#[test]
fn a_deleted_running_job_leaves_the_active_list_and_is_not_recreated() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&cron_job("*/2 * * * *", job_running_for(1_000), json!({}))).await;
        cluster.advance(MINUTE * 2 + MINUTE / 2).await;
        let path = format!("/apis/batch/v1/namespaces/default/jobs/c-{}", NEW_YEAR + 2);
        cluster.request("DELETE", &path, &json!({"propagationPolicy": "Background"})).await.unwrap();
        cluster.advance(MINUTE / 2).await;
        let status = &cluster.request("GET", PATH, &Value::Null).await.unwrap()["status"];
        assert_eq!((&status["active"], &status["lastScheduleTime"]), (&Value::Null, &json!("2026-01-01T00:02:00Z")));
        assert!(reasons(&cluster).contains("MissingJob"));
        assert_eq!(starts(&cluster).len(), 1);
    });
}

#[test]
fn each_scheduled_time_gets_exactly_one_job_whichever_write_fails() {
    let faults = [
        Fault::Cut,
        Fault::CutResponse,
        Fault::Respond(InjectedStatus::Conflict),
        Fault::RespondAfter(InjectedStatus::Timeout),
    ];
    for fault in faults {
        for nth in 1..=4 {
            on_paused_clock(async {
                let mut cluster = TestCluster::embedded(7, Cluster::default_of(1)).await;
                let of = writes().by_user("cronjob-controller").on_resource("batch/jobs");
                let status = writes().by_user("cronjob-controller").on_resource("batch/cronjobs");
                let rules = [of, status].map(|of| cluster.inject_fault(FaultRule::on(of, fault.clone()).nth(nth)));
                cluster
                    .create(&cron_job("* * * * *", job_running_for(10), json!({"successfulJobsHistoryLimit": 1})))
                    .await;
                // The controllers restart right after the time with the fault.
                let restart = MINUTE * u32::try_from(nth).unwrap() + Duration::from_millis(30);
                cluster.advance(restart).await;
                cluster.restart_component(Component::Controllers);
                cluster.advance(MINUTE * 6 + MINUTE / 2 - restart).await;
                let minutes: Vec<_> = starts(&cluster).into_iter().map(|(minute, _)| minute).collect();
                assert_eq!(minutes, [1, 2, 3, 4, 5, 6], "{fault:?} {nth}");
                assert!(rules.iter().all(|rule| cluster.faults().counts(*rule).applied == 1), "{fault:?} {nth}");
                let status = &cluster.request("GET", PATH, &Value::Null).await.unwrap()["status"];
                assert_eq!(
                    (&status["active"], &status["lastScheduleTime"]),
                    (&Value::Null, &json!("2026-01-01T00:06:00Z"))
                );
                assert_eq!(existing_names(&cluster)["batch/jobs"].len(), 1, "{fault:?} {nth}");
            });
        }
    }
}

#[test]
fn forbid_sees_a_running_job_that_is_missing_from_the_status() {
    // The controllers crash between the creation of a Job and the write of its status, and restart minutes later.
    on_paused_clock(async {
        let mut cluster = TestCluster::embedded(7, Cluster::default_of(1)).await;
        cluster.inject_fault(FaultRule::on(verb(Verb::Patch).by_user("cronjob-controller"), Fault::Cut).first_n(3));
        cluster.create(&cron_job("* * * * *", job_running_for(600), json!({"concurrencyPolicy": "Forbid"}))).await;
        cluster.advance(MINUTE + Duration::from_millis(200)).await;
        cluster.restart_component(Component::Controllers);
        cluster.advance(MINUTE * 5).await;
        assert_eq!(starts(&cluster).len(), 1);
        let status = &cluster.request("GET", PATH, &Value::Null).await.unwrap()["status"];
        assert_eq!(status["active"][0]["name"], format!("c-{}", NEW_YEAR + 1));
        assert!(!reasons(&cluster).contains("UnexpectedJob"));
    });
}

#[test]
fn a_stale_job_cache_creates_no_job_twice() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(7, Cluster::default_of(1)).await;
        cluster.inject_fault(
            FaultRule::on_events(events_of("batch/jobs"), EventFault::Delay(Duration::from_secs(20))).every_nth(2),
        );
        cluster.create(&cron_job("* * * * *", job_running_for(5), json!({}))).await;
        cluster.advance(MINUTE * 10).await;
        let minutes: BTreeSet<_> = starts(&cluster).into_iter().map(|(minute, _)| minute).collect();
        assert_eq!(minutes.len(), starts(&cluster).len(), "each at most once");
        assert!(minutes.len() >= 5, "{minutes:?}");
    });
}

#[test]
fn a_foreign_job_with_a_scheduled_name_is_left_alone_with_an_event() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(7, Cluster::default_of(1)).await;
        cluster.create(&job(&format!("c-{}", NEW_YEAR + 1)).build()).await;
        cluster.create(&cron_job("* * * * *", job_running_for(5), json!({}))).await;
        cluster.advance(MINUTE * 2 + MINUTE / 2).await;
        let names: Vec<_> = starts(&cluster).into_iter().map(|(minute, _)| minute).collect();
        assert_eq!(names, [1, 2], "theirs, then ours");
        assert!(reasons(&cluster).contains("FailedCreate"));
        let theirs = cluster.cache::<JobView>().get(&ObjectKey::new("default", format!("c-{}", NEW_YEAR + 1))).unwrap();
        assert!(theirs.metadata.owner_references.is_empty());
    });
}
