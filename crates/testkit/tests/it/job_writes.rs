//! The number of requests of the Job controller: for pods that are refused, and for statuses of Jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use api::views::Condition;
use controllers::job::PlainJobs;
use controlplane::Config;
use nodes::cluster::Cluster;
use serde_json::json;
use testkit::fault::{EventFault, Fault, FaultRule, Verb, events_of, verb, writes};
use testkit::{RecordedWrite, TestCluster, job, on_paused_clock};

const MINUTE: Duration = Duration::from_secs(60);

/// A test cluster where Jobs without scheduling fields get plain pods.
async fn test_cluster_without_groups(nodes: u32) -> TestCluster {
    let mut config = Config::for_cluster(Cluster::default_of(nodes));
    config.job.plain_jobs = PlainJobs::None;
    TestCluster::with_config(7, config).await
}

// Decision 0005: until a pod of a Job is accepted, only one create is sent at a time.
#[test]
fn a_refused_pod_template_costs_one_request_for_each_retry() {
    on_paused_clock(async {
        let cluster = test_cluster_without_groups(1).await;
        let creates = cluster.inject_fault(FaultRule::on(
            verb(Verb::Create).on_resource("pods").by_user("job-controller"),
            Fault::Count,
        ));
        let unknown = job("refused").pods(400).pod_spec("priorityClassName", "missing-class").build();
        cluster.create(&unknown).await;
        cluster.wait_for_event("FailedCreate", "refused").await;
        cluster.advance(MINUTE).await;
        let tries = cluster.faults().counts(creates).applied;
        // The retries are after 1, 2, 4, 8, 16 and 32 seconds.
        assert_eq!(tries, 6, "one request for each try");
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "missing-class"}, "value": 5,
        });
        cluster.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.unwrap();
        cluster.eventually("all pods exist", 2 * MINUTE, |cluster| (cluster.pods().len() == 400).then_some(())).await;
        assert_eq!(cluster.faults().counts(creates).applied - tries, 400, "no create was sent twice");
    });
}

#[test]
fn five_hundred_finished_pods_are_counted_in_few_writes() {
    on_paused_clock(async {
        let cluster = test_cluster_without_groups(100).await;
        let of_status = FaultRule::on(
            writes().by_user("job-controller").on_resource("batch/jobs").on_subresource("status"),
            Fault::Count,
        );
        let status = cluster.inject_fault(of_status);
        cluster.create(&job("many").pods(500).build()).await;
        let (job, condition) = cluster.wait_until_ended("many", 10 * MINUTE).await;
        assert_eq!(condition.kind, "Complete");
        assert_eq!((job.status.succeeded, job.status.failed), (500, 0));
        let writes = cluster.faults().counts(status).applied;
        assert!(writes <= 12, "{writes} writes of status for one Job");
    });
}

// Shows: U-TestParallelJobWithCompletions
#[test]
fn a_job_counts_exactly_when_one_sync_handles_few_pods() {
    on_paused_clock(async {
        let mut config = Config::for_cluster(Cluster::default_of(10));
        (config.job.max_pods_per_sync, config.job.max_uncounted_pods) = (10, 7);
        let cluster = TestCluster::with_config(7, config).await;
        cluster.create(&job("many").pods(54).spec("completions", 56).build()).await;
        let (job, condition) = cluster.wait_until_ended("many", 10 * MINUTE).await;
        assert_eq!(condition.kind, "Complete");
        assert_eq!((cluster.created_count("pods"), job.status.succeeded, job.status.failed), (56, 56, 0));
        let uncounted = |change: &RecordedWrite| {
            let uids = &change.object["status"]["uncountedTerminatedPods"];
            ["succeeded", "failed"].map(|end| uids[end].as_array().map_or(0, Vec::len)).iter().sum::<usize>()
        };
        let max_uncounted =
            cluster.history().iter().filter(|change| change.resource == "batch/jobs").map(uncounted).max();
        assert_eq!(max_uncounted, Some(7), "the limit is reached and not exceeded");
    });
}

// The pod runs; the pod has succeeded and its finalizer may be removed; the Job is complete.
#[test]
fn a_job_of_one_pod_takes_three_status_writes() {
    on_paused_clock(async {
        let cluster = test_cluster_without_groups(1).await;
        let of_status = FaultRule::on(
            writes().by_user("job-controller").on_resource("batch/jobs").on_subresource("status"),
            Fault::Count,
        );
        let status = cluster.inject_fault(of_status);
        cluster.create(&job("one").annotate("phalanx.dev/run-seconds", "0").build()).await;
        cluster.wait_until_ended("one", MINUTE).await;
        cluster.advance(MINUTE).await;
        assert_eq!(cluster.faults().counts(status).applied, 3);
    });
}

// An Indexed Job has its completed indexes in one string; its pods are not counted one by one.
#[test]
fn an_indexed_job_takes_even_fewer_status_writes() {
    on_paused_clock(async {
        let cluster = test_cluster_without_groups(100).await;
        let of_status = FaultRule::on(
            writes().by_user("job-controller").on_resource("batch/jobs").on_subresource("status"),
            Fault::Count,
        );
        let status = cluster.inject_fault(of_status);
        cluster.create(&job("many").pods(500).indexed().build()).await;
        let (job, _) = cluster.wait_until_ended("many", 10 * MINUTE).await;
        assert!(Condition::is_true(&job.status.conditions, "Complete"));
        assert_eq!(job.status.completed_indexes, "0-499");
        let writes = cluster.faults().counts(status).applied;
        assert!(writes <= 8, "{writes} writes of status for one Job");
    });
}

// A Job whose pods are created and finish continuously: one is always missing, and one has always just finished.
#[test]
fn finished_pods_are_counted_while_others_are_created() {
    on_paused_clock(async {
        let cluster = test_cluster_without_groups(100).await;
        let by_job = || writes().by_user("job-controller");
        let status = cluster
            .inject_fault(FaultRule::on(by_job().on_resource("batch/jobs").on_subresource("status"), Fault::Count));
        // Every write is delayed, and no two pods are created at the same time.
        for (every, millis) in [(1, 20), (2, 70), (3, 110), (5, 170), (7, 230)] {
            cluster.inject_fault(FaultRule::on(by_job(), Fault::Delay(Duration::from_millis(millis))).every_nth(every));
        }
        cluster.create(&job("busy").spec("completions", 1000).spec("parallelism", 50).build()).await;
        cluster.wait_until_ended("busy", 10 * MINUTE).await;
        let (mut succeeded, mut with_finalizer, mut counted) = (BTreeSet::new(), BTreeSet::new(), 0);
        for change in cluster.history() {
            let name = change.name().to_owned();
            if change.resource == "batch/jobs" {
                counted = change.object["status"]["succeeded"].as_u64().unwrap_or(0) as usize;
            } else if change.resource == "pods" && change.object["status"]["phase"] == "Succeeded" {
                let has_finalizer = !change.deleted && change.object["metadata"]["finalizers"].is_array();
                if has_finalizer {
                    with_finalizer.insert(name.clone())
                } else {
                    with_finalizer.remove(&name)
                };
                succeeded.insert(name);
            }
            assert!(with_finalizer.len() <= 100, "{} finished pods have finalizers", with_finalizer.len());
            assert!(succeeded.len() - counted <= 100, "{counted} of {} counted", succeeded.len());
        }
        let writes = cluster.faults().counts(status).applied;
        assert!(writes <= 50, "{writes} writes of status for one Job");
    });
}

// Observed: the pod existed, the cache had passed its revision without it, and the Job created another one.
#[test]
fn a_pod_whose_event_is_lost_or_late_is_not_created_twice() {
    for fault in [EventFault::Drop, EventFault::Postpone(Duration::from_secs(20))] {
        for nth in 1..=3 {
            on_paused_clock(async {
                let case = format!("{fault:?} at event {nth} of pods");
                let cluster = test_cluster_without_groups(1).await;
                let lost = cluster.inject_fault(FaultRule::on_events(events_of("pods"), fault).nth(nth));
                cluster.create(&job("three").pods(3).spec("completions", 5).build()).await;
                let (job, _) = cluster.wait_until_ended("three", MINUTE).await;
                assert_eq!(cluster.faults().counts(lost).applied, 1, "{case}");
                assert_eq!(
                    (cluster.created_count("pods"), job.status.succeeded, job.status.failed),
                    (5, 5, 0),
                    "{case}"
                );
            });
        }
    }
}

// The response is lost and the event is late, so the controller has to list the pods.
#[test]
fn a_pod_whose_create_got_no_response_is_not_created_twice() {
    for nth in 1..=3 {
        on_paused_clock(async {
            let case = format!("no response to create {nth}");
            let cluster = test_cluster_without_groups(1).await;
            let creates = verb(Verb::Create).on_resource("pods").by_user("job-controller");
            let cut = cluster.inject_fault(FaultRule::on(creates, Fault::CutResponse).nth(nth));
            cluster.inject_fault(
                FaultRule::on_events(events_of("pods"), EventFault::Delay(Duration::from_secs(30))).nth(1),
            );
            cluster.create(&job("three").pods(3).spec("completions", 5).build()).await;
            let (job, _) = cluster.wait_until_ended("three", 2 * MINUTE).await;
            assert_eq!(cluster.faults().counts(cut).applied, 1, "{case}");
            assert_eq!((cluster.created_count("pods"), job.status.succeeded, job.status.failed), (5, 5, 0), "{case}");
        });
    }
}
