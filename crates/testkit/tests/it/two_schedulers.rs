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
async fn second_scheduler(home: &TestCluster) -> RemoteComponents {
    let mut config = Config { components: [Component::Scheduler].into(), ..Config::for_cluster(Cluster::default()) };
    config.scheduler.core.profiles[0].scheduler_name = SECOND_SCHEDULER.to_owned();
    let clock = Arc::new(TokioClock::starting_at(home.now()));
    RemoteComponents::start(clock, Random::seeded(2), home.client(), Health::default(), config).await
}

fn bound_pod(home: &TestCluster, job: &str) -> Option<Arc<PodView>> {
    home.pods_of(job).into_iter().find(|pod| pod.node_name().is_some())
}

/// A bind of the first scheduler is in flight while the second one binds another pod to the same node. The backoff limit
/// is 0, so a released pod must not count as a failure.
async fn start_bind_race(home: &TestCluster) -> RemoteComponents {
    let second = second_scheduler(home).await;
    let late = home.inject_fault(
        FaultRule::on(writes().on_resource("pods").on_subresource("binding"), Fault::Delay(BIND_DELAY)).first_n(1),
    );
    let whole_node = |name: &str| job(name).pods(1).gpus(8).spec("backoffLimit", 0);
    home.create(&whole_node("late").annotate("phalanx.dev/run-seconds", &home.scaled_seconds(300)).build()).await;
    home.eventually("its bind is in flight", MINUTE, |home| (home.faults().counts(late).applied == 1).then_some(()))
        .await;
    let early = whole_node("early").pod_spec("schedulerName", SECOND_SCHEDULER);
    home.create(&early.annotate("phalanx.dev/run-seconds", &home.scaled_seconds(600)).build()).await;
    home.eventually("the other pod is bound", MINUTE, |home| bound_pod(home, "early")).await;
    assert!(bound_pod(home, "late").is_none(), "the second scheduler was too slow, so the race did not happen");
    second
}

/// Both Jobs complete, one after the other.
async fn wait_until_both_complete(home: &TestCluster) {
    for name in ["early", "late"] {
        let (job, condition) = home.wait_until_ended(name, 30 * MINUTE).await;
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
async fn check_late_bind_is_released(home: &TestCluster) {
    home.eventually("the late pod is marked and deleted", 2 * BIND_DELAY + MINUTE, |home| {
        let history = home.history();
        let marked = condition_since(&history, "late", "DisruptionTarget")?;
        let bound = condition_since(&history, "late", "PodScheduled").expect("it was bound before");
        let took = marked.duration_since(bound).unsigned_abs();
        assert!(took <= THIRTY_SECONDS, "the node was over-committed for {took:?}");
        home.pods_of("late").iter().all(|pod| pod.node_name().is_none() || pod.metadata.is_deleting()).then_some(())
    })
    .await;
    assert_eq!(condition_since(&home.history(), "early", "DisruptionTarget"), None, "the pod that was bound first stays");
    let pod = home
        .history()
        .into_iter()
        .find(|change| change.name().starts_with("late-") && condition(&change.object, "DisruptionTarget").is_some());
    let message = home.wait_for_event("OvercommitReleased", pod.unwrap().name()).await.expect("the scheduler runs");
    assert!(message.contains(" has 8 nvidia.com/gpu, and its pods request 16"), "{message}");
}

#[test]
fn one_of_two_schedulers_gets_contended_capacity() {
    on_test_cluster(async {
        let home = TestCluster::start(3, 1).await;
        let _second = start_bind_race(&home).await;
        if home.checks_binds() {
            // The server refused the bind: the pod was never on the node.
            home.advance(BIND_DELAY + THIRTY_SECONDS).await;
            assert_eq!(condition_since(&home.history(), "late", "PodScheduled"), None);
            let pod = home.pods_of("late").remove(0).metadata.name.to_string();
            let refused = home.events(&pod).into_iter().any(|(_, message)| {
                message.starts_with("binding rejected: ")
                    && message.contains("insufficient nvidia.com/gpu: 0 free, 8 asked for")
            });
            assert!(refused, "{:?}", home.events(&pod));
        } else {
            check_late_bind_is_released(&home).await;
        }
        wait_until_both_complete(&home).await;
    });
}

#[test]
fn without_bind_checks_the_pod_bound_last_is_released() {
    on_paused_clock(async {
        let config = Config { check_capacity: false, ..Config::for_cluster(Cluster::default_of(1)) };
        let home = TestCluster::with_config(3, config).await;
        let _second = start_bind_race(&home).await;
        check_late_bind_is_released(&home).await;
        wait_until_both_complete(&home).await;
    });
}

#[test]
fn of_two_overcommitted_gangs_one_stays_whole_and_the_other_is_released() {
    on_paused_clock(async {
        let config = Config { check_capacity: false, ..Config::for_cluster(Cluster::default_of(1)) };
        let home = TestCluster::with_config(5, config).await;
        let _second = second_scheduler(&home).await;
        let late = home.inject_fault(
            FaultRule::on(writes().on_resource("pods").on_subresource("binding"), Fault::Delay(BIND_DELAY)).first_n(8),
        );
        let gang = |name: &str| job(name).pods(8).indexed().gang().gpus(1).spec("backoffLimit", 0);
        home.create(&gang("late").annotate("phalanx.dev/run-seconds", "300").build()).await;
        home.eventually("its binds are in flight", MINUTE, |home| {
            (home.faults().counts(late).applied == 8).then_some(())
        })
        .await;
        let early = gang("early").pod_spec("schedulerName", SECOND_SCHEDULER);
        home.create(&early.annotate("phalanx.dev/run-seconds", "600").build()).await;
        let placed = |home: &TestCluster, job: &str| {
            let on_node = |pod: &&Arc<PodView>| pod.node_name().is_some() && !pod.metadata.is_deleting();
            home.pods_of(job).iter().filter(on_node).count()
        };
        home.eventually("both are bound", MINUTE, |home| {
            (placed(home, "early") == 8 && placed(home, "late") == 8).then_some(())
        })
        .await;
        home.eventually("one of them is released", THIRTY_SECONDS, |home| (placed(home, "late") == 0).then_some(()))
            .await;
        assert_eq!(placed(&home, "early"), 8);
        wait_until_both_complete(&home).await;
    });
}
