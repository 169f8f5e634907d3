//! What the Job controller costs the server: requests for pods that are refused, writes of status for pods that end.

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

/// Jobs that say nothing about scheduling get plain pods.
async fn test_cluster_without_groups(nodes: u32) -> TestCluster {
    let mut config = Config::for_cluster(Cluster::default_of(nodes));
    config.job.plain_jobs = PlainJobs::None;
    TestCluster::with_config(7, config).await
}

// Decision 0005: while no pod of a Job was ever accepted, the first one goes ahead.
#[test]
fn a_refused_pod_template_costs_one_request_for_each_retry() {
    on_paused_clock(async {
        let home = test_cluster_without_groups(1).await;
        let creates = home.inject_fault(FaultRule::on(
            verb(Verb::Create).on_resource("pods").by_user("job-controller"),
            Fault::Count,
        ));
        let unknown = job("refused").pods(400).pod_spec("priorityClassName", "nobody-made-it").build();
        home.create(&unknown).await;
        home.wait_for_event("FailedCreate", "refused").await;
        home.advance(MINUTE).await;
        let tries = home.faults().counts(creates).applied;
        // After 1, 2, 4, 8, 16 and 32 seconds.
        assert_eq!(tries, 6, "one request for each try");
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "nobody-made-it"}, "value": 5,
        });
        home.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.unwrap();
        home.eventually("all pods are there", 2 * MINUTE, |home| (home.pods().len() == 400).then_some(())).await;
        assert_eq!(home.faults().counts(creates).applied - tries, 400, "nothing was sent twice");
    });
}

#[test]
fn five_hundred_finished_pods_are_counted_in_few_writes() {
    on_paused_clock(async {
        let home = test_cluster_without_groups(100).await;
        let of_status = FaultRule::on(
            writes().by_user("job-controller").on_resource("batch/jobs").on_subresource("status"),
            Fault::Count,
        );
        let status = home.inject_fault(of_status);
        home.create(&job("many").pods(500).build()).await;
        let (job, condition) = home.wait_until_ended("many", 10 * MINUTE).await;
        assert_eq!(condition.kind, "Complete");
        assert_eq!((job.status.succeeded, job.status.failed), (500, 0));
        let writes = home.faults().counts(status).applied;
        assert!(writes <= 12, "{writes} writes of status for one Job");
    });
}

// Shows: U-TestParallelJobWithCompletions
#[test]
fn a_job_counts_exactly_when_one_sync_handles_few_pods() {
    on_paused_clock(async {
        let mut config = Config::for_cluster(Cluster::default_of(10));
        (config.job.max_pods_per_sync, config.job.max_uncounted_pods) = (10, 7);
        let home = TestCluster::with_config(7, config).await;
        home.create(&job("many").pods(54).spec("completions", 56).build()).await;
        let (job, condition) = home.wait_until_ended("many", 10 * MINUTE).await;
        assert_eq!(condition.kind, "Complete");
        assert_eq!((home.created_count("pods"), job.status.succeeded, job.status.failed), (56, 56, 0));
        let uncounted = |change: &RecordedWrite| {
            let uids = &change.object["status"]["uncountedTerminatedPods"];
            ["succeeded", "failed"].map(|end| uids[end].as_array().map_or(0, Vec::len)).iter().sum::<usize>()
        };
        let most = home.history().iter().filter(|change| change.resource == "batch/jobs").map(uncounted).max();
        assert_eq!(most, Some(7), "as many as may be, and no more");
    });
}

// It runs, it has succeeded and its pod may go, it is complete.
#[test]
fn a_job_of_one_pod_takes_three_status_writes() {
    on_paused_clock(async {
        let home = test_cluster_without_groups(1).await;
        let of_status = FaultRule::on(
            writes().by_user("job-controller").on_resource("batch/jobs").on_subresource("status"),
            Fault::Count,
        );
        let status = home.inject_fault(of_status);
        home.create(&job("one").annotate("phalanx.dev/run-seconds", "0").build()).await;
        home.wait_until_ended("one", MINUTE).await;
        home.advance(MINUTE).await;
        assert_eq!(home.faults().counts(status).applied, 3);
    });
}

// An Indexed Job says in one text which indexes are done; nothing has to be counted one by one.
#[test]
fn an_indexed_job_takes_even_fewer_status_writes() {
    on_paused_clock(async {
        let home = test_cluster_without_groups(100).await;
        let of_status = FaultRule::on(
            writes().by_user("job-controller").on_resource("batch/jobs").on_subresource("status"),
            Fault::Count,
        );
        let status = home.inject_fault(of_status);
        home.create(&job("many").pods(500).indexed().build()).await;
        let (job, _) = home.wait_until_ended("many", 10 * MINUTE).await;
        assert!(Condition::is_true(&job.status.conditions, "Complete"));
        assert_eq!(job.status.completed_indexes, "0-499");
        let writes = home.faults().counts(status).applied;
        assert!(writes <= 8, "{writes} writes of status for one Job");
    });
}

// A Job whose pods come and go all the time: there is always one missing and always one that has just ended.
#[test]
fn finished_pods_are_counted_while_others_are_created() {
    on_paused_clock(async {
        let home = test_cluster_without_groups(100).await;
        let by_job = || writes().by_user("job-controller");
        let status =
            home.inject_fault(FaultRule::on(by_job().on_resource("batch/jobs").on_subresource("status"), Fault::Count));
        // Each write takes its time, and no two pods come at once.
        for (every, millis) in [(1, 20), (2, 70), (3, 110), (5, 170), (7, 230)] {
            home.inject_fault(FaultRule::on(by_job(), Fault::Delay(Duration::from_millis(millis))).every_nth(every));
        }
        home.create(&job("busy").spec("completions", 1000).spec("parallelism", 50).build()).await;
        home.wait_until_ended("busy", 10 * MINUTE).await;
        let (mut succeeded, mut held, mut counted) = (BTreeSet::new(), BTreeSet::new(), 0);
        for change in home.history() {
            let name = change.name().to_owned();
            if change.resource == "batch/jobs" {
                counted = change.object["status"]["succeeded"].as_u64().unwrap_or(0) as usize;
            } else if change.resource == "pods" && change.object["status"]["phase"] == "Succeeded" {
                let is_held = !change.deleted && change.object["metadata"]["finalizers"].is_array();
                if is_held {
                    held.insert(name.clone())
                } else {
                    held.remove(&name)
                };
                succeeded.insert(name);
            }
            assert!(held.len() <= 100, "{} pods have ended and are held", held.len());
            assert!(succeeded.len() - counted <= 100, "{counted} of {} counted", succeeded.len());
        }
        let writes = home.faults().counts(status).applied;
        assert!(writes <= 50, "{writes} writes of status for one Job");
    });
}

// The pod was there, the cache had come further, and nobody ever told it: the Job made another in its place.
#[test]
fn a_pod_whose_event_is_lost_or_late_is_not_created_twice() {
    for fault in [EventFault::Drop, EventFault::Postpone(Duration::from_secs(20))] {
        for nth in 1..=3 {
            on_paused_clock(async {
                let case = format!("{fault:?} at event {nth} of pods");
                let home = test_cluster_without_groups(1).await;
                let lost = home.inject_fault(FaultRule::on_events(events_of("pods"), fault).nth(nth));
                home.create(&job("three").pods(3).spec("completions", 5).build()).await;
                let (job, _) = home.wait_until_ended("three", MINUTE).await;
                assert_eq!(home.faults().counts(lost).applied, 1, "{case}");
                assert_eq!((home.created_count("pods"), job.status.succeeded, job.status.failed), (5, 5, 0), "{case}");
            });
        }
    }
}

// The answer is lost, and so for a while is the event: what there is, the server has to be asked.
#[test]
fn a_pod_whose_create_got_no_response_is_not_created_twice() {
    for nth in 1..=3 {
        on_paused_clock(async {
            let case = format!("no answer to create {nth}");
            let home = test_cluster_without_groups(1).await;
            let creates = verb(Verb::Create).on_resource("pods").by_user("job-controller");
            let cut = home.inject_fault(FaultRule::on(creates, Fault::CutResponse).nth(nth));
            home.inject_fault(
                FaultRule::on_events(events_of("pods"), EventFault::Delay(Duration::from_secs(30))).nth(1),
            );
            home.create(&job("three").pods(3).spec("completions", 5).build()).await;
            let (job, _) = home.wait_until_ended("three", 2 * MINUTE).await;
            assert_eq!(home.faults().counts(cut).applied, 1, "{case}");
            assert_eq!((home.created_count("pods"), job.status.succeeded, job.status.failed), (5, 5, 0), "{case}");
        });
    }
}
