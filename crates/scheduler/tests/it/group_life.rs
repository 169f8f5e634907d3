//! Gangs after they were bound, and pods that are not members of the group they name.

use std::time::Duration;

use api::views::ObjectKey;
use phalanx_scheduler::Config;
use scheduler_core::PriorityMismatch;

use crate::small_server::{SmallServer, settle, start};

const SCHEDULED: &str = "g PodGroupInitiallyScheduled=True Scheduled";
const DEGRADED: &str = "g Degraded=True BelowMinCount";
const COMPLETE: &str = "g Degraded=False MinCountBound";

/// A server with capacity for nine pods and a gang of three, which is bound.
async fn running_gang() -> SmallServer {
    let server = SmallServer::new();
    server.node("n", 9);
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    start(&server, Config::default());
    settle(5).await;
    assert_eq!(server.log().last().unwrap(), SCHEDULED);
    server.events();
    server
}

// Shows: S003-26
// Shows: S003-41
#[tokio::test(start_paused = true)]
async fn a_gang_that_lost_a_pod_is_degraded_until_it_is_complete_again() {
    let server = running_gang().await;
    server.remove("pods", "c");
    settle(30).await;
    assert_eq!(server.log(), [SCHEDULED, DEGRADED], "one write");
    assert_eq!(server.events(), ["Warning Degraded g: 2 of minCount 3 pods bound, 0 waiting"]);
    server.pod("d", Some("g"), None);
    settle(30).await;
    assert_eq!(server.log(), ["bind d", SCHEDULED, COMPLETE]);
    server.remove("pods", "d");
    server.pod("e", Some("g"), None);
    settle(30).await;
    assert_eq!(server.log(), ["bind e"], "a pod that is replaced at once causes no condition");
}

// The conditions of the second run's pods had "see its conditions", and the group had only the True of the first run.
#[tokio::test(start_paused = true)]
async fn a_second_run_that_does_not_fit_has_the_reason_on_its_group() {
    let server = running_gang().await;
    ["a", "b", "c"].iter().for_each(|pod| server.remove("pods", pod));
    server.pods(&["x0", "x1", "x2", "x3", "x4", "x5", "x6"], None, Some("n"));
    server.pods(&["d", "e", "f"], Some("g"), None);
    settle(30).await;
    let condition = |kind: &str| {
        let group = server.pod_groups.get(&ObjectKey::new("ns", "g")).unwrap();
        let found = group.status.conditions.iter().find(|condition| condition.kind == kind).cloned().unwrap();
        (found.status, found.message)
    };
    assert_eq!(condition("PodGroupInitiallyScheduled").0, "True");
    let (status, message) = condition("Degraded");
    let want = "0 of minCount 3 pods bound, 3 waiting: gang of 3 does not fit: 2 of 3 pods fit (1 more needed; \
                Insufficient cpu on 1 of 1 nodes); remedies: lower minCount to 2";
    assert!(status == "True" && message.starts_with(want), "{message}");
    assert_eq!(condition_message(&server, "d"), "waiting for PodGroup ns/g: not enough cpu; see its conditions");
}

// A group has no condition about pods beyond its minCount, nor a Basic group once a pod of it was bound.
#[tokio::test(start_paused = true)]
async fn pods_do_not_refer_to_a_group_without_a_condition_about_them() {
    let server = running_gang().await;
    server.basic("h");
    server.pod("h0", Some("h"), None);
    settle(5).await;
    server.remove("pods", "h0");
    server.pods(&["x0", "x1", "x2", "x3", "x4", "x5"], None, Some("n"));
    settle(5).await;
    server.pod("d", Some("g"), None);
    server.pod("h1", Some("h"), None);
    settle(30).await;
    assert_eq!(condition_message(&server, "d"), "waiting for PodGroup ns/g: not enough cpu");
    assert_eq!(condition_message(&server, "h1"), "waiting for PodGroup ns/h: not enough cpu");
}

/// The message of a pod's condition.
fn condition_message(server: &SmallServer, pod: &str) -> String {
    server.pods.get(&ObjectKey::new("ns", pod)).unwrap().status.conditions[0].message.clone()
}

#[tokio::test(start_paused = true)]
async fn live_counts_are_written_at_most_every_ten_seconds() {
    let server = running_gang().await;
    server.pods(&["x0", "x1", "x2", "x3", "x4", "x5"], None, Some("n"));
    server.remove("pods", "c");
    settle(3).await;
    server.log();
    for number in 0..4 {
        // None of them fits.
        server.pod(&format!("y{number}"), Some("g"), None);
        server.pod(&format!("z{number}"), None, Some("n"));
        settle(2).await;
    }
    let writes = server.log().into_iter().filter(|line| line == DEGRADED).count();
    assert!(writes <= 1, "{writes}");
    settle(20).await;
    let message = server.pod_groups.all()[0].status.conditions.last().unwrap().message.clone();
    assert!(message.starts_with("2 of minCount 3 pods bound, 4 waiting: no more pods fit ("), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_gang_whose_pods_are_all_deleted_is_not_degraded() {
    let server = running_gang().await;
    ["a", "b", "c"].iter().for_each(|pod| server.remove("pods", pod));
    settle(30).await;
    assert_eq!(server.log(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_new_scheduler_does_not_repeat_the_degraded_condition() {
    let server = running_gang().await;
    server.remove("pods", "c");
    settle(5).await;
    server.log();
    // A second scheduler, which has published nothing yet.
    start(&server, Config::default());
    settle(30).await;
    assert_eq!(server.log(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_half_bound_gang_is_completed_if_the_rest_fits() {
    let server = SmallServer::new();
    server.node("n", 4);
    server.gang("g", 4);
    server.pods(&["a", "b"], Some("g"), Some("n"));
    server.pods(&["c", "d"], Some("g"), None);
    start(&server, Config::default());
    settle(60).await;
    assert_eq!(server.log(), ["bind c", "bind d", SCHEDULED]);
}

#[tokio::test(start_paused = true)]
async fn a_half_bound_gang_is_released_if_the_rest_does_not_fit() {
    let server = SmallServer::new();
    server.node("n", 3);
    server.gang("g", 4);
    ["a", "b"].iter().for_each(|pod| server.bound_pod_of(pod, "g", "job", "n"));
    server.pods(&["c", "d"], Some("g"), None);
    start(&server, Config::default());
    settle(14).await;
    let before = server.log();
    assert!(!before.iter().any(|line| line.starts_with("delete")), "{before:?}");
    settle(16).await;
    let log = server.log();
    let mark =
        |pod: &str| log.iter().position(|line| *line == format!("{pod} DisruptionTarget=True ReleasedByScheduler"));
    let deleted = |pod: &str| log.iter().position(|line| *line == format!("delete {pod}"));
    for pod in ["a", "b"] {
        assert!(mark(pod).is_some() && mark(pod) < deleted(pod), "marked, then deleted: {log:?}");
    }
    let events = server.events();
    let released = "Warning GangReleased g: only 2 of minCount 4 pods could be placed";
    assert!(events.iter().any(|event| event.starts_with(released)), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_gang_that_was_complete_once_keeps_its_pods() {
    let server = running_gang().await;
    server.pods(&["x0", "x1", "x2", "x3", "x4", "x5"], None, Some("n"));
    server.remove("pods", "c");
    server.pods(&["x6"], None, Some("n"));
    server.pod("d", Some("g"), None);
    settle(120).await;
    let log = server.log();
    assert!(!log.iter().any(|line| line.starts_with("delete")), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_another_owner_is_refused_alone() {
    let server = SmallServer::new();
    server.node("n", 9);
    server.gang_of("g", 2, "mine", 0);
    server.pod_of("a", "g", "mine");
    server.pod_of("b", "g", "mine");
    server.pod_of("stranger", "g", "theirs");
    let handle = start(&server, Config::default());
    settle(5).await;
    assert_eq!(server.log(), ["stranger PodScheduled=False NotAttempted", "bind a", "bind b", SCHEDULED]);
    let events = server.events();
    let refused = "Warning FailedScheduling stranger: podgroup ns/g belongs to another owner than this pod";
    assert!(events.contains(&refused.to_owned()), "{events:?}");
    server.remove("pods", "stranger");
    settle(5).await;
    assert!(handle.refusals().is_empty());
}

// Shows: S002-23
#[tokio::test(start_paused = true)]
async fn pods_of_another_priority_get_one_warning_per_group() {
    let server = SmallServer::new();
    server.node("n", 9);
    server.gang_of("g", 2, "mine", 7);
    server.pod_of("a", "g", "mine");
    server.pod_of("b", "g", "mine");
    start(&server, Config::default());
    settle(5).await;
    assert_eq!(server.log(), ["bind a", "bind b", SCHEDULED]);
    let warnings: Vec<String> = server.events().into_iter().filter(|event| event.starts_with("Warning")).collect();
    assert_eq!(
        warnings,
        ["Warning PriorityDiffers g: pod ns/a has priority 0; the group's priority 7 applies to all its pods"]
    );
    let strict =
        scheduler_core::Config { priority_mismatch: PriorityMismatch::Refused, ..scheduler_core::Config::default() };
    server.gang_of("h", 2, "mine", 7);
    server.pod_of("c", "h", "mine");
    let handle = start(&server, Config { core: strict, ..Config::default() });
    settle(5).await;
    assert!(handle.refusals().keys().any(|unit| unit.key().name == "c"), "{:?}", handle.refusals().keys());
}

#[tokio::test(start_paused = true)]
async fn without_groups_pods_are_placed_one_by_one() {
    let server = SmallServer::new();
    server.node("n", 2);
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    start(&server, Config { by_groups: false, ..Config::default() });
    settle(5).await;
    assert_eq!(server.log(), ["c PodScheduled=False Unschedulable", "bind a", "bind b"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!server.log().iter().any(|line| line.starts_with("delete")));
}
