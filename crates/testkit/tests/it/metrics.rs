//! What the controllers count, as `/metrics` tells it.

use std::collections::BTreeMap;
use std::time::Duration;

use api::views::ObjectKey;
use controlplane::{Component, Config};
use nodes::cluster::Cluster;
use serde_json::json;
use testkit::fault::{Fault, FaultRule, InjectedStatus, Verb, verb};
use testkit::{TestCluster, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// Every figure by its name and labels.
async fn scrape(home: &TestCluster) -> BTreeMap<String, f64> {
    let text = home.client().request_text(http::Request::get("/metrics").body(Vec::new()).unwrap()).await.unwrap();
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "one answer, whole");
    let figures = text.lines().filter(|line| !line.starts_with('#'));
    figures
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, is)| (name.to_owned(), is.parse().unwrap()))
        .collect()
}

/// The figures of `wanted`, by their labels; a figure that is not there is zero.
fn samples_of<'a>(samples: &'a BTreeMap<String, f64>, wanted: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    samples.iter().filter_map(move |(name, is)| name.strip_prefix(wanted).map(|labels| (labels, *is)))
}

fn value_of(samples: &BTreeMap<String, f64>, figure: &str) -> f64 {
    samples.get(figure).copied().unwrap_or(0.0)
}

async fn wait_until_ended(home: &TestCluster, names: &[&str]) {
    home.eventually("the Jobs end", 20 * MINUTE, |home| {
        let has_ended = |name: &&str| {
            let job = home.caches().jobs.get(&ObjectKey::new("default", *name))?;
            let conditions = &job.status.conditions;
            conditions.iter().find(|held| matches!(held.kind.as_str(), "Complete" | "Failed")).map(|_| ())
        };
        names.iter().all(|name| has_ended(name).is_some()).then_some(())
    })
    .await;
    home.advance(SECOND * 5).await;
}

#[test]
fn finished_jobs_pods_and_indexes_are_counted_once_each() {
    on_paused_clock(async {
        let home = TestCluster::embedded(3, Cluster::default_of(2)).await;
        home.create(&job("good").pods(3).indexed().build()).await;
        home.create(&job("bad").spec("backoffLimit", 0).annotate("phalanx.dev/exit-code", "1").build()).await;
        wait_until_ended(&home, &["good", "bad"]).await;
        let told = scrape(&home).await;
        let all = |name: &str| samples_of(&told, name).map(|(labels, is)| format!("{labels} {is}")).collect::<Vec<_>>();
        assert_eq!(
            all("job_controller_jobs_finished_total"),
            [
                "{completion_mode=\"Indexed\",result=\"succeeded\",reason=\"CompletionsReached\"} 1",
                "{completion_mode=\"NonIndexed\",result=\"failed\",reason=\"BackoffLimitExceeded\"} 1",
            ]
        );
        assert_eq!(
            all("job_controller_job_pods_finished_total"),
            [
                "{completion_mode=\"Indexed\",result=\"succeeded\"} 3",
                "{completion_mode=\"NonIndexed\",result=\"failed\"} 1"
            ]
        );
        let indexes = all("job_controller_job_finished_indexes_total");
        assert_eq!(indexes, ["{status=\"succeeded\",backoffLimit=\"global\"} 3"]);
        let held = all("job_controller_terminated_pods_tracking_finalizer_total");
        assert_eq!(held, ["{event=\"add\"} 4", "{event=\"delete\"} 4"]);
    });
}

#[test]
fn failed_indexes_and_failures_handled_by_a_policy_are_counted() {
    on_paused_clock(async {
        let home = TestCluster::embedded(3, Cluster::default_of(2)).await;
        let rule = json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}});
        let failing = job("j").pods(2).indexed().spec("backoffLimitPerIndex", 3);
        let failing = failing.spec("podFailurePolicy", json!({"rules": [rule]}));
        home.create(&failing.annotate("phalanx.dev/exit-code", "42").build()).await;
        wait_until_ended(&home, &["j"]).await;
        let told = scrape(&home).await;
        let indexes: Vec<_> = samples_of(&told, "job_controller_job_finished_indexes_total").collect();
        assert_eq!(indexes, [("{status=\"failed\",backoffLimit=\"perIndex\"}", 2.0)]);
        let handled: Vec<_> =
            samples_of(&told, "job_controller_pod_failures_handled_by_failure_policy_total").collect();
        assert_eq!(handled, [("{action=\"FailIndex\"}", 2.0)]);
    });
}

// Shows: S000-90
#[test]
fn every_job_sync_is_counted_and_timed_by_its_action() {
    on_paused_clock(async {
        let home = TestCluster::embedded(3, Cluster::default_of(2)).await;
        home.create(&job("j").pods(2).indexed().build()).await;
        wait_until_ended(&home, &["j"]).await;
        let told = scrape(&home).await;
        let labels = |action: &str| format!("{{completion_mode=\"Indexed\",result=\"success\",action=\"{action}\"}}");
        for action in ["pods_created", "tracking"] {
            let count = value_of(&told, &format!("job_controller_job_syncs_total{}", labels(action)));
            assert!(count >= 1.0, "{action}");
            let timed = value_of(&told, &format!("job_controller_job_sync_duration_seconds_count{}", labels(action)));
            assert_eq!(count, timed, "{action}");
        }
        assert_eq!(
            samples_of(&told, "job_controller_job_syncs_total").filter(|(it, _)| it.contains("error")).count(),
            0
        );
    });
}

// Shows: S000-91
#[test]
fn pod_creations_are_counted_by_reason_and_status() {
    on_paused_clock(async {
        for (policy, reason) in
            [("TerminatingOrFailed", "recreate_terminating_or_failed"), ("Failed", "recreate_failed")]
        {
            let home = TestCluster::embedded(3, Cluster::default_of(2)).await;
            home.inject_fault(
                FaultRule::on(verb(Verb::Create).on_resource("pods"), Fault::Respond(InjectedStatus::Unavailable))
                    .first_n(1),
            );
            let failing = job("j").spec("backoffLimit", 1).spec("podReplacementPolicy", policy);
            home.create(&failing.annotate("phalanx.dev/exit-code", "1").build()).await;
            wait_until_ended(&home, &["j"]).await;
            let told = scrape(&home).await;
            let made = |reason: &str, status: &str| {
                let labels = format!("{{reason=\"{reason}\",status=\"{status}\"}}");
                value_of(&told, &format!("job_controller_job_pods_creation_total{labels}"))
            };
            assert_eq!([made("new", "failed"), made("new", "succeeded"), made(reason, "succeeded")], [1.0; 3]);
            assert_eq!(
                value_of(&told, "workqueue_retries_total{name=\"job\"}"),
                1.0,
                "the refused one was tried again"
            );
        }
    });
}

// Shows: S000-92
#[test]
fn the_time_from_a_job_to_its_workload_is_measured() {
    on_paused_clock(async {
        let mut home = TestCluster::embedded(3, Cluster::default_of(2)).await;
        home.stop_component(Component::Controllers);
        home.create(&job("j").pods(2).gang().build()).await;
        home.advance(SECOND * 5).await;
        home.start_component(Component::Controllers);
        wait_until_ended(&home, &["j"]).await;
        let told = scrape(&home).await;
        assert_eq!(value_of(&told, "workload_creation_duration_seconds_count"), 1.0);
        let took = value_of(&told, "workload_creation_duration_seconds_sum");
        assert!((5.0..6.1).contains(&took), "{took}");
    });
}

#[test]
fn jobs_of_external_controllers_are_counted_by_controller() {
    on_paused_clock(async {
        let home = TestCluster::embedded(3, Cluster::default_of(1)).await;
        home.create(&job("theirs").spec("managedBy", "example.com/other").build()).await;
        home.create(&job("ours").build()).await;
        wait_until_ended(&home, &["ours"]).await;
        let told = scrape(&home).await;
        let others = "job_controller_jobs_by_external_controller_total";
        let all: Vec<_> = samples_of(&told, others).collect();
        assert_eq!(all, [("{controller_name=\"example.com/other\"}", 1.0)]);
    });
}

#[test]
fn cron_job_start_skew_and_ttl_deletion_delay_are_measured() {
    on_paused_clock(async {
        let mut home = TestCluster::embedded(3, Cluster::default_of(1)).await;
        let template = json!({"spec": job("unnamed").spec("ttlSecondsAfterFinished", 100).build()["spec"]});
        let cron_job = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
            "spec": {"schedule": "0 * * * *", "jobTemplate": template},
        });
        home.create(&cron_job).await;
        home.advance(MINUTE * 60 - SECOND).await;
        home.stop_component(Component::Controllers);
        home.advance(SECOND * 31).await;
        home.start_component(Component::Controllers);
        let end = |home: &TestCluster| {
            home.caches().jobs.all().iter().any(|job| job.status.completion_time.is_some()).then_some(())
        };
        home.eventually("its Job ends", MINUTE, end).await;
        home.stop_component(Component::Controllers);
        home.advance(SECOND * 300).await;
        home.start_component(Component::Controllers);
        home.advance(SECOND * 20).await;
        let told = scrape(&home).await;
        let (skew, deletion) = (
            "cronjob_controller_job_creation_skew_duration_seconds",
            "ttl_after_finished_controller_job_deletion_duration_seconds",
        );
        for (figure, least) in [(skew, 30.0), (deletion, 198.0)] {
            assert_eq!(value_of(&told, &format!("{figure}_count")), 1.0, "{figure}");
            let took = value_of(&told, &format!("{figure}_sum"));
            assert!((least..least + 4.0).contains(&took), "{figure}: {took}");
        }
    });
}

#[test]
fn garbage_collected_pods_are_counted_by_namespace_and_reason() {
    on_paused_clock(async {
        let mut config = Config::for_cluster(Cluster::default_of(1));
        config.pod_gc.terminated_pod_threshold = 1;
        let home = TestCluster::with_config(3, config).await;
        for name in ["a", "b", "c"] {
            home.create(&pod(name).annotate("phalanx.dev/run-seconds", "1").build()).await;
        }
        home.eventually("two are gone", 5 * MINUTE, |home| (home.caches().pods.len() == 1).then_some(())).await;
        let told = scrape(&home).await;
        let all: Vec<_> = samples_of(&told, "pod_gc_collector_force_delete_pods_total").collect();
        assert_eq!(all, [("{namespace=\"default\",reason=\"terminated\"}", 2.0)]);
        assert_eq!(samples_of(&told, "pod_gc_collector_force_delete_pod_errors_total").count(), 0);
    });
}

#[test]
fn every_controller_reports_work_queue_metrics() {
    on_paused_clock(async {
        let home = TestCluster::embedded(3, Cluster::default_of(1)).await;
        home.create(&job("j").spec("ttlSecondsAfterFinished", 0).build()).await;
        let made =
            |home: &TestCluster| home.history().iter().filter(|it| it.created && it.resource == "batch/jobs").count();
        let gone = |home: &TestCluster| (home.caches().jobs.is_empty() && made(home) == 1).then_some(());
        home.eventually("the Job came and went", 5 * MINUTE, gone).await;
        home.advance(MINUTE).await;
        let told = scrape(&home).await;
        let names: Vec<_> = samples_of(&told, "workqueue_depth").collect();
        let all = [
            ("{name=\"cronjob\"}", 0.0),
            ("{name=\"disruption\"}", 0.0),
            ("{name=\"garbage_collector_attempt_to_delete\"}", 0.0),
            ("{name=\"job\"}", 0.0),
            ("{name=\"namespace\"}", 0.0),
            ("{name=\"orphaned_pods_nodes\"}", 0.0),
            ("{name=\"podgroupprotection\"}", 0.0),
            ("{name=\"ttl_jobs_to_delete\"}", 0.0),
        ];
        assert_eq!(names, all);
        for name in ["job", "ttl_jobs_to_delete", "garbage_collector_attempt_to_delete"] {
            let added = value_of(&told, &format!("workqueue_adds_total{{name=\"{name}\"}}"));
            let worked = value_of(&told, &format!("workqueue_work_duration_seconds_count{{name=\"{name}\"}}"));
            assert!(added >= 1.0 && added == worked, "{name}: {added} added, {worked} worked on");
        }
    });
}
