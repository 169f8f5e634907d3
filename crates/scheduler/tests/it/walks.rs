//! Groups and pods from creation to bind or refusal: binds, conditions, Events.

use std::collections::BTreeSet;
use std::time::Duration;

use api::views::ObjectKey;
use phalanx_scheduler::{Config, CoreMode};
use scheduler_core::{Unit, UnsupportedTerms};
use serde_json::json;

use crate::small_server::{SmallServer, settle, start};

fn gang(name: &str) -> Unit {
    Unit::Group(ObjectKey::new("ns", name))
}

const SCHEDULED: &str = "g PodGroupInitiallyScheduled=True Scheduled";
const REFUSED: &str = "g PodGroupInitiallyScheduled=False Unschedulable";

// Shows: S003-19
// Shows: S003-26
#[tokio::test(start_paused = true)]
async fn a_gang_that_fits_is_bound_and_then_reported_as_scheduled() {
    let server = SmallServer::new();
    server.node("n", 4);
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    let handle = start(&server, Config::default());
    settle(5).await;
    assert_eq!(server.log(), ["bind a", "bind b", "bind c", SCHEDULED]);
    assert_eq!(server.events()[0], "Normal Scheduled a: Successfully assigned ns/a to n");
    assert!(handle.refusals().is_empty());
}

// Shows: S003-26
#[tokio::test(start_paused = true)]
async fn a_gang_that_does_not_fit_is_reported_once_and_bound_when_it_fits() {
    let server = SmallServer::new();
    server.node("n", 2);
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    let handle = start(&server, Config::default());
    settle(60).await;
    let pod_refused = |pod: &str| format!("{pod} PodScheduled=False Unschedulable");
    assert_eq!(server.log(), [REFUSED.to_owned(), pod_refused("a"), pod_refused("b"), pod_refused("c")]);
    let events = server.events();
    assert_eq!(events.len(), 1, "one for the group, none per pod: {events:?}");
    assert!(events[0].starts_with("Warning FailedScheduling g: "), "{events:?}");
    assert!(handle.contains(&gang("g")));
    server.node("n2", 2);
    settle(5).await;
    let log = server.log();
    assert_eq!(
        (&log[..3], log.last().unwrap().as_str()),
        (["bind a", "bind b", "bind c"].map(str::to_owned).as_slice(), SCHEDULED)
    );
    assert!(handle.refusals().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_job_of_a_gang_that_does_not_fit_gets_an_event() {
    let server = SmallServer::new();
    server.node("n", 1);
    server.gang_of("g", 2, "train", 0);
    server.pod_of("a", "g", "train");
    server.pod_of("b", "g", "train");
    start(&server, Config::default());
    settle(60).await;
    let events = server.events();
    assert!(events[0].starts_with("Warning FailedScheduling g: gang of 2 does not fit"), "{events:?}");
    assert!(events[1].starts_with("Warning FailedScheduling train: PodGroup g: gang of 2 does not fit"), "{events:?}");
    assert_eq!(events.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_single_pod_that_does_not_fit_gets_a_condition_and_an_event() {
    let server = SmallServer::new();
    server.node("n", 1);
    server.pod("a", None, Some("n"));
    server.pod("b", None, None);
    let handle = start(&server, Config::default());
    settle(5).await;
    assert_eq!(server.log(), ["b PodScheduled=False Unschedulable"]);
    let events = server.events();
    assert!(events[0].starts_with("Warning FailedScheduling b: 0/1 nodes are available"), "{events:?}");
    server.node("n2", 1);
    settle(5).await;
    assert_eq!(server.log(), ["bind b"]);
    assert!(handle.refusals().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_gang_is_not_reported_as_scheduled_while_a_bind_fails() {
    let server = SmallServer::new();
    server.node("n", 4);
    server.gang("g", 2);
    server.pods(&["a", "b"], Some("g"), None);
    server.refuse_binds_of("b");
    start(&server, Config::default());
    settle(4).await;
    let log = server.log();
    let error = ["g PodGroupInitiallyScheduled=False SchedulerError", "b PodScheduled=False SchedulerError"];
    assert_eq!(&log[..4], ["bind a", "refused b", error[0], error[1]], "the conditions have the error");
    assert!(log.len() > 4 && log[4..].iter().all(|line| line == "refused b"), "retried with backoff: {log:?}");
    assert!(log.len() < 12, "retried too often: {log:?}");
    server.accept_binds_of("b");
    settle(30).await;
    assert_eq!(server.log(), ["bind b", SCHEDULED]);
}

#[tokio::test(start_paused = true)]
async fn a_new_scheduler_writes_the_condition_that_the_old_one_did_not() {
    let server = SmallServer::new();
    server.node("n", 4);
    server.gang("g", 2);
    server.pods(&["a", "b"], Some("g"), Some("n"));
    start(&server, Config::default());
    settle(5).await;
    assert_eq!(server.log(), [SCHEDULED]);
}

#[tokio::test(start_paused = true)]
async fn no_more_binds_are_in_flight_than_allowed() {
    let server = SmallServer::new();
    server.node("n", 100);
    server.gang("g", 50);
    (0..50).for_each(|number| server.pod(&format!("p{number:02}"), Some("g"), None));
    start(&server, Config { max_binds_in_flight: 7, ..Config::default() });
    settle(5).await;
    assert_eq!((server.log().len(), server.max_binding()), (51, 7));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_joins_a_refused_gang_gets_a_condition() {
    let server = SmallServer::new();
    server.node("n", 1);
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    start(&server, Config::default());
    settle(5).await;
    server.log();
    server.pod("d", Some("g"), None);
    settle(30).await;
    let log = server.log();
    assert!(log.contains(&"d PodScheduled=False Unschedulable".to_owned()), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn members_that_are_gated_or_another_schedulers_keep_their_own_conditions() {
    let server = SmallServer::new();
    server.node("n", 1);
    server.gang("g", 2);
    server.pods(&["a", "b"], Some("g"), None);
    server.pod_with("gated", "g", "schedulingGates", json!([{"name": "example.com/quota"}]));
    server.pod_with("foreign", "g", "schedulerName", json!("another"));
    start(&server, Config::default());
    settle(60).await;
    let pod_refused = |pod: &str| format!("{pod} PodScheduled=False Unschedulable");
    assert_eq!(server.log(), [REFUSED.to_owned(), pod_refused("a"), pod_refused("b")]);
}

#[tokio::test(start_paused = true)]
async fn unsupported_terms_are_reported_once_for_all_pods_of_a_job() {
    let required =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}});
    let preferred = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}});
    let server = SmallServer::new();
    server.node("n", 4);
    server.gang("g", 1);
    server.gang("h", 1);
    server.gang("i", 1);
    server.pod_with("a", "g", "affinity", required.clone());
    server.pod_with("d", "g", "affinity", required);
    server.pod_with("b", "h", "volumes", json!([{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]));
    server.pod_with("c", "i", "affinity", preferred);
    let core =
        scheduler_core::Config { unsupported_terms: UnsupportedTerms::Ignore, ..scheduler_core::Config::default() };
    start(&server, Config { core, ..Config::default() });
    settle(60).await;
    let warnings = server.events().into_iter().filter(|event| event.contains("ConstraintsIgnored"));
    let suffix = ", which this scheduler does not support";
    let warnings: Vec<_> = warnings.map(|event| event.replace(suffix, "")).collect();
    let ignored = |group: &str, field: &str| {
        format!("Warning ConstraintsIgnored {group}: pods are placed without regard to {field}")
    };
    assert_eq!(warnings, [ignored("g", "affinity.podAntiAffinity"), ignored("h", "volumes[].persistentVolumeClaim")]);
}

#[tokio::test(start_paused = true)]
async fn pods_with_unsupported_terms_are_not_bound_and_get_an_event() {
    let required =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}});
    let server = SmallServer::new();
    server.node("n", 4);
    server.gang("g", 1);
    server.pod_with("a", "g", "affinity", required);
    start(&server, Config::default());
    settle(60).await;
    let message = "this scheduler does not support affinity.podAntiAffinity; such pods wait unless \
               scheduler.unsupportedTerms is set to ignore";
    assert_eq!(server.events(), [format!("Warning FailedScheduling g: {message}")]);
    assert!(!server.log().iter().any(|line| line.contains("bind")), "{:?}", server.log());
}

#[tokio::test(start_paused = true)]
async fn binds_delay_refusals_for_a_limited_time() {
    let server = SmallServer::new();
    (0..20).for_each(|node| server.node(&format!("n{node}"), 100));
    (0..2000).for_each(|pod| server.pod(&format!("p{pod:04}"), None, None));
    // The other pods take all capacity, so these are refused at once.
    for group in 0..100 {
        server.gang(&format!("g{group:03}"), 2);
        (0..2).for_each(|pod| server.pod(&format!("q{group:03}-{pod}"), Some(&format!("g{group:03}")), None));
    }
    // One bind takes five milliseconds, so all of them ten seconds.
    start(&server, Config { max_binds_in_flight: 1, ..Config::default() });
    settle(60).await;
    let log = server.log();
    let is_bind = |line: &&String| line.starts_with("bind ");
    let before = log.iter().take_while(is_bind).count();
    assert!((900..1100).contains(&before), "{before} binds before the first condition");
    let last = log.iter().rposition(|line| is_bind(&line)).unwrap();
    assert!(log.iter().take(last).any(|line| !is_bind(&line)), "conditions follow before the last bind");
    assert_eq!(log.len(), 2300, "each gang and each of its pods gets one condition");
}

// Congestion delayed the condition. A scheduler that took over meanwhile released the gang when a node failed.
#[tokio::test(start_paused = true)]
async fn binds_do_not_delay_the_first_scheduled_condition_of_a_gang() {
    let server = SmallServer::new();
    (0..20).for_each(|node| server.node(&format!("n{node}"), 100));
    for group in 0..500 {
        server.gang(&format!("g{group:03}"), 2);
        (0..2).for_each(|pod| server.pod(&format!("p{group:03}-{pod}"), Some(&format!("g{group:03}")), None));
    }
    start(&server, Config { max_binds_in_flight: 1, ..Config::default() });
    settle(60).await;
    let log = server.log();
    assert_eq!(log.len(), 1500);
    for group in 0..500 {
        let at = |wanted: String| log.iter().position(|line| *line == wanted).unwrap();
        let bound = at(format!("bind p{group:03}-1")).max(at(format!("bind p{group:03}-0")));
        let reported = at(format!("g{group:03} PodGroupInitiallyScheduled=True Scheduled"));
        assert!(reported - bound <= 3, "gang {group}: {} writes in between", reported - bound);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_incomplete_gang_are_not_marked_unschedulable() {
    let server = SmallServer::new();
    server.node("n", 1);
    server.gang("g", 3);
    server.pods(&["a", "b"], Some("g"), None);
    start(&server, Config::default());
    settle(30).await;
    assert_eq!(server.log(), [REFUSED], "the group gets a condition, its pods none");
    server.pod("c", Some("g"), None);
    settle(30).await;
    assert!(server.log().contains(&"a PodScheduled=False Unschedulable".to_owned()), "now capacity is missing");
    server.remove("pods", "c");
    settle(30).await;
    let log = server.log();
    let not_ready = |pod: &str| format!("{pod} PodScheduled=False PodGroupNotReady");
    assert!(log.contains(&not_ready("a")) && log.contains(&not_ready("b")), "{log:?}");
}

// Kubernetes' own suites wait for the reason Unschedulable also where pods have terms that only kube-scheduler supports.
#[tokio::test(start_paused = true)]
async fn only_pods_that_more_nodes_may_help_are_marked_unschedulable() {
    let claim = || json!([{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]);
    let server = SmallServer::new();
    server.node("n", 1);
    server.gang("unsupported", 2);
    server.pod("a", Some("unsupported"), None);
    server.pod_with("b", "unsupported", "volumes", claim());
    server.gang("large", 2);
    server.pods(&["c", "d"], Some("large"), None);
    server.gang("incomplete", 2);
    server.pod("e", Some("incomplete"), None);
    server.gang_of("owned", 2, "mine", 0);
    server.pod_of("stranger", "owned", "theirs");
    start(&server, Config::default());
    settle(30).await;
    let condition = |pod: &str, reason: &str| format!("{pod} PodScheduled=False {reason}");
    let of_pods: BTreeSet<String> = server.log().into_iter().filter(|line| line.contains("PodScheduled")).collect();
    let unschedulable = ["a", "b", "c", "d"].map(|pod| condition(pod, "Unschedulable"));
    assert_eq!(of_pods, unschedulable.into_iter().chain([condition("stranger", "NotAttempted")]).collect());
    let pod = server.pods.get(&ObjectKey::new("ns", "b")).unwrap();
    let message = &pod.status.conditions[0].message;
    assert!(message.contains("this scheduler does not support volumes[].persistentVolumeClaim"), "{message}");
}

// With 200 gangs of 64 that never fit, and small pods that come and go, every pod was written again and again.
#[tokio::test(start_paused = true)]
async fn pods_of_a_refused_gang_are_written_once_when_only_numbers_change() {
    let server = SmallServer::new();
    server.node("n", 40);
    server.gang_of("g", 64, "train", 0);
    (0..64).for_each(|pod| server.pod_of(&format!("p{pod:02}"), "g", "train"));
    start(&server, Config::default());
    for second in 0..120 {
        // Each second another number of the gang's pods fits.
        server.pod(&format!("small-{second}"), None, Some("n"));
        if second % 3 == 2 {
            (second - 2..second).for_each(|number| server.remove("pods", &format!("small-{number}")));
        }
        settle(1).await;
    }
    let log = server.log();
    let count = |text: &str| log.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count("PodScheduled"), 64, "once for each pod");
    let groups = count("PodGroupInitiallyScheduled");
    assert!((2..=13).contains(&groups), "{groups} writes of the group, one every ten seconds");
    let events = server.events();
    assert_eq!(events.len(), 2, "one about the group, one about its Job: {events:?}");
    let pod = server.pods.get(&ObjectKey::new("ns", "p00")).unwrap();
    let want = "waiting for PodGroup ns/g: not enough cpu; see its conditions";
    assert_eq!(pod.status.conditions[0].message, want);
}

#[tokio::test(start_paused = true)]
async fn events_come_from_the_scheduler_that_the_pod_names() {
    let server = SmallServer::new();
    server.node("n", 1);
    let mut config = Config::default();
    let mut other = config.core.profiles[0].clone();
    other.scheduler_name = "batch".to_owned();
    config.core.profiles.push(other);
    server.gang("g", 1);
    server.gang("h", 200);
    server.pod("a", Some("g"), None);
    for pod in ["b", "c", "d"] {
        server.pod_with(pod, "h", "schedulerName", json!("batch"));
    }
    server.pods(&["x", "y"], None, None);
    start(&server, config);
    settle(30).await;
    let mut reporters = server.reporters();
    reporters.sort();
    reporters.dedup();
    let want = ["FailedScheduling h batch", "Scheduled a default-scheduler"];
    assert!(want.iter().all(|line| reporters.contains(&(*line).to_owned())), "{reporters:?}");
    assert!(!reporters.iter().any(|line| line.ends_with(" test")), "{reporters:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_removed_with_its_unit() {
    let server = SmallServer::new();
    server.node("n", 1);
    server.gang("g", 2);
    server.pods(&["a", "b"], Some("g"), None);
    server.pod("busy", None, Some("n"));
    server.pod("single", None, None);
    let handle = start(&server, Config::default());
    settle(5).await;
    assert_eq!(handle.refusals().len(), 2);
    server.remove("pods", "single");
    settle(5).await;
    assert_eq!(handle.refusals().into_keys().collect::<Vec<_>>(), [gang("g")]);
    ["a", "b"].iter().for_each(|pod| server.remove("pods", pod));
    server.remove("podgroups", "g");
    settle(5).await;
    assert!(handle.refusals().is_empty(), "{:?}", handle.refusals().keys());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_removed_when_another_scheduler_binds_the_pods() {
    let server = SmallServer::new();
    server.node("n", 1);
    server.gang("g", 2);
    server.pods(&["a", "b"], Some("g"), None);
    let handle = start(&server, Config::default());
    settle(5).await;
    assert!(handle.contains(&gang("g")));
    server.pods(&["a", "b"], Some("g"), Some("n"));
    settle(5).await;
    assert!(handle.refusals().is_empty());
}

#[tokio::test(start_paused = true)]
async fn late_caches_cause_no_second_write() {
    let server = SmallServer::lagging(Duration::from_millis(300));
    server.node("n", 4);
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    start(&server, Config::default());
    settle(20).await;
    assert_eq!(server.log(), ["bind a", "bind b", "bind c", SCHEDULED]);
    server.gang("full", 9);
    server.pods(&["x", "y"], Some("full"), None);
    settle(60).await;
    assert_eq!(server.log(), ["full PodGroupInitiallyScheduled=False Unschedulable"]);
}

// Not on the paused clock, which would jump whenever the scheduler waits for the thread.
#[tokio::test]
async fn a_core_on_its_own_thread_binds_and_refuses_like_one_in_place() {
    let server = SmallServer::new();
    server.node("n", 3);
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    server.gang("full", 2);
    server.pods(&["x", "y"], Some("full"), None);
    let mut groups = server.pod_groups.subscribe();
    let handle = start(&server, Config { core_mode: CoreMode::OnThread, ..Config::default() });
    let both_reported = async {
        let mut conditions = 0;
        while conditions < 2 {
            let group = groups.next().await.new.unwrap();
            conditions += group.status.conditions.len();
        }
    };
    tokio::time::timeout(Duration::from_secs(30), both_reported).await.expect("both gangs get a condition");
    let log = server.log();
    let binds: Vec<&String> = log.iter().filter(|line| line.starts_with("bind ")).collect();
    assert_eq!(binds, ["bind a", "bind b", "bind c"]);
    assert!(log.contains(&SCHEDULED.to_owned()), "{log:?}");
    assert_eq!(handle.refusals().into_keys().collect::<Vec<_>>(), [gang("full")]);
}
