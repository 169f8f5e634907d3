//! Deletes: grace, finalizers, propagation, preconditions, collections.

use std::time::Duration;

use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::test_server::{JOBS, PODS, TestServer, job, labelled, pod, refusal, test_server};

async fn make_bound_pod(home: &TestServer, name: &str) -> Pod {
    home.pods().create(&PostParams::default(), &pod(name)).await.unwrap();
    let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(home.post(&format!("{PODS}/{name}/binding"), binding).await.0, StatusCode::CREATED);
    home.pods().get(name).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_unscheduled_pod_is_deleted_at_once() {
    let home = test_server();
    let pods = home.pods();
    pods.create(&PostParams::default(), &pod("unbound")).await.unwrap();
    pods.delete("unbound", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("unbound").await.unwrap().is_none());
    make_bound_pod(&home, "finished").await;
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
    let home = test_server();
    let pods = home.pods();
    make_bound_pod(&home, "a").await;
    let left = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(left.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(left.metadata.deletion_timestamp.unwrap().0.to_string(), "2030-01-01T00:00:30Z");
    assert_eq!(left.metadata.generation, Some(2));
    let before = home.store.revision();
    pods.delete("a", &DeleteParams::default().grace_period(60)).await.unwrap();
    assert_eq!(home.store.revision(), before, "a second delete does not lengthen it");
    tokio::time::advance(Duration::from_secs(5)).await;
    let left = pods.delete("a", &DeleteParams::default().grace_period(10)).await.unwrap().left().unwrap();
    assert_eq!(
        left.metadata.deletion_timestamp.unwrap().0.to_string(),
        "2030-01-01T00:00:10Z",
        "counted from the first delete"
    );
    pods.delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_last_finalizer_removed_lets_the_object_go() {
    let home = test_server();
    let pods = home.pods();
    let mut held = pod("a");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    pods.create(&PostParams::default(), &held).await.unwrap();
    let left = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(left.metadata.deletion_timestamp.is_some());
    let undo = json!({"metadata": {"deletionTimestamp": null, "labels": {"x": "1"}}});
    let left = pods.patch("a", &PatchParams::default(), &Patch::Merge(&undo)).await.unwrap();
    assert!(left.metadata.deletion_timestamp.is_some(), "deletion cannot be taken back");
    let release = json!({"metadata": {"finalizers": null}});
    pods.patch("a", &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn propagation_puts_the_collectors_finalizers_on() {
    let home = test_server();
    let jobs = home.jobs();
    for (name, params, want) in [
        ("orphan-by-default", DeleteParams::default(), Some("orphan")),
        ("orphan", DeleteParams::orphan(), Some("orphan")),
        ("foreground", DeleteParams::foreground(), Some("foregroundDeletion")),
        ("background", DeleteParams::background(), None),
    ] {
        jobs.create(&PostParams::default(), &job(name)).await.unwrap();
        let _ = jobs.delete(name, &params).await.unwrap();
        let left = jobs.get_opt(name).await.unwrap();
        let finalizers = left.and_then(|job| job.metadata.finalizers);
        assert_eq!(finalizers, want.map(|want| vec![want.to_owned()]), "{name}");
    }
    let _ = jobs.delete("foreground", &DeleteParams::background()).await.unwrap();
    assert!(jobs.get_opt("foreground").await.unwrap().is_none(), "a later policy replaces an earlier one");
}

#[tokio::test(start_paused = true)]
async fn a_job_deleted_without_a_policy_says_that_its_pods_stay() {
    let home = test_server();
    home.jobs().create(&PostParams::default(), &job("a")).await.unwrap();
    let response = home.send(Request::delete(format!("{JOBS}/a")).body(Default::default()).unwrap()).await;
    assert!(response.headers()["warning"].to_str().unwrap().contains("child pods are preserved by default"));
}

#[tokio::test(start_paused = true)]
async fn preconditions_guard_a_delete() {
    let home = test_server();
    let pods = home.pods();
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
async fn a_collection_delete_takes_what_the_selectors_mean() {
    let home = test_server();
    let pods = home.pods();
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "1")] {
        pods.create(&PostParams::default(), &labelled(name, "tier", value)).await.unwrap();
    }
    let selected = ListParams::default().labels("tier=1");
    let gone = pods.delete_collection(&DeleteParams::default(), &selected).await.unwrap().left().unwrap();
    assert_eq!(gone.items.len(), 2);
    let left = pods.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_delete_is_a_status_or_the_object() {
    let home = test_server();
    let nodes: Api<Node> = Api::all(home.client.clone());
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let made = nodes.create(&PostParams::default(), &node).await.unwrap();
    let (code, status) = home.call("DELETE", "/api/v1/nodes/n", "", "").await;
    assert_eq!((code, &status["status"]), (StatusCode::OK, &json!("Success")));
    assert_eq!(status["details"], json!({"name": "n", "kind": "nodes", "uid": made.metadata.uid}));
    let bad = json!({"propagationPolicy": "Sometimes"}).to_string();
    let (code, _) = home.call("DELETE", "/api/v1/nodes/n", "application/json", bad).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let (code, _) = home.call("DELETE", "/api/v1/nodes/n", "application/json", "[").await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_takes_nothing_new() {
    let home = test_server();
    let namespaces: Api<Namespace> = Api::all(home.client.clone());
    let one: Namespace = serde_json::from_value(json!({"metadata": {"name": "one"}})).unwrap();
    namespaces.create(&PostParams::default(), &one).await.unwrap();
    let left = namespaces.delete("one", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(left.status.unwrap().phase.as_deref(), Some("Terminating"));
    let inside: Api<Pod> = Api::namespaced(home.client.clone(), "one");
    let (code, message) = refusal(inside.create(&PostParams::default(), &pod("a")).await);
    assert!(code == 403 && message.contains("because it is being terminated"), "{message}");
    assert_eq!(refusal(namespaces.delete("default", &DeleteParams::default()).await).0, 403);
    let (_, system): (_, Value) = home.get("/api/v1/namespaces/kube-system").await;
    assert_eq!(system["status"]["phase"], "Active");
}
