//! Two schedulers give away the same room (promise 3): on our server the second bind is refused, on a server that looks at
//! no bind the pod that was bound last makes way within 30 seconds.

use std::sync::Arc;
use std::time::Duration;

use api::views::PodView;
use api::{Random, Timestamp};
use controlplane::{Config, Health, OnCluster, Part};
use nodes::cluster::Cluster;
use runtime::TokioClock;
use serde_json::Value;
use simulator::on_virtual_time;
use testkit::fault::{Fault, Rule, writes};
use testkit::{Change, Home, job, on_home};

const MINUTE: Duration = Duration::from_secs(60);
const THIRTY_SECONDS: Duration = Duration::from_secs(30);
/// How long a bind of the first scheduler is on its way.
const LATE: Duration = Duration::from_secs(10);
const SECOND: &str = "second";

/// One more scheduler, as `phalanx scheduler --scheduler-name second` is.
async fn second_scheduler(home: &Home) -> OnCluster {
    let mut config = Config { parts: [Part::Scheduler].into(), ..Config::on(Cluster::default()) };
    config.scheduler.core.profiles[0].scheduler_name = SECOND.to_owned();
    let clock = Arc::new(TokioClock::starting_at(home.now()));
    OnCluster::start(clock, Random::seeded(2), home.client(), Health::default(), config).await
}

fn bound(home: &Home, job: &str) -> Option<Arc<PodView>> {
    home.pods_of(job).into_iter().find(|pod| pod.node_name().is_some())
}

/// A bind of the first scheduler is on its way while the second one gives the same node to somebody else. No failure may
/// count: whoever loses a pod that was released has lost the Job.
async fn both_want_one_node(home: &Home) -> OnCluster {
    let second = second_scheduler(home).await;
    let late = home.fault(Rule::on(writes().of("pods").at("binding"), Fault::Delay(LATE)).first(1));
    let whole_node = |name: &str| job(name).pods(1).gpus(8).spec("backoffLimit", 0);
    home.create(&whole_node("late").annotate("phalanx.dev/run-seconds", &home.seconds(300)).build()).await;
    home.eventually("its bind is on its way", MINUTE, |home| (home.faults().counts(late).done == 1).then_some(()))
        .await;
    let early = whole_node("early").pod_spec("schedulerName", SECOND);
    home.create(&early.annotate("phalanx.dev/run-seconds", &home.seconds(600)).build()).await;
    home.eventually("the other is bound", MINUTE, |home| bound(home, "early")).await;
    assert!(bound(home, "late").is_none(), "the other was too slow, and nothing is shown");
    second
}

/// Both Jobs have their pod in the end, one after the other.
async fn both_complete(home: &Home) {
    for name in ["early", "late"] {
        let (job, condition) = home.ended(name, 30 * MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.failed), ("Complete", 0), "{name}: {}", condition.message);
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind && one["status"] == "True")
}

/// When the condition became True on a pod of the Job.
fn since(history: &[Change], job: &str, kind: &str) -> Option<Timestamp> {
    let of_job = |change: &&Change| change.resource == "pods" && change.name().starts_with(&format!("{job}-"));
    let found = history.iter().filter(of_job).find_map(|change| condition(&change.object, kind))?;
    Some(found["lastTransitionTime"].as_str()?.parse().unwrap())
}

/// What becomes of it where the server looks at no bind.
async fn the_late_one_makes_way(home: &Home) {
    home.eventually("the late one is marked and goes", 2 * LATE + MINUTE, |home| {
        let history = home.history();
        let marked = since(&history, "late", "DisruptionTarget")?;
        let bound = since(&history, "late", "PodScheduled").expect("it was bound before");
        let took = marked.duration_since(bound).unsigned_abs();
        assert!(took <= THIRTY_SECONDS, "the node had too many for {took:?}");
        home.pods_of("late").iter().all(|pod| pod.node_name().is_none() || pod.metadata.is_deleting()).then_some(())
    })
    .await;
    assert_eq!(since(&home.history(), "early", "DisruptionTarget"), None, "the one that was first stays");
    let pod = home
        .history()
        .into_iter()
        .find(|change| change.name().starts_with("late-") && condition(&change.object, "DisruptionTarget").is_some());
    let message = home.told("OvercommitReleased", pod.unwrap().name()).await.expect("the scheduler lives");
    assert!(message.contains(" has 8 nvidia.com/gpu, and its pods ask for 16"), "{message}");
}

#[test]
fn of_two_schedulers_that_give_away_the_same_room_one_gets_it() {
    on_home(async {
        let home = Home::start(3, 1).await;
        let _second = both_want_one_node(&home).await;
        if home.checks_binds() {
            // Refused by the server: it never was on the node.
            home.pass(LATE + THIRTY_SECONDS).await;
            assert_eq!(since(&home.history(), "late", "PodScheduled"), None);
            let pod = home.pods_of("late").remove(0).metadata.name.to_string();
            let refused = home.events(&pod).into_iter().any(|(_, message)| {
                message.starts_with("binding rejected: ")
                    && message.contains("insufficient nvidia.com/gpu: 0 free, 8 asked for")
            });
            assert!(refused, "{:?}", home.events(&pod));
        } else {
            the_late_one_makes_way(&home).await;
        }
        both_complete(&home).await;
    });
}

#[test]
fn where_the_server_looks_at_no_bind_the_pod_that_was_bound_last_makes_way() {
    on_virtual_time(async {
        let config = Config { check_capacity: false, ..Config::on(Cluster::default_of(1)) };
        let home = Home::with_config(3, config).await;
        let _second = both_want_one_node(&home).await;
        the_late_one_makes_way(&home).await;
        both_complete(&home).await;
    });
}

#[test]
fn two_gangs_in_the_same_room_end_with_one_whole_and_the_other_without_a_pod() {
    on_virtual_time(async {
        let config = Config { check_capacity: false, ..Config::on(Cluster::default_of(1)) };
        let home = Home::with_config(5, config).await;
        let _second = second_scheduler(&home).await;
        let late = home.fault(Rule::on(writes().of("pods").at("binding"), Fault::Delay(LATE)).first(8));
        let gang = |name: &str| job(name).pods(8).indexed().gang().gpus(1).spec("backoffLimit", 0);
        home.create(&gang("late").annotate("phalanx.dev/run-seconds", "300").build()).await;
        home.eventually("its binds are on their way", MINUTE, |home| {
            (home.faults().counts(late).done == 8).then_some(())
        })
        .await;
        let early = gang("early").pod_spec("schedulerName", SECOND);
        home.create(&early.annotate("phalanx.dev/run-seconds", "600").build()).await;
        let placed = |home: &Home, job: &str| {
            let on_node = |pod: &&Arc<PodView>| pod.node_name().is_some() && !pod.metadata.is_deleting();
            home.pods_of(job).iter().filter(on_node).count()
        };
        home.eventually("both are bound", MINUTE, |home| {
            (placed(home, "early") == 8 && placed(home, "late") == 8).then_some(())
        })
        .await;
        home.eventually("one of them makes way", THIRTY_SECONDS, |home| (placed(home, "late") == 0).then_some(()))
            .await;
        assert_eq!(placed(&home, "early"), 8);
        both_complete(&home).await;
    });
}
