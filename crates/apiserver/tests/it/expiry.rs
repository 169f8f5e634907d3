//! Events expire an hour after their last write.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use phalanx_apiserver::Identity;
use serde_json::{Value, json};
use store::{Disk, DiskOptions, HistoryLimits, Store};
use tokio::time::{Instant, sleep};

use crate::test_server::{PODS, TestServer, pod_document, server_on, test_server, test_server_at};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Expired objects are deleted within this time.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);

fn with_expiry(server: TestServer) -> TestServer {
    tokio::spawn(server.server.clone().expire());
    server
}

async fn create(server: &TestServer, name: &str) {
    let event = json!({
        "metadata": {"name": name}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    let (code, response) = server.post(EVENTS, event).await;
    assert_eq!(code, 201, "{response}");
}

async fn patch(server: &TestServer, name: &str, count: u32) {
    let body = json!({"count": count}).to_string();
    let (code, response) =
        server.call("PATCH", &format!("{EVENTS}/{name}"), "application/merge-patch+json", body).await;
    assert_eq!(code, 200, "{response}");
}

async fn names(server: &TestServer) -> Vec<String> {
    let (_, list) = server.get(EVENTS).await;
    let name = |event: &Value| event["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_expires_after_an_hour_and_watches_report_it() {
    let server = with_expiry(test_server());
    let since = server.store.revision();
    create(&server, "e").await;
    let created = Instant::now();
    let path = format!("/api/v1/events?watch=true&timeoutSeconds=7200&resourceVersion={since}");
    let mut watch = server.send(Request::get(path).body(Bytes::new()).unwrap()).await.into_body();
    let mut next = async || -> Value {
        serde_json::from_slice(&watch.frame().await.unwrap().unwrap().into_data().unwrap()).unwrap()
    };
    assert_eq!(next().await["type"], "ADDED");
    let deleted = next().await;
    assert_eq!((&deleted["type"], &deleted["object"]["reason"]), (&json!("DELETED"), &json!("Tested")));
    let lived = created.elapsed();
    assert!(lived >= HOUR && lived < HOUR + SWEEP_TIMEOUT, "{lived:?}");
    assert_eq!(server.get(&format!("{EVENTS}/e")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_write_restarts_the_hour_and_one_that_changes_nothing_does_not() {
    let server = with_expiry(test_server());
    create(&server, "renewed").await;
    create(&server, "unchanged").await;
    patch(&server, "unchanged", 1).await;
    server.post(PODS, pod_document("eternal")).await;
    sleep(HOUR / 2).await;
    patch(&server, "renewed", 2).await;
    patch(&server, "unchanged", 1).await;
    sleep(HOUR / 2 - SWEEP_TIMEOUT).await;
    assert_eq!(names(&server).await, ["renewed", "unchanged"]);
    sleep(SWEEP_TIMEOUT * 2).await;
    assert_eq!(names(&server).await, ["renewed"]);
    sleep(HOUR / 2 - SWEEP_TIMEOUT * 2).await;
    assert_eq!(names(&server).await, ["renewed"]);
    sleep(SWEEP_TIMEOUT * 2).await;
    assert_eq!(names(&server).await, [""; 0]);
    sleep(HOUR * 100).await;
    assert_eq!(server.get(&format!("{PODS}/eternal")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn the_lifetime_can_be_set() {
    let store = Store::in_memory(HistoryLimits::default());
    let server = server_on(&store, 1).unwrap().with_event_ttl(HOUR / 4);
    let client = server.client(Identity::admin());
    let server = with_expiry(TestServer { server, store, client });
    create(&server, "e").await;
    sleep(HOUR / 4 - SWEEP_TIMEOUT).await;
    assert_eq!(names(&server).await, ["e"]);
    sleep(SWEEP_TIMEOUT * 2).await;
    assert_eq!(names(&server).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_is_bounded_and_the_next_one_follows_quickly() {
    let server = with_expiry(test_server());
    for number in 0..1000 {
        create(&server, &format!("e{number}")).await;
    }
    sleep(HOUR - SWEEP_TIMEOUT).await;
    let mut counts = vec![names(&server).await.len()];
    while *counts.last().unwrap() > 0 && counts.len() < 500 {
        sleep(Duration::from_millis(10)).await;
        counts.push(names(&server).await.len());
    }
    counts.dedup();
    assert!(counts.windows(2).all(|pair| pair[0] - pair[1] <= 256), "{counts:?}");
    assert_eq!((counts[0], *counts.last().unwrap()), (1000, 0), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_change_expiry() {
    let folder = std::env::temp_dir().join(format!("phalanx-expiry-{}", std::process::id()));
    let open = |time: &str| {
        let disk = Disk::open(&folder, DiskOptions::new(time.parse().unwrap())).unwrap();
        test_server_at(Store::open(Box::new(disk), HistoryLimits::default()).unwrap(), 1, time)
    };
    let first = open("2030-01-01T00:00:00Z");
    create(&first, "early").await;
    sleep(HOUR / 2).await;
    create(&first, "late").await;
    drop(first);
    // The client has a task that drops the server.
    tokio::task::yield_now().await;
    // Down for 40 minutes, in which one event expires.
    let second = open("2030-01-01T01:10:00Z");
    assert_eq!(names(&second).await, ["early", "late"], "no sweep has run yet");
    let second = with_expiry(second);
    sleep(SWEEP_TIMEOUT).await;
    assert_eq!(names(&second).await, ["late"]);
    sleep(HOUR / 3 - SWEEP_TIMEOUT * 2).await;
    assert_eq!(names(&second).await, ["late"]);
    sleep(SWEEP_TIMEOUT * 2).await;
    assert_eq!(names(&second).await, [""; 0]);
    std::fs::remove_dir_all(&folder).unwrap();
}
