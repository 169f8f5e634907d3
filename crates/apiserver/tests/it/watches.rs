//! Watches: order, resuming, selectors, bookmarks, 410.

use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube_runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use store::HistoryLimits;

use crate::test_server::{PODS, TestServer, labelled, pod, test_server, test_server_with_limits};

/// The next event as text: `ADDED a`; bookmarks have their revision.
async fn next(stream: &mut (impl Stream<Item = Result<WatchEvent<Pod>, kube::Error>> + Unpin)) -> String {
    let name = |pod: Pod| pod.metadata.name.unwrap();
    match stream.next().await {
        None => "end".to_owned(),
        Some(Ok(WatchEvent::Added(pod))) => format!("ADDED {}", name(pod)),
        Some(Ok(WatchEvent::Modified(pod))) => format!("MODIFIED {}", name(pod)),
        Some(Ok(WatchEvent::Deleted(pod))) => format!("DELETED {}", name(pod)),
        Some(Ok(WatchEvent::Bookmark(bookmark))) => {
            let end = bookmark.metadata.annotations.contains_key("k8s.io/initial-events-end");
            format!("BOOKMARK {}{}", bookmark.metadata.resource_version, if end { " end" } else { "" })
        }
        Some(Ok(WatchEvent::Error(status))) => format!("ERROR {} {}", status.code, status.message),
        Some(Err(error)) => format!("{error}"),
    }
}

async fn relabel(server: &TestServer, name: &str, value: &str) {
    let patch = json!({"metadata": {"labels": {"tier": value}}});
    server.pods().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_with_the_current_objects_and_continues_with_changes() {
    let server = test_server();
    server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let mut watch = server.pods().watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert_eq!(next(&mut watch).await, "ADDED a");
    server.pods().create(&PostParams::default(), &pod("b")).await.unwrap();
    relabel(&server, "a", "1").await;
    relabel(&server, "a", "1").await;
    let gone = server.pods().delete("b", &DeleteParams::default()).await.unwrap();
    for want in ["ADDED b", "MODIFIED a"] {
        assert_eq!(next(&mut watch).await, want, "a write that changes nothing causes no event");
    }
    let Some(Ok(WatchEvent::Deleted(last))) = watch.next().await else { panic!("no delete") };
    assert_eq!(last.metadata.resource_version, Some(server.store.revision().to_string()));
    assert_eq!(gone.left().unwrap().metadata.uid, last.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_after_its_resource_version() {
    let server = test_server();
    server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let made = server.pods().create(&PostParams::default(), &pod("b")).await.unwrap();
    server.pods().create(&PostParams::default(), &pod("c")).await.unwrap();
    let version = made.metadata.resource_version.unwrap();
    let mut watch = server.pods().watch(&WatchParams::default(), &version).await.unwrap().boxed();
    assert_eq!(next(&mut watch).await, "ADDED c");
}

#[tokio::test(start_paused = true)]
async fn objects_enter_and_leave_a_selected_watch() {
    let server = test_server();
    server.pods().create(&PostParams::default(), &labelled("a", "tier", "1")).await.unwrap();
    let params = WatchParams::default().labels("tier=1");
    let mut watch = server.pods().watch(&params, "0").await.unwrap().boxed();
    assert_eq!(next(&mut watch).await, "ADDED a");
    relabel(&server, "a", "2").await;
    let Some(Ok(WatchEvent::Deleted(last))) = watch.next().await else { panic!("no delete") };
    assert_eq!(last.metadata.labels.unwrap()["tier"], "1", "the last state that matched");
    assert_eq!(last.metadata.resource_version, Some(server.store.revision().to_string()));
    relabel(&server, "a", "3").await;
    relabel(&server, "a", "1").await;
    assert_eq!(next(&mut watch).await, "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_at_the_end() {
    let server = test_server();
    let start = tokio::time::Instant::now();
    let params = WatchParams::default().timeout(90);
    let mut watch = server.pods().watch(&params, "0").await.unwrap().boxed();
    let want = format!("BOOKMARK {}", server.store.revision());
    assert_eq!((next(&mut watch).await, start.elapsed().as_secs()), (want.clone(), 60));
    assert_eq!((next(&mut watch).await, start.elapsed().as_secs()), (want, 90));
    assert_eq!(next(&mut watch).await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_lasts_between_half_an_hour_and_an_hour() {
    let server = test_server();
    let start = tokio::time::Instant::now();
    let request = Request::get(format!("{PODS}?watch=true")).body(Default::default()).unwrap();
    let body = server.send(request).await.into_body().collect().await.unwrap().to_bytes();
    assert!(body.is_empty());
    assert!((1800..3600).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_a_marked_bookmark() {
    let server = test_server();
    server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let params = WatchParams::default().initial_events();
    let mut watch = server.pods().watch(&params, "0").await.unwrap().boxed();
    assert_eq!(next(&mut watch).await, "ADDED a");
    assert_eq!(next(&mut watch).await, format!("BOOKMARK {} end", server.store.revision()));
    server.pods().create(&PostParams::default(), &pod("b")).await.unwrap();
    assert_eq!(next(&mut watch).await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_compacted_revision_gets_410() {
    let server = test_server_with_limits(HistoryLimits {
        max_history_bytes: 64 << 20,
        max_history_age: Duration::from_secs(60),
    });
    let made = server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    for value in ["1", "2", "3"] {
        tokio::time::advance(Duration::from_secs(3600)).await;
        relabel(&server, "a", value).await;
    }
    let version = made.metadata.resource_version.unwrap();
    let mut watch = server.pods().watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let text = next(&mut watch).await;
    assert!(text.starts_with(&format!("ERROR 410 too old resource version: {version} (")), "{text}");
    assert_eq!(next(&mut watch).await, "end");
}

#[tokio::test(start_paused = true)]
async fn pending_events_share_a_frame() {
    let server = test_server();
    let version = server.store.revision();
    for name in ["a", "b", "c"] {
        server.pods().create(&PostParams::default(), &pod(name)).await.unwrap();
    }
    let uri = format!("{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let mut body = server.send(Request::get(uri).body(Default::default()).unwrap()).await.into_body();
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let lines: Vec<Value> =
        frame.split_inclusive(|&b| b == b'\n').map(|l| serde_json::from_slice(l).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_watcher_of_kube_works_with_this_server() {
    let server = test_server();
    server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut objects = watcher(server.pods(), config).applied_objects().boxed();
        assert_eq!(objects.try_next().await.unwrap().unwrap().metadata.name.as_deref(), Some("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_and_the_same_requests_give_the_same_bytes() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let server = test_server();
        let mut generated = pod("");
        generated.metadata.generate_name = Some("p-".to_owned());
        for _ in 0..3 {
            server.pods().create(&PostParams::default(), &generated).await.unwrap();
        }
        let uri = format!("{PODS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true");
        let response = server.send(Request::get(uri).body(Default::default()).unwrap()).await;
        runs.push(response.into_body().collect().await.unwrap().to_bytes());
    }
    assert!(!runs[0].is_empty());
    assert_eq!(runs[0], runs[1]);
}
