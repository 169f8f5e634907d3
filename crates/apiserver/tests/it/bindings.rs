//! Bindings: a pod is bound once, to a node with enough capacity.

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

async fn bind(server: &TestServer, name: &str, node: &str, metadata: Value) -> (StatusCode, Value) {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    server.post(&format!("{PODS}/{name}/binding"), binding).await
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_has_its_node_and_the_condition() {
    let server = test_server();
    let made = server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let metadata = json!({"name": "a", "uid": made.metadata.uid, "annotations": {"why": "fits"}});
    let (code, status) = bind(&server, "a", "n1", metadata).await;
    assert_eq!((code, &status["status"]), (StatusCode::CREATED, &json!("Success")));
    let bound = server.pods().get("a").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(bound.metadata.annotations.unwrap()["why"], "fits");
    let conditions = bound.status.unwrap().conditions.unwrap();
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled").unwrap();
    assert!(scheduled.status == "True" && scheduled.last_transition_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once_and_only_with_its_uid() {
    let server = test_server();
    server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let (code, status) = bind(&server, "a", "n1", json!({"name": "a", "uid": "another"})).await;
    assert_eq!(code, StatusCode::CONFLICT, "{status}");
    let (code, status) = bind(&server, "a", "", json!({"name": "a"})).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("target.name"))
    );
    assert_eq!(bind(&server, "a", "n1", json!({"name": "a"})).await.0, StatusCode::CREATED);
    let (code, status) = bind(&server, "a", "n2", json!({"name": "a"})).await;
    let want = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\"";
    assert_eq!((code, status["message"].as_str().unwrap()), (StatusCode::CONFLICT, want));
    server.pods().delete("a", &Default::default()).await.unwrap();
    let (code, status) = bind(&server, "a", "n2", json!({"name": "a"})).await;
    assert!(
        code == StatusCode::CONFLICT && status["message"].as_str().unwrap().contains("is being deleted"),
        "{status}"
    );
    assert_eq!(bind(&server, "absent", "n1", json!({})).await.0, StatusCode::NOT_FOUND);
}

/// A node with this many GPUs and capacity for three pods.
async fn make_node(server: &TestServer, name: &str, gpus: i32) {
    let capacity = json!({"nvidia.com/gpu": gpus.to_string(), "cpu": "4", "memory": "4Gi", "pods": "3"});
    let node = json!({"metadata": {"name": name}, "status": {"allocatable": capacity, "capacity": capacity}});
    let (code, response) = server.post("/api/v1/nodes", node).await;
    assert_eq!(code, StatusCode::CREATED, "{response}");
}

/// A pod that requests this many GPUs.
async fn make_pod(server: &TestServer, name: &str, gpus: i32) {
    let resources = json!({"limits": {"nvidia.com/gpu": gpus.to_string()}, "requests": {"cpu": "1500m"}});
    let container = json!({"name": "main", "image": "busybox", "resources": resources});
    let pod = json!({"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}});
    let (code, response) = server.post(PODS, pod).await;
    assert_eq!(code, StatusCode::CREATED, "{response}");
}

async fn finish_pod(server: &TestServer, name: &str) {
    let patch = json!({"status": {"phase": "Succeeded"}}).to_string();
    let (code, _) = server.call("PATCH", &format!("{PODS}/{name}/status"), "application/merge-patch+json", patch).await;
    assert_eq!(code, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_would_over_commit_a_node_is_refused() {
    let server = test_server();
    make_node(&server, "n1", 8).await;
    for (name, gpus) in [("a", 6), ("b", 4), ("c", 2), ("d", 0)] {
        make_pod(&server, name, gpus).await;
    }
    let mut results = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let (code, status) = bind(&server, name, "n1", json!({})).await;
        results.push((code.as_u16(), status["message"].as_str().unwrap_or_default().to_owned()));
    }
    let refused = |name: &str, cause: &str| {
        let what = "Operation cannot be fulfilled on pods/binding";
        (409, format!("{what} \"{name}\": node n1: insufficient {cause}"))
    };
    assert_eq!(
        results,
        [
            (201, String::new()),
            refused("b", "nvidia.com/gpu: 2 free, 4 requested"),
            (201, String::new()),
            refused("d", "cpu: 1 free, 1500m requested"),
        ]
    );
    finish_pod(&server, "a").await;
    assert_eq!(bind(&server, "b", "n1", json!({})).await.0, StatusCode::CREATED, "a finished pod uses no capacity");
    server
        .pods()
        .delete("c", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
        .await
        .unwrap();
    assert_eq!(bind(&server, "d", "n1", json!({})).await.0, StatusCode::CREATED, "a deleted pod uses no capacity");
}

/// A pod that is created with a node name. Such pods are not checked and may exceed the capacity.
async fn make_placed_pod(server: &TestServer, name: &str, node: &str, memory: &str) {
    let container = json!({"name": "main", "image": "busybox", "resources": {"requests": {"memory": memory}}});
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}});
    let (code, response) = server.post(PODS, pod).await;
    assert_eq!(code, StatusCode::CREATED, "{response}");
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_64_bits_do_not_break_later_binds() {
    // Sums of such requests exceeded 64 bits, and every later bind failed with an internal error.
    let server = test_server();
    make_node(&server, "n1", 8).await;
    make_node(&server, "n2", 8).await;
    for (name, memory) in [("x", "5Ei"), ("y", "5Ei"), ("z", "100Ei")] {
        make_placed_pod(&server, name, "n1", memory).await;
    }
    make_pod(&server, "a", 1).await;
    assert_eq!(bind(&server, "a", "n2", json!({})).await.0, StatusCode::CREATED, "another node");
    let container = json!({"name": "main", "image": "busybox", "resources": {"requests": {"memory": "1Gi"}}});
    let pod = json!({"metadata": {"name": "b"}, "spec": {"containers": [container]}});
    assert_eq!(server.post(PODS, pod).await.0, StatusCode::CREATED);
    let (code, status) = bind(&server, "b", "n1", json!({})).await;
    let want = "Operation cannot be fulfilled on pods/binding \"b\": node n1: insufficient ";
    assert_eq!(code, StatusCode::CONFLICT);
    assert!(status["message"].as_str().is_some_and(|message| message.starts_with(want)), "{status}");
    for name in ["y", "x", "z"] {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        server.pods().delete(name, &now).await.unwrap();
    }
    assert_eq!(bind(&server, "b", "n1", json!({})).await.0, StatusCode::CREATED, "a deleted pod uses no capacity");
}

#[tokio::test(start_paused = true)]
async fn binds_of_an_earlier_server_count_and_so_do_changes_of_nodes() {
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
    assert_eq!(bind(&first, "c", "n1", json!({})).await.0, StatusCode::CONFLICT, "the other server counts it, too");
}

#[tokio::test(start_paused = true)]
async fn a_refused_bind_and_a_dry_run_reserve_nothing() {
    let server = test_server();
    make_node(&server, "n1", 8).await;
    make_pod(&server, "a", 8).await;
    for _ in 0..3 {
        assert_eq!(bind(&server, "a", "n1", json!({"uid": "another"})).await.0, StatusCode::CONFLICT);
        let binding = json!({"metadata": {}, "target": {"name": "n1"}});
        let (code, response) = server.post(&format!("{PODS}/a/binding?dryRun=All"), binding).await;
        assert_eq!(code, StatusCode::CREATED, "{response}");
    }
    assert_eq!(bind(&server, "a", "n1", json!({})).await.0, StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn without_the_check_a_bind_is_accepted_as_upstream() {
    let server = test_server();
    make_node(&server, "n1", 1).await;
    make_pod(&server, "a", 8).await;
    assert_eq!(bind(&server, "a", "n1", json!({})).await.0, StatusCode::CONFLICT);
    let unchecked = test_server_without_capacity_check(server.store.clone(), 2);
    assert_eq!(bind(&unchecked, "a", "n1", json!({})).await.0, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_binds_never_overcommit_a_node() {
    let (server, writer) = test_server_on_thread(Store::in_memory(HistoryLimits::default()), 1);
    let server = Arc::new(server);
    make_node(&server, "n1", 0).await;
    let names: Vec<String> = (0..24).map(|index| format!("p{index}")).collect();
    for name in &names {
        make_pod(&server, name, 0).await;
    }
    let binds = names.into_iter().map(|name| {
        let server = server.clone();
        tokio::spawn(async move { bind(&server, &name, "n1", json!({})).await.0 })
    });
    let codes: Vec<StatusCode> = join_all(binds).await.into_iter().map(Result::unwrap).collect();
    let count = |wanted: StatusCode| codes.iter().filter(|code| **code == wanted).count();
    // Four CPUs, one and a half for each pod.
    assert_eq!((count(StatusCode::CREATED), count(StatusCode::CONFLICT)), (2, 22));
    drop(server);
    writer.join();
}

#[tokio::test]
async fn a_cancelled_bind_keeps_its_reservation() {
    let (server, writer) = test_server_on_thread(Store::in_memory(HistoryLimits::default()), 1);
    make_node(&server, "n1", 8).await;
    make_pod(&server, "a", 8).await;
    make_pod(&server, "b", 8).await;
    // The bind waits for the disk when its client disconnects, and is committed anyway.
    let cancelled = Box::pin(bind(&server, "a", "n1", json!({}))).now_or_never();
    assert_eq!(bind(&server, "b", "n1", json!({})).await.0, StatusCode::CONFLICT, "{cancelled:?}");
    let (code, status) = bind(&server, "a", "n1", json!({})).await;
    let message = status["message"].as_str().unwrap_or_default();
    assert!(code == StatusCode::CONFLICT && message.ends_with("already assigned to node \"n1\""), "{message}");
    drop(server);
    writer.join();
}
