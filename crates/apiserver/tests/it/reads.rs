//! Reads: selectors, pages, revisions.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::Value;
use store::HistoryLimits;

use crate::test_server::{PODS, TestServer, labelled, pod, refusal, test_server, test_server_with_limits};

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

async fn make(server: &TestServer, pods: &[&str]) {
    for name in pods {
        server.pods().create(&PostParams::default(), &pod(name)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn lists_contain_the_selected_objects() {
    let server = test_server();
    let pods = server.pods();
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "1")] {
        pods.create(&PostParams::default(), &labelled(name, "tier", value)).await.unwrap();
    }
    let list = |params: ListParams| {
        let pods = pods.clone();
        async move {
            let list = pods.list(&params).await.unwrap();
            list.items.into_iter().map(|pod| pod.metadata.name.unwrap()).collect::<Vec<_>>().join(" ")
        }
    };
    assert_eq!(list(ListParams::default()).await, "a b c");
    assert_eq!(list(ListParams::default().labels("tier=1")).await, "a c");
    assert_eq!(list(ListParams::default().labels("tier in (2),!x")).await, "b");
    assert_eq!(list(ListParams::default().fields("metadata.name!=a,status.phase=Pending")).await, "b c");
    assert_eq!(list(ListParams::default().fields("spec.nodeName=n1")).await, "");
    let bad = refusal(pods.list(&ListParams::default().fields("spec.volumes=x")).await);
    assert_eq!(bad, (400, "field label \"spec.volumes\" not supported for Pod".to_owned()));
    assert_eq!(refusal(pods.list(&ListParams::default().labels("a in (")).await).0, 400);
    let system: Api<Pod> = Api::namespaced(server.client.clone(), "kube-system");
    system.create(&PostParams::default(), &pod("d")).await.unwrap();
    assert_eq!(list(ListParams::default()).await, "a b c");
    assert_eq!(Api::<Pod>::all(server.client.clone()).list(&ListParams::default()).await.unwrap().items.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_revision_despite_later_writes() {
    let server = test_server();
    make(&server, &["a", "b", "c", "d", "e"]).await;
    let (_, first) = server.get(&format!("{PODS}?limit=2")).await;
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &3.into()));
    server.pods().delete("c", &DeleteParams::default()).await.unwrap();
    make(&server, &["bb"]).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = server.get(&format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let (_, third) = server.get(&format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!((names(&third), &third["metadata"]["continue"]), (vec!["e"], &Value::Null));
    assert_eq!(names(&server.get(PODS).await.1), ["a", "b", "bb", "d", "e"]);
    assert_eq!(server.get(&format!("{PODS}?continue=nonsense")).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_compacted_revision_offers_a_new_token() {
    let server = test_server_with_limits(HistoryLimits {
        max_history_bytes: 64 << 20,
        max_history_age: Duration::from_secs(60),
    });
    make(&server, &["a", "b", "c"]).await;
    let (_, first) = server.get(&format!("{PODS}?limit=1")).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    make(&server, &["d"]).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    make(&server, &["e"]).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, status) = server.get(&format!("{PODS}?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (StatusCode::GONE, &"Expired".into()), "{status}");
    let fresh = status["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&server.get(&format!("{PODS}?continue={fresh}")).await.1), ["b", "c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_requested_revision() {
    let server = test_server();
    make(&server, &["a"]).await;
    let version = server.store.revision();
    make(&server, &["b"]).await;
    let get = |query: String| {
        let server = &server;
        async move { server.get(&format!("{PODS}?{query}")).await }
    };
    let (_, exact) = get(format!("resourceVersion={version}&resourceVersionMatch=Exact")).await;
    assert_eq!((names(&exact), &exact["metadata"]["resourceVersion"]), (vec!["a"], &version.to_string().into()));
    let (_, newer) = get(format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(names(&newer), ["a", "b"]);
    assert_eq!(names(&get("resourceVersion=0".to_owned()).await.1), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_not_reached_is_a_timeout_after_three_seconds() {
    let server = test_server();
    let before = tokio::time::Instant::now();
    let (code, status) = server.get(&format!("{PODS}?resourceVersion=1000")).await;
    assert_eq!(before.elapsed(), Duration::from_secs(3));
    assert_eq!(code, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

#[tokio::test(start_paused = true)]
async fn a_list_longer_than_a_frame_is_complete() {
    let server = test_server();
    let many: Vec<String> = (0..200).map(|index| format!("p{index:03}")).collect();
    make(&server, &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(names(&server.get(PODS).await.1), many);
}
