//! The scheduler's metrics, with kube-scheduler's names.

use std::collections::BTreeMap;

use phalanx_scheduler::{Config, Metrics, Query};
use prometheus_client::registry::Registry;

use crate::small_server::{SmallServer, settle, start_with_metrics};

/// Every value by name and labels.
fn metric_values(registry: &Registry) -> BTreeMap<String, f64> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let values = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap());
    values.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

fn value(metrics: &BTreeMap<String, f64>, name: &str) -> f64 {
    *metrics.get(name).unwrap_or_else(|| panic!("no {name} among {:#?}", metrics.keys().collect::<Vec<_>>()))
}

// Shows: S000-78
#[tokio::test(start_paused = true)]
async fn attempts_are_counted_by_result_and_profile() {
    let mut registry = Registry::default();
    let server = SmallServer::new();
    server.node("n", 4);
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    server.pods(&["d", "e"], None, None);
    server.refuse_binds_of("d");
    start_with_metrics(&server, Config::default(), Metrics::register(&mut registry));
    settle(5).await;
    let metrics = metric_values(&registry);
    let by = |result: &str| format!("{{result=\"{result}\",profile=\"default-scheduler\"}}");
    assert_eq!(value(&metrics, &format!("scheduler_schedule_attempts_total{}", by("scheduled"))), 4.0);
    assert!(value(&metrics, &format!("scheduler_schedule_attempts_total{}", by("error"))) >= 1.0);
    assert!(value(&metrics, &format!("scheduler_schedule_attempts_total{}", by("unschedulable"))) >= 1.0);
    assert_eq!(value(&metrics, &format!("scheduler_podgroup_schedule_attempts_total{}", by("scheduled"))), 1.0);
    let count = |name: &str, labels: &str| value(&metrics, &format!("scheduler_{name}_seconds_count{labels}"));
    assert_eq!(count("podgroup_scheduling_algorithm_duration", ""), 1.0);
    assert!(count("scheduling_algorithm_duration", "") >= 2.0);
    assert_eq!(count("podgroup_scheduling_attempt_duration", &by("scheduled")), 1.0);
    assert_eq!(count("scheduling_attempt_duration", &by("scheduled")), 4.0);
    assert!(value(&metrics, &format!("scheduler_scheduling_attempt_duration_seconds_sum{}", by("scheduled"))) > 0.0);
    assert_eq!(
        count("pod_scheduling_sli_duration", "{attempts=\"1\"}"),
        3.0,
        "the fourth took d's capacity after a refusal"
    );
    assert_eq!(value(&metrics, "scheduler_pod_scheduling_attempts_count"), 4.0);
    assert!(value(&metrics, "phalanx_scheduler_failed_binds_total") >= 1.0);
    assert_eq!(value(&metrics, "phalanx_scheduler_missed_wakeups_total"), 0.0);
    // The test's clock does not move during a turn.
    assert_eq!(value(&metrics, "phalanx_scheduler_core_seconds_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_visible_in_the_queue_and_counted_with_what_it_keeps_idle() {
    let mut registry = Registry::default();
    let server = SmallServer::new();
    server.node("n", 3);
    server.pod("x", None, Some("n"));
    server.gang("g", 3);
    server.pods(&["a", "b", "c"], Some("g"), None);
    let (pods, pod_groups) = (server.pods.clone(), server.pod_groups.clone());
    let handle = start_with_metrics(&server, Config::default(), Metrics::register(&mut registry));
    settle(70).await;
    let queue = Query { handle, pods, pod_groups }.respond("/queue", "").await.unwrap();
    let queue: serde_json::Value = serde_json::from_str(&queue.body).unwrap();
    let reservation = &queue["units"][0]["reservation"];
    assert_eq!(
        (&reservation["pods"], &reservation["freePods"], &reservation["nodes"]),
        (&3.into(), &2.into(), &1.into())
    );
    let metrics = metric_values(&registry);
    assert_eq!(value(&metrics, "phalanx_scheduler_reservations{type=\"podgroup\"}"), 1.0);
    assert_eq!(value(&metrics, "phalanx_scheduler_reservations{type=\"pod\"}"), 0.0);
    assert!(value(&metrics, "phalanx_scheduler_reserved_idle_share") > 0.6);
    settle(600).await;
    let seconds = value(&metric_values(&registry), "phalanx_scheduler_reserved_idle_seconds_total");
    assert!((30.0..300.0).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn waiting_units_are_counted_by_queue_and_plugin() {
    let mut registry = Registry::default();
    let server = SmallServer::new();
    server.node("n", 4);
    server.gang("large", 5);
    server.pods(&["a", "b", "c", "d", "e"], Some("large"), None);
    server.gang("few", 3);
    server.pods(&["f", "g"], Some("few"), None);
    server.pod("h", Some("nowhere"), None);
    server.pods(&["x", "y"], None, Some("n"));
    start_with_metrics(&server, Config::default(), Metrics::register(&mut registry));
    settle(5).await;
    let metrics = metric_values(&registry);
    for (queue, pods) in
        [("active", 0.0), ("backoff", 0.0), ("unschedulable", 5.0), ("gated", 2.0), ("incomplete", 1.0)]
    {
        assert_eq!(value(&metrics, &format!("scheduler_pending_pods{{queue=\"{queue}\"}}")), pods, "{queue}");
        let groups = format!("scheduler_queued_entities{{queue=\"{queue}\",type=\"podgroup\"}}");
        assert_eq!(value(&metrics, &groups), f64::from(u8::from(pods > 0.0)), "{queue}");
        assert_eq!(value(&metrics, &format!("scheduler_queued_entities{{queue=\"{queue}\",type=\"pod\"}}")), 0.0);
    }
    let plugin = |plugin: &str| {
        let profile = "default-scheduler";
        format!("scheduler_unschedulable_pods{{plugin=\"{plugin}\",profile=\"{profile}\"}}")
    };
    assert_eq!(value(&metrics, &plugin("NodeResourcesFit")), 5.0);
    assert_eq!(value(&metrics, &plugin("GangScheduling")), 3.0, "those that lack pods or their PodGroup");
    for (kind, count) in [("nodes", 1.0), ("pods", 10.0)] {
        assert_eq!(value(&metrics, &format!("scheduler_cache_size{{type=\"{kind}\"}}")), count, "{kind}");
    }
    server.node("m", 1);
    settle(1).await;
    // The gang is woken when its fifth slot becomes free.
    server.remove("pods", "x");
    server.remove("pods", "y");
    settle(5).await;
    let metrics = metric_values(&registry);
    assert_eq!(value(&metrics, "scheduler_pending_pods{queue=\"unschedulable\"}"), 0.0);
    assert!(!metrics.contains_key(&plugin("NodeResourcesFit")));
    let activated = |event: &str| format!("{{queue=\"active\",event=\"{event}\"}}");
    assert!(
        value(&metrics, &format!("scheduler_queue_incoming_entities_total{}", activated("AssignedPodDelete"))) >= 1.0
    );
    assert!(value(&metrics, &format!("scheduler_queue_incoming_pods_total{}", activated("UnscheduledPodAdd"))) >= 5.0);
    let refused = "{queue=\"unschedulable\",event=\"ScheduleAttemptFailure\"}";
    assert!(value(&metrics, &format!("scheduler_queue_incoming_pods_total{refused}")) >= 5.0);
    assert_eq!(value(&metrics, "scheduler_cache_size{type=\"assumed_pods\"}"), 0.0, "all binds have ended");
}

#[tokio::test(start_paused = true)]
async fn attempts_until_a_pod_is_placed_are_counted() {
    let mut registry = Registry::default();
    let server = SmallServer::new();
    server.node("n", 1);
    server.pod("x", None, Some("n"));
    server.pod("a", None, None);
    start_with_metrics(&server, Config::default(), Metrics::register(&mut registry));
    settle(5).await;
    server.remove("pods", "x");
    settle(5).await;
    let metrics = metric_values(&registry);
    assert_eq!(value(&metrics, "scheduler_pod_scheduling_attempts_sum"), 2.0, "refused once, placed then");
    assert_eq!(value(&metrics, "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"2\"}"), 1.0);
}
