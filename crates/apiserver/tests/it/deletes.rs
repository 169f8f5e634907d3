//! Deletes: grace, finalizers, propagation, preconditions, collections.

use std::time::Duration;

use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::test_server::{JOBS, PODS, TestServer, job, labelled, pod, refusal, test_server};

async fn make_bound_pod(server: &TestServer, name: &str) -> Pod {
    server.pods().create(&PostParams::default(), &pod(name)).await.unwrap();
    let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(server.post(&format!("{PODS}/{name}/binding"), binding).await.0, StatusCode::CREATED);
    server.pods().get(name).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_unscheduled_pod_is_deleted_at_once() {
    let server = test_server();
    let pods = server.pods();
    pods.create(&PostParams::default(), &pod("unbound")).await.unwrap();
    pods.delete("unbound", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("unbound").await.unwrap().is_none());
    make_bound_pod(&server, "finished").await;
    let done = json!({"status": {"phase": "Succeeded"}});
    pods.patch_status("finished", &PatchParams::default(), &Patch::Merge(&done)).await.unwrap();
    pods.delete("finished", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("finished").await.unwrap().is_none());
    assert_eq!(
        refusal(pods.delete("absent", &DeleteParams::default()).await),
        (404, "pods \"absent\" not found".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_gets_its_grace_period() {
    let server = test_server();
    let pods = server.pods();
    make_bound_pod(&server, "a").await;
    let remaining = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(remaining.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(remaining.metadata.deletion_timestamp.unwrap().0.to_string(), "2030-01-01T00:00:30Z");
    assert_eq!(remaining.metadata.generation, Some(2));
    let before = server.store.revision();
    pods.delete("a", &DeleteParams::default().grace_period(60)).await.unwrap();
    assert_eq!(server.store.revision(), before, "a second delete does not extend it");
    tokio::time::advance(Duration::from_secs(5)).await;
    let remaining = pods.delete("a", &DeleteParams::default().grace_period(10)).await.unwrap().left().unwrap();
    assert_eq!(
        remaining.metadata.deletion_timestamp.unwrap().0.to_string(),
        "2030-01-01T00:00:10Z",
        "counted from the first delete"
    );
    pods.delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_is_removed_with_its_last_finalizer() {
    let server = test_server();
    let pods = server.pods();
    let mut with_finalizer = pod("a");
    with_finalizer.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    pods.create(&PostParams::default(), &with_finalizer).await.unwrap();
    let remaining = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(remaining.metadata.deletion_timestamp.is_some());
    let undo = json!({"metadata": {"deletionTimestamp": null, "labels": {"x": "1"}}});
    let remaining = pods.patch("a", &PatchParams::default(), &Patch::Merge(&undo)).await.unwrap();
    assert!(remaining.metadata.deletion_timestamp.is_some(), "deletion cannot be undone");
    let release = json!({"metadata": {"finalizers": null}});
    pods.patch("a", &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn propagation_adds_the_garbage_collectors_finalizers() {
    let server = test_server();
    let jobs = server.jobs();
    for (name, params, want) in [
        ("orphan-by-default", DeleteParams::default(), Some("orphan")),
        ("orphan", DeleteParams::orphan(), Some("orphan")),
        ("foreground", DeleteParams::foreground(), Some("foregroundDeletion")),
        ("background", DeleteParams::background(), None),
    ] {
        jobs.create(&PostParams::default(), &job(name)).await.unwrap();
        let _ = jobs.delete(name, &params).await.unwrap();
        let remaining = jobs.get_opt(name).await.unwrap();
        let finalizers = remaining.and_then(|job| job.metadata.finalizers);
        assert_eq!(finalizers, want.map(|want| vec![want.to_owned()]), "{name}");
    }
    let _ = jobs.delete("foreground", &DeleteParams::background()).await.unwrap();
    assert!(jobs.get_opt("foreground").await.unwrap().is_none(), "a later policy replaces an earlier one");
}

#[tokio::test(start_paused = true)]
async fn a_job_deleted_without_a_policy_warns_that_its_pods_are_kept() {
    let server = test_server();
    server.jobs().create(&PostParams::default(), &job("a")).await.unwrap();
    let response = server.send(Request::delete(format!("{JOBS}/a")).body(Default::default()).unwrap()).await;
    assert!(response.headers()["warning"].to_str().unwrap().contains("child pods are preserved by default"));
}

#[tokio::test(start_paused = true)]
async fn preconditions_guard_a_delete() {
    let server = test_server();
    let pods = server.pods();
    let made = pods.create(&PostParams::default(), &pod("a")).await.unwrap();
    let with = |uid: Option<String>, version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version: version }),
        ..DeleteParams::default()
    };
    assert_eq!(refusal(pods.delete("a", &with(Some("other".to_owned()), None)).await).0, 409);
    assert_eq!(refusal(pods.delete("a", &with(None, Some("1".to_owned()))).await).0, 409);
    pods.delete("a", &with(made.metadata.uid, made.metadata.resource_version)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_collection_delete_deletes_the_selected_objects() {
    let server = test_server();
    let pods = server.pods();
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "1")] {
        pods.create(&PostParams::default(), &labelled(name, "tier", value)).await.unwrap();
    }
    let selected = ListParams::default().labels("tier=1");
    let gone = pods.delete_collection(&DeleteParams::default(), &selected).await.unwrap().left().unwrap();
    assert_eq!(gone.items.len(), 2);
    let remaining = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(remaining.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn the_response_to_a_delete_is_a_status_or_the_object() {
    let server = test_server();
    let nodes: Api<Node> = Api::all(server.client.clone());
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let made = nodes.create(&PostParams::default(), &node).await.unwrap();
    let (code, status) = server.call("DELETE", "/api/v1/nodes/n", "", "").await;
    assert_eq!((code, &status["status"]), (StatusCode::OK, &json!("Success")));
    assert_eq!(status["details"], json!({"name": "n", "kind": "nodes", "uid": made.metadata.uid}));
    let bad = json!({"propagationPolicy": "Sometimes"}).to_string();
    let (code, _) = server.call("DELETE", "/api/v1/nodes/n", "application/json", bad).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let (code, _) = server.call("DELETE", "/api/v1/nodes/n", "application/json", "[").await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_terminating_namespace() {
    let server = test_server();
    let namespaces: Api<Namespace> = Api::all(server.client.clone());
    let one: Namespace = serde_json::from_value(json!({"metadata": {"name": "one"}})).unwrap();
    namespaces.create(&PostParams::default(), &one).await.unwrap();
    let remaining = namespaces.delete("one", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(remaining.status.unwrap().phase.as_deref(), Some("Terminating"));
    let inside: Api<Pod> = Api::namespaced(server.client.clone(), "one");
    let (code, message) = refusal(inside.create(&PostParams::default(), &pod("a")).await);
    assert!(code == 403 && message.contains("because it is being terminated"), "{message}");
    assert_eq!(refusal(namespaces.delete("default", &DeleteParams::default()).await).0, 403);
    let (_, system): (_, Value) = server.get("/api/v1/namespaces/kube-system").await;
    assert_eq!(system["status"]["phase"], "Active");
}
