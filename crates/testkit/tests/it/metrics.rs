//! The metrics of the controllers, from `/metrics`.

use std::collections::BTreeMap;
use std::time::Duration;

use api::views::{JobView, ObjectKey, PodView};
use controlplane::{Component, Config};
use nodes::cluster::Cluster;
use serde_json::json;
use testkit::fault::{Fault, FaultRule, InjectedStatus, Verb, verb};
use testkit::{TestCluster, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// Every sample by its name and labels.
async fn scrape(cluster: &TestCluster) -> BTreeMap<String, f64> {
    let text = cluster.client().request_text(http::Request::get("/metrics").body(Vec::new()).unwrap()).await.unwrap();
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "the response is complete");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// The samples of the metric `wanted`, by their labels.
fn samples_of<'a>(samples: &'a BTreeMap<String, f64>, wanted: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    samples.iter().filter_map(move |(name, value)| name.strip_prefix(wanted).map(|labels| (labels, *value)))
}

/// The value of a sample; zero if it is missing.
fn value_of(samples: &BTreeMap<String, f64>, sample: &str) -> f64 {
    samples.get(sample).copied().unwrap_or(0.0)
}

async fn wait_until_ended(cluster: &TestCluster, names: &[&str]) {
    cluster
        .eventually("the Jobs finish", 20 * MINUTE, |cluster| {
            let has_ended = |name: &&str| {
                let job = cluster.cache::<JobView>().get(&ObjectKey::new("default", *name))?;
                let conditions = &job.status.conditions;
                conditions.iter().find(|one| matches!(one.kind.as_str(), "Complete" | "Failed")).map(|_| ())
            };
            names.iter().all(|name| has_ended(name).is_some()).then_some(())
        })
        .await;
    cluster.advance(SECOND * 5).await;
}

#[test]
fn finished_jobs_pods_and_indexes_are_counted_once_each() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(2)).await;
        cluster.create(&job("good").pods(3).indexed().build()).await;
        cluster.create(&job("bad").spec("backoffLimit", 0).annotate("phalanx.dev/exit-code", "1").build()).await;
        wait_until_ended(&cluster, &["good", "bad"]).await;
        let samples = scrape(&cluster).await;
        let all = |name: &str| {
            samples_of(&samples, name).map(|(labels, value)| format!("{labels} {value}")).collect::<Vec<_>>()
        };
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
        let tracked = all("job_controller_terminated_pods_tracking_finalizer_total");
        assert_eq!(tracked, ["{event=\"add\"} 4", "{event=\"delete\"} 4"]);
    });
}

#[test]
fn failed_indexes_and_failures_handled_by_a_policy_are_counted() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(2)).await;
        let rule = json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}});
        let failing = job("j").pods(2).indexed().spec("backoffLimitPerIndex", 3);
        let failing = failing.spec("podFailurePolicy", json!({"rules": [rule]}));
        cluster.create(&failing.annotate("phalanx.dev/exit-code", "42").build()).await;
        wait_until_ended(&cluster, &["j"]).await;
        let samples = scrape(&cluster).await;
        let indexes: Vec<_> = samples_of(&samples, "job_controller_job_finished_indexes_total").collect();
        assert_eq!(indexes, [("{status=\"failed\",backoffLimit=\"perIndex\"}", 2.0)]);
        let handled: Vec<_> =
            samples_of(&samples, "job_controller_pod_failures_handled_by_failure_policy_total").collect();
        assert_eq!(handled, [("{action=\"FailIndex\"}", 2.0)]);
    });
}

// Shows: S000-90
#[test]
fn every_job_sync_is_counted_and_timed_by_its_action() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(2)).await;
        cluster.create(&job("j").pods(2).indexed().build()).await;
        wait_until_ended(&cluster, &["j"]).await;
        let samples = scrape(&cluster).await;
        let labels = |action: &str| format!("{{completion_mode=\"Indexed\",result=\"success\",action=\"{action}\"}}");
        for action in ["pods_created", "tracking"] {
            let count = value_of(&samples, &format!("job_controller_job_syncs_total{}", labels(action)));
            assert!(count >= 1.0, "{action}");
            let timed =
                value_of(&samples, &format!("job_controller_job_sync_duration_seconds_count{}", labels(action)));
            assert_eq!(count, timed, "{action}");
        }
        assert_eq!(
            samples_of(&samples, "job_controller_job_syncs_total").filter(|(it, _)| it.contains("error")).count(),
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
            let cluster = TestCluster::embedded(3, Cluster::default_of(2)).await;
            cluster.inject_fault(
                FaultRule::on(verb(Verb::Create).on_resource("pods"), Fault::Respond(InjectedStatus::Unavailable))
                    .first_n(1),
            );
            let failing = job("j").spec("backoffLimit", 1).spec("podReplacementPolicy", policy);
            cluster.create(&failing.annotate("phalanx.dev/exit-code", "1").build()).await;
            wait_until_ended(&cluster, &["j"]).await;
            let samples = scrape(&cluster).await;
            let creations = |reason: &str, status: &str| {
                let labels = format!("{{reason=\"{reason}\",status=\"{status}\"}}");
                value_of(&samples, &format!("job_controller_job_pods_creation_total{labels}"))
            };
            assert_eq!(
                [creations("new", "failed"), creations("new", "succeeded"), creations(reason, "succeeded")],
                [1.0; 3]
            );
            assert_eq!(
                value_of(&samples, "workqueue_retries_total{name=\"job\"}"),
                1.0,
                "the refused create was retried"
            );
        }
    });
}

// Shows: S000-92
#[test]
fn the_time_from_a_job_to_its_workload_is_measured() {
    on_paused_clock(async {
        let mut cluster = TestCluster::embedded(3, Cluster::default_of(2)).await;
        cluster.stop_component(Component::Controllers);
        cluster.create(&job("j").pods(2).gang().build()).await;
        cluster.advance(SECOND * 5).await;
        cluster.start_component(Component::Controllers);
        wait_until_ended(&cluster, &["j"]).await;
        let samples = scrape(&cluster).await;
        assert_eq!(value_of(&samples, "workload_creation_duration_seconds_count"), 1.0);
        let took = value_of(&samples, "workload_creation_duration_seconds_sum");
        assert!((5.0..6.1).contains(&took), "{took}");
    });
}

#[test]
fn jobs_of_external_controllers_are_counted_by_controller() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&job("theirs").spec("managedBy", "example.com/other").build()).await;
        cluster.create(&job("ours").build()).await;
        wait_until_ended(&cluster, &["ours"]).await;
        let samples = scrape(&cluster).await;
        let others = "job_controller_jobs_by_external_controller_total";
        let all: Vec<_> = samples_of(&samples, others).collect();
        assert_eq!(all, [("{controller_name=\"example.com/other\"}", 1.0)]);
    });
}

#[test]
fn cron_job_start_skew_and_ttl_deletion_delay_are_measured() {
    on_paused_clock(async {
        let mut cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        let template = json!({"spec": job("unnamed").spec("ttlSecondsAfterFinished", 100).build()["spec"]});
        let cron_job = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
            "spec": {"schedule": "0 * * * *", "jobTemplate": template},
        });
        cluster.create(&cron_job).await;
        cluster.advance(MINUTE * 60 - SECOND).await;
        cluster.stop_component(Component::Controllers);
        cluster.advance(SECOND * 31).await;
        cluster.start_component(Component::Controllers);
        let is_complete = |cluster: &TestCluster| {
            cluster.cache::<JobView>().all().iter().any(|job| job.status.completion_time.is_some()).then_some(())
        };
        cluster.eventually("its Job finishes", MINUTE, is_complete).await;
        cluster.stop_component(Component::Controllers);
        cluster.advance(SECOND * 300).await;
        cluster.start_component(Component::Controllers);
        cluster.advance(SECOND * 20).await;
        let samples = scrape(&cluster).await;
        let (skew, deletion) = (
            "cronjob_controller_job_creation_skew_duration_seconds",
            "ttl_after_finished_controller_job_deletion_duration_seconds",
        );
        for (metric, min) in [(skew, 30.0), (deletion, 198.0)] {
            assert_eq!(value_of(&samples, &format!("{metric}_count")), 1.0, "{metric}");
            let took = value_of(&samples, &format!("{metric}_sum"));
            assert!((min..min + 4.0).contains(&took), "{metric}: {took}");
        }
    });
}

#[test]
fn garbage_collected_pods_are_counted_by_namespace_and_reason() {
    on_paused_clock(async {
        let mut config = Config::for_cluster(Cluster::default_of(1));
        config.pod_gc.terminated_pod_threshold = 1;
        let cluster = TestCluster::with_config(3, config).await;
        for name in ["a", "b", "c"] {
            cluster.create(&pod(name).annotate("phalanx.dev/run-seconds", "1").build()).await;
        }
        cluster
            .eventually("two are deleted", 5 * MINUTE, |cluster| (cluster.cache::<PodView>().len() == 1).then_some(()))
            .await;
        let samples = scrape(&cluster).await;
        let all: Vec<_> = samples_of(&samples, "pod_gc_collector_force_delete_pods_total").collect();
        assert_eq!(all, [("{namespace=\"default\",reason=\"terminated\"}", 2.0)]);
        assert_eq!(samples_of(&samples, "pod_gc_collector_force_delete_pod_errors_total").count(), 0);
    });
}

#[test]
fn every_controller_reports_work_queue_metrics() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&job("j").spec("ttlSecondsAfterFinished", 0).build()).await;
        let created = |cluster: &TestCluster| {
            cluster.history().iter().filter(|it| it.created && it.resource == "batch/jobs").count()
        };
        let is_deleted =
            |cluster: &TestCluster| (cluster.cache::<JobView>().is_empty() && created(cluster) == 1).then_some(());
        cluster.eventually("the Job finished and is deleted", 5 * MINUTE, is_deleted).await;
        cluster.advance(MINUTE).await;
        let samples = scrape(&cluster).await;
        let depths: BTreeMap<_, _> = samples_of(&samples, "workqueue_depth").collect();
        assert!(depths.values().all(|depth| *depth == 0.0), "{depths:?}");
        // Those of upstream's controllers have upstream's names.
        for name in [
            "cronjob",
            "disruption",
            "garbage_collector_attempt_to_delete",
            "job",
            "namespace",
            "orphaned_pods_nodes",
            "podgroupprotection",
            "ttl_jobs_to_delete",
        ] {
            assert!(depths.contains_key(&*format!("{{name=\"{name}\"}}")), "{name} among {depths:?}");
        }
        for name in ["job", "ttl_jobs_to_delete", "garbage_collector_attempt_to_delete"] {
            let added = value_of(&samples, &format!("workqueue_adds_total{{name=\"{name}\"}}"));
            let worked = value_of(&samples, &format!("workqueue_work_duration_seconds_count{{name=\"{name}\"}}"));
            assert!(added >= 1.0 && added == worked, "{name}: {added} added, {worked} processed");
        }
    });
}
