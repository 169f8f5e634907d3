//! Bindings: once, to the right pod, never twice.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;
use http::StatusCode;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use store::{HistoryLimits, Store};

use crate::test_server::{
    PODS, TestServer, pod, test_server, test_server_on, test_server_on_thread, test_server_without_capacity_check,
};

async fn bind(home: &TestServer, name: &str, node: &str, metadata: Value) -> (StatusCode, Value) {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    home.post(&format!("{PODS}/{name}/binding"), binding).await
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_has_its_node_and_the_condition() {
    let home = test_server();
    let made = home.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let metadata = json!({"name": "a", "uid": made.metadata.uid, "annotations": {"why": "fits"}});
    let (code, status) = bind(&home, "a", "n1", metadata).await;
    assert_eq!((code, &status["status"]), (StatusCode::CREATED, &json!("Success")));
    let bound = home.pods().get("a").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(bound.metadata.annotations.unwrap()["why"], "fits");
    let conditions = bound.status.unwrap().conditions.unwrap();
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled").unwrap();
    assert!(scheduled.status == "True" && scheduled.last_transition_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once_and_only_the_pod_that_was_meant() {
    let home = test_server();
    home.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let (code, status) = bind(&home, "a", "n1", json!({"name": "a", "uid": "another"})).await;
    assert_eq!(code, StatusCode::CONFLICT, "{status}");
    let (code, status) = bind(&home, "a", "", json!({"name": "a"})).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("target.name"))
    );
    assert_eq!(bind(&home, "a", "n1", json!({"name": "a"})).await.0, StatusCode::CREATED);
    let (code, status) = bind(&home, "a", "n2", json!({"name": "a"})).await;
    let want = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\"";
    assert_eq!((code, status["message"].as_str().unwrap()), (StatusCode::CONFLICT, want));
    home.pods().delete("a", &Default::default()).await.unwrap();
    let (code, status) = bind(&home, "a", "n2", json!({"name": "a"})).await;
    assert!(
        code == StatusCode::CONFLICT && status["message"].as_str().unwrap().contains("is being deleted"),
        "{status}"
    );
    assert_eq!(bind(&home, "absent", "n1", json!({})).await.0, StatusCode::NOT_FOUND);
}

/// A node with so many GPUs and room for three pods.
async fn make_node(home: &TestServer, name: &str, gpus: i32) {
    let room = json!({"nvidia.com/gpu": gpus.to_string(), "cpu": "4", "memory": "4Gi", "pods": "3"});
    let node = json!({"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}});
    let (code, answer) = home.post("/api/v1/nodes", node).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

/// A pod that asks for so many GPUs.
async fn make_pod(home: &TestServer, name: &str, gpus: i32) {
    let resources = json!({"limits": {"nvidia.com/gpu": gpus.to_string()}, "requests": {"cpu": "1500m"}});
    let container = json!({"name": "main", "image": "busybox", "resources": resources});
    let pod = json!({"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}});
    let (code, answer) = home.post(PODS, pod).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

async fn finish_pod(home: &TestServer, name: &str) {
    let patch = json!({"status": {"phase": "Succeeded"}}).to_string();
    let (code, _) = home.call("PATCH", &format!("{PODS}/{name}/status"), "application/merge-patch+json", patch).await;
    assert_eq!(code, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_would_over_commit_a_node_is_refused() {
    let home = test_server();
    make_node(&home, "n1", 8).await;
    for (name, gpus) in [("a", 6), ("b", 4), ("c", 2), ("d", 0)] {
        make_pod(&home, name, gpus).await;
    }
    let mut answers = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let (code, status) = bind(&home, name, "n1", json!({})).await;
        answers.push((code.as_u16(), status["message"].as_str().unwrap_or_default().to_owned()));
    }
    let refused = |name: &str, why: &str| {
        let what = "Operation cannot be fulfilled on pods/binding";
        (409, format!("{what} \"{name}\": node n1: insufficient {why}"))
    };
    assert_eq!(
        answers,
        [
            (201, String::new()),
            refused("b", "nvidia.com/gpu: 2 free, 4 asked for"),
            (201, String::new()),
            refused("d", "cpu: 1 free, 1500m asked for"),
        ]
    );
    finish_pod(&home, "a").await;
    assert_eq!(bind(&home, "b", "n1", json!({})).await.0, StatusCode::CREATED, "what ended takes nothing");
    home.pods().delete("c", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    assert_eq!(bind(&home, "d", "n1", json!({})).await.0, StatusCode::CREATED, "nor does what is gone");
}

/// A pod on a node without a bind, which nobody checks, and more than fits there.
async fn make_placed_pod(home: &TestServer, name: &str, node: &str, memory: &str) {
    let container = json!({"name": "main", "image": "busybox", "resources": {"requests": {"memory": memory}}});
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}});
    let (code, answer) = home.post(PODS, pod).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn pods_that_ask_for_more_than_numbers_hold_do_not_end_the_count() {
    // Sums of such requests left the range of 64 bits, and every later bind was answered with an internal error.
    let home = test_server();
    make_node(&home, "n1", 8).await;
    make_node(&home, "n2", 8).await;
    for (name, memory) in [("x", "5Ei"), ("y", "5Ei"), ("z", "100Ei")] {
        make_placed_pod(&home, name, "n1", memory).await;
    }
    make_pod(&home, "a", 1).await;
    assert_eq!(bind(&home, "a", "n2", json!({})).await.0, StatusCode::CREATED, "another node");
    let container = json!({"name": "main", "image": "busybox", "resources": {"requests": {"memory": "1Gi"}}});
    let pod = json!({"metadata": {"name": "b"}, "spec": {"containers": [container]}});
    assert_eq!(home.post(PODS, pod).await.0, StatusCode::CREATED);
    let (code, status) = bind(&home, "b", "n1", json!({})).await;
    let want = "Operation cannot be fulfilled on pods/binding \"b\": node n1: insufficient ";
    assert_eq!(code, StatusCode::CONFLICT);
    assert!(status["message"].as_str().is_some_and(|message| message.starts_with(want)), "{status}");
    for name in ["y", "x", "z"] {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        home.pods().delete(name, &now).await.unwrap();
    }
    assert_eq!(bind(&home, "b", "n1", json!({})).await.0, StatusCode::CREATED, "what is gone takes nothing");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_before_this_one_bound_counts_and_so_do_nodes_that_change() {
    let first = test_server();
    make_node(&first, "n1", 8).await;
    for name in ["a", "b", "c"] {
        make_pod(&first, name, 5).await;
    }
    assert_eq!(bind(&first, "a", "n1", json!({})).await.0, StatusCode::CREATED);
    let second = test_server_on(first.store.clone(), 2);
    assert_eq!(bind(&second, "b", "n1", json!({})).await.0, StatusCode::CONFLICT);
    let patch = json!({"status": {"allocatable": {"nvidia.com/gpu": "10"}}}).to_string();
    second.call("PATCH", "/api/v1/nodes/n1/status", "application/merge-patch+json", patch).await;
    assert_eq!(bind(&second, "b", "n1", json!({})).await.0, StatusCode::CREATED);
    assert_eq!(bind(&first, "c", "n1", json!({})).await.0, StatusCode::CONFLICT, "seen by the other server, too");
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_tried_bind_takes_nothing() {
    let home = test_server();
    make_node(&home, "n1", 8).await;
    make_pod(&home, "a", 8).await;
    for _ in 0..3 {
        assert_eq!(bind(&home, "a", "n1", json!({"uid": "another"})).await.0, StatusCode::CONFLICT);
        let binding = json!({"metadata": {}, "target": {"name": "n1"}});
        let (code, answer) = home.post(&format!("{PODS}/a/binding?dryRun=All"), binding).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
    }
    assert_eq!(bind(&home, "a", "n1", json!({})).await.0, StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn without_the_check_a_bind_is_taken_as_upstream_takes_it() {
    let home = test_server();
    make_node(&home, "n1", 1).await;
    make_pod(&home, "a", 8).await;
    assert_eq!(bind(&home, "a", "n1", json!({})).await.0, StatusCode::CONFLICT);
    let unchecked = test_server_without_capacity_check(home.store.clone(), 2);
    assert_eq!(bind(&unchecked, "a", "n1", json!({})).await.0, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn binds_at_the_same_time_take_no_more_than_there_is() {
    let (home, writer) = test_server_on_thread(Store::in_memory(HistoryLimits::default()), 1);
    let home = Arc::new(home);
    make_node(&home, "n1", 0).await;
    let names: Vec<String> = (0..24).map(|index| format!("p{index}")).collect();
    for name in &names {
        make_pod(&home, name, 0).await;
    }
    let binds = names.into_iter().map(|name| {
        let home = home.clone();
        tokio::spawn(async move { bind(&home, &name, "n1", json!({})).await.0 })
    });
    let codes: Vec<StatusCode> = join_all(binds).await.into_iter().map(Result::unwrap).collect();
    let count = |wanted: StatusCode| codes.iter().filter(|code| **code == wanted).count();
    // Four CPUs, one and a half each.
    assert_eq!((count(StatusCode::CREATED), count(StatusCode::CONFLICT)), (2, 22));
    drop(home);
    writer.join();
}

#[tokio::test]
async fn a_bind_whose_client_went_away_keeps_its_room() {
    let (home, writer) = test_server_on_thread(Store::in_memory(HistoryLimits::default()), 1);
    make_node(&home, "n1", 8).await;
    make_pod(&home, "a", 8).await;
    make_pod(&home, "b", 8).await;
    // It waits for the disk when its client goes, and takes effect all the same.
    let left = Box::pin(bind(&home, "a", "n1", json!({}))).now_or_never();
    assert_eq!(bind(&home, "b", "n1", json!({})).await.0, StatusCode::CONFLICT, "{left:?}");
    let (code, status) = bind(&home, "a", "n1", json!({})).await;
    let said = status["message"].as_str().unwrap_or_default();
    assert!(code == StatusCode::CONFLICT && said.ends_with("already assigned to node \"n1\""), "{said}");
    drop(home);
    writer.join();
}
