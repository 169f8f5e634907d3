//! Events go by themselves an hour after their last write.

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
/// Expired objects go within this.
const SOON: Duration = Duration::from_secs(2);

fn with_expiry(home: TestServer) -> TestServer {
    tokio::spawn(home.server.clone().expire());
    home
}

async fn create(home: &TestServer, name: &str) {
    let event = json!({
        "metadata": {"name": name}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    let (code, answer) = home.post(EVENTS, event).await;
    assert_eq!(code, 201, "{answer}");
}

async fn patch(home: &TestServer, name: &str, count: u32) {
    let body = json!({"count": count}).to_string();
    let (code, answer) = home.call("PATCH", &format!("{EVENTS}/{name}"), "application/merge-patch+json", body).await;
    assert_eq!(code, 200, "{answer}");
}

async fn names(home: &TestServer) -> Vec<String> {
    let (_, list) = home.get(EVENTS).await;
    let name = |event: &Value| event["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_lives_for_an_hour_and_watchers_see_it_go() {
    let home = with_expiry(test_server());
    let since = home.store.revision();
    create(&home, "e").await;
    let born = Instant::now();
    let path = format!("/api/v1/events?watch=true&timeoutSeconds=7200&resourceVersion={since}");
    let mut watch = home.send(Request::get(path).body(Bytes::new()).unwrap()).await.into_body();
    let mut next = async || -> Value {
        serde_json::from_slice(&watch.frame().await.unwrap().unwrap().into_data().unwrap()).unwrap()
    };
    assert_eq!(next().await["type"], "ADDED");
    let gone = next().await;
    assert_eq!((&gone["type"], &gone["object"]["reason"]), (&json!("DELETED"), &json!("Tested")));
    let lived = born.elapsed();
    assert!(lived >= HOUR && lived < HOUR + SOON, "{lived:?}");
    assert_eq!(home.get(&format!("{EVENTS}/e")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_write_begins_the_hour_anew_and_one_that_changes_nothing_does_not() {
    let home = with_expiry(test_server());
    create(&home, "renewed").await;
    create(&home, "unchanged").await;
    patch(&home, "unchanged", 1).await;
    home.post(PODS, pod_document("eternal")).await;
    sleep(HOUR / 2).await;
    patch(&home, "renewed", 2).await;
    patch(&home, "unchanged", 1).await;
    sleep(HOUR / 2 - SOON).await;
    assert_eq!(names(&home).await, ["renewed", "unchanged"]);
    sleep(SOON * 2).await;
    assert_eq!(names(&home).await, ["renewed"]);
    sleep(HOUR / 2 - SOON * 2).await;
    assert_eq!(names(&home).await, ["renewed"]);
    sleep(SOON * 2).await;
    assert_eq!(names(&home).await, [""; 0]);
    sleep(HOUR * 100).await;
    assert_eq!(home.get(&format!("{PODS}/eternal")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn another_hour_can_be_set() {
    let store = Store::in_memory(HistoryLimits::default());
    let server = server_on(&store, 1).unwrap().with_event_ttl(HOUR / 4);
    let client = server.client(Identity::admin());
    let home = with_expiry(TestServer { server, store, client });
    create(&home, "e").await;
    sleep(HOUR / 4 - SOON).await;
    assert_eq!(names(&home).await, ["e"]);
    sleep(SOON * 2).await;
    assert_eq!(names(&home).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_is_bounded_and_the_next_one_follows_soon() {
    let home = with_expiry(test_server());
    for number in 0..1000 {
        create(&home, &format!("e{number}")).await;
    }
    sleep(HOUR - SOON).await;
    let mut left = vec![names(&home).await.len()];
    while *left.last().unwrap() > 0 && left.len() < 500 {
        sleep(Duration::from_millis(10)).await;
        left.push(names(&home).await.len());
    }
    left.dedup();
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= 256), "{left:?}");
    assert_eq!((left[0], *left.last().unwrap()), (1000, 0), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_neither_lengthens_nor_shortens_a_life() {
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
    // The client has a task that lets go of the server.
    tokio::task::yield_now().await;
    // Down for 40 minutes: the life of one ends meanwhile.
    let second = open("2030-01-01T01:10:00Z");
    assert_eq!(names(&second).await, ["early", "late"], "nobody has swept yet");
    let second = with_expiry(second);
    sleep(SOON).await;
    assert_eq!(names(&second).await, ["late"]);
    sleep(HOUR / 3 - SOON * 2).await;
    assert_eq!(names(&second).await, ["late"]);
    sleep(SOON * 2).await;
    assert_eq!(names(&second).await, [""; 0]);
    std::fs::remove_dir_all(&folder).unwrap();
}
