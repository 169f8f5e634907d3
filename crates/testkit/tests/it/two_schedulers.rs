//! Two schedulers bind to the same capacity (promise 3): our server refuses the second bind. On a server that does not
//! check binds, the pod that was bound last is released within 30 seconds.

use std::sync::Arc;
use std::time::Duration;

use api::views::PodView;
use api::{Random, Timestamp};
use controlplane::{Component, Config, Health, RemoteComponents};
use nodes::cluster::Cluster;
use runtime::TokioClock;
use serde_json::Value;
use testkit::fault::{Fault, FaultRule, writes};
use testkit::{RecordedWrite, TestCluster, job, on_paused_clock, on_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);
const THIRTY_SECONDS: Duration = Duration::from_secs(30);
/// How long a bind of the first scheduler is in flight.
const BIND_DELAY: Duration = Duration::from_secs(10);
const SECOND_SCHEDULER: &str = "second";

/// A second scheduler, like `phalanx scheduler --scheduler-name second`.
async fn second_scheduler(cluster: &TestCluster) -> RemoteComponents {
    let mut config = Config { components: [Component::Scheduler].into(), ..Config::for_cluster(Cluster::default()) };
    config.scheduler.core.profiles[0].scheduler_name = SECOND_SCHEDULER.to_owned();
    let clock = Arc::new(TokioClock::starting_at(cluster.now()));
    RemoteComponents::start(clock, Random::seeded(2), cluster.client(), Health::default(), config).await
}

fn bound_pod(cluster: &TestCluster, job: &str) -> Option<Arc<PodView>> {
    cluster.pods_of(job).into_iter().find(|pod| pod.node_name().is_some())
}

/// A bind of the first scheduler is in flight while the second one binds another pod to the same node. The backoff
/// limit is 0, so a released pod must not count as a failure.
async fn start_bind_race(cluster: &TestCluster) -> RemoteComponents {
    let second = second_scheduler(cluster).await;
    let late = cluster.inject_fault(
        FaultRule::on(writes().on_resource("pods").on_subresource("binding"), Fault::Delay(BIND_DELAY)).first_n(1),
    );
    let whole_node = |name: &str| job(name).pods(1).gpus(8).spec("backoffLimit", 0);
    cluster.create(&whole_node("late").annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(300)).build()).await;
    cluster
        .eventually("its bind is in flight", MINUTE, |cluster| {
            (cluster.faults().counts(late).applied == 1).then_some(())
        })
        .await;
    let early = whole_node("early").pod_spec("schedulerName", SECOND_SCHEDULER);
    cluster.create(&early.annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(600)).build()).await;
    cluster.eventually("the other pod is bound", MINUTE, |cluster| bound_pod(cluster, "early")).await;
    assert!(bound_pod(cluster, "late").is_none(), "the second scheduler was too slow, so the race did not happen");
    second
}

/// Both Jobs complete, one after the other.
async fn wait_until_both_complete(cluster: &TestCluster) {
    for name in ["early", "late"] {
        let (job, condition) = cluster.wait_until_ended(name, 30 * MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.failed), ("Complete", 0), "{name}: {}", condition.message);
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind && one["status"] == "True")
}

/// When the condition became True on a pod of the Job.
fn condition_since(history: &[RecordedWrite], job: &str, kind: &str) -> Option<Timestamp> {
    let of_job = |change: &&RecordedWrite| change.resource == "pods" && change.name().starts_with(&format!("{job}-"));
    let found = history.iter().filter(of_job).find_map(|change| condition(&change.object, kind))?;
    Some(found["lastTransitionTime"].as_str()?.parse().unwrap())
}

/// The late pod is released by a scheduler whose server does not check binds.
async fn check_late_bind_is_released(cluster: &TestCluster) {
    cluster
        .eventually("the late pod is marked and deleted", 2 * BIND_DELAY + MINUTE, |cluster| {
            let history = cluster.history();
            let marked = condition_since(&history, "late", "DisruptionTarget")?;
            let bound = condition_since(&history, "late", "PodScheduled").expect("it was bound before");
            let took = marked.duration_since(bound).unsigned_abs();
            assert!(took <= THIRTY_SECONDS, "the node was over-committed for {took:?}");
            cluster
                .pods_of("late")
                .iter()
                .all(|pod| pod.node_name().is_none() || pod.metadata.is_deleting())
                .then_some(())
        })
        .await;
    assert_eq!(
        condition_since(&cluster.history(), "early", "DisruptionTarget"),
        None,
        "the pod that was bound first stays"
    );
    let pod = cluster
        .history()
        .into_iter()
        .find(|change| change.name().starts_with("late-") && condition(&change.object, "DisruptionTarget").is_some());
    let message = cluster.wait_for_event("OvercommitReleased", pod.unwrap().name()).await.expect("the scheduler runs");
    assert!(message.contains(" has 8 nvidia.com/gpu, and its pods request 16"), "{message}");
}

#[test]
fn one_of_two_schedulers_gets_contended_capacity() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        let _second = start_bind_race(&cluster).await;
        if cluster.checks_binds() {
            // The server refused the bind: the pod was never on the node.
            cluster.advance(BIND_DELAY + THIRTY_SECONDS).await;
            assert_eq!(condition_since(&cluster.history(), "late", "PodScheduled"), None);
            let pod = cluster.pods_of("late").remove(0).metadata.name.to_string();
            let refused = cluster.events(&pod).into_iter().any(|(_, message)| {
                message.starts_with("binding rejected: ")
                    && message.contains("insufficient nvidia.com/gpu: 0 free, 8 requested")
            });
            assert!(refused, "{:?}", cluster.events(&pod));
        } else {
            check_late_bind_is_released(&cluster).await;
        }
        wait_until_both_complete(&cluster).await;
    });
}

#[test]
fn without_bind_checks_the_pod_bound_last_is_released() {
    on_paused_clock(async {
        let config = Config { check_capacity: false, ..Config::for_cluster(Cluster::default_of(1)) };
        let cluster = TestCluster::with_config(3, config).await;
        let _second = start_bind_race(&cluster).await;
        check_late_bind_is_released(&cluster).await;
        wait_until_both_complete(&cluster).await;
    });
}

#[test]
fn of_two_overcommitted_gangs_one_stays_whole_and_the_other_is_released() {
    on_paused_clock(async {
        let config = Config { check_capacity: false, ..Config::for_cluster(Cluster::default_of(1)) };
        let cluster = TestCluster::with_config(5, config).await;
        let _second = second_scheduler(&cluster).await;
        let late = cluster.inject_fault(
            FaultRule::on(writes().on_resource("pods").on_subresource("binding"), Fault::Delay(BIND_DELAY)).first_n(8),
        );
        let gang = |name: &str| job(name).pods(8).indexed().gang().gpus(1).spec("backoffLimit", 0);
        cluster.create(&gang("late").annotate("phalanx.dev/run-seconds", "300").build()).await;
        cluster
            .eventually("its binds are in flight", MINUTE, |cluster| {
                (cluster.faults().counts(late).applied == 8).then_some(())
            })
            .await;
        let early = gang("early").pod_spec("schedulerName", SECOND_SCHEDULER);
        cluster.create(&early.annotate("phalanx.dev/run-seconds", "600").build()).await;
        let placed = |cluster: &TestCluster, job: &str| {
            let on_node = |pod: &&Arc<PodView>| pod.node_name().is_some() && !pod.metadata.is_deleting();
            cluster.pods_of(job).iter().filter(on_node).count()
        };
        cluster
            .eventually("both are bound", MINUTE, |cluster| {
                (placed(cluster, "early") == 8 && placed(cluster, "late") == 8).then_some(())
            })
            .await;
        cluster
            .eventually("one of them is released", THIRTY_SECONDS, |cluster| {
                (placed(cluster, "late") == 0).then_some(())
            })
            .await;
        assert_eq!(placed(&cluster, "early"), 8);
        wait_until_both_complete(&cluster).await;
    });
}
