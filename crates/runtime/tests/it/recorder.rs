//! The event recorder: what is written, repeated and dropped.

use std::sync::Arc;
use std::time::Duration;

use phalanx_runtime::{EventKind, ObjectRef, Recorder, TokioClock};
use serde_json::Value;
use types::{Random, Timestamp};

use crate::fake_server::FakeServer;

fn object_ref(name: &str) -> ObjectRef {
    let text = |s: &str| s.to_owned();
    ObjectRef {
        api_version: text("v1"),
        kind: text("Pod"),
        namespace: text("ns"),
        name: text(name),
        uid: format!("uid-{name}"),
        ..ObjectRef::default()
    }
}

fn recorder(server: &FakeServer) -> Recorder {
    let clock = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let (recorder, writer) = Recorder::new("tester", server.client(), clock, Random::seeded(1));
    tokio::spawn(writer);
    recorder
}

/// Lets the writer finish and returns method, path and body of its requests.
async fn sent_requests(server: &FakeServer) -> Vec<(String, String, Value)> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let parse = |line: String| {
        let mut parts = line.splitn(3, ' ').map(str::to_owned);
        let (method, path) = (parts.next().unwrap(), parts.next().unwrap());
        (method, path, serde_json::from_str(&parts.next().unwrap()).unwrap())
    };
    server.take_requests().into_iter().map(parse).collect()
}

const OK: &str = r#"{"metadata":{"uid":"u","resourceVersion":"7"}}"#;

#[tokio::test(start_paused = true)]
async fn an_event_has_its_object_and_reason() {
    let server = FakeServer::default();
    server.reply(201, OK);
    recorder(&server).event(&object_ref("a"), EventKind::Normal, "Scheduled", "Binding", "assigned");
    let written = sent_requests(&server).await;
    let (method, path, mut body) = written.into_iter().next().unwrap();
    assert_eq!((method.as_str(), path.as_str()), ("POST", "/api/v1/namespaces/ns/events"));
    let name = body["metadata"]["name"].take();
    let digits = name.as_str().unwrap().strip_prefix("a.").unwrap();
    assert!(digits.len() == 16 && digits.chars().all(|c| c.is_ascii_hexdigit()), "{digits}");
    let want = serde_json::json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": null, "namespace": "ns"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "a", "uid": "uid-a"},
        "type": "Normal", "reason": "Scheduled", "action": "Binding", "message": "assigned",
        "reportingComponent": "tester", "reportingInstance": "tester", "source": {"component": "tester"},
        "firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": "1970-01-01T00:00:00Z",
        "eventTime": null, "count": 1
    });
    assert_eq!(body, want);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_within_ten_minutes_is_counted() {
    let server = FakeServer::default();
    (0..4).for_each(|_| server.reply(201, OK));
    let recorder = recorder(&server);
    let tell =
        |message| recorder.event(&object_ref("a"), EventKind::Warning, "FailedScheduling", "Scheduling", message);
    tell("full");
    let posted = sent_requests(&server).await;
    tokio::time::sleep(Duration::from_secs(500)).await;
    tell("full");
    let (method, path, body) = sent_requests(&server).await.pop().unwrap();
    assert_eq!(method, "PATCH");
    assert!(path.ends_with(posted[0].2["metadata"]["name"].as_str().unwrap()), "{path}");
    assert_eq!(body, serde_json::json!({"count": 2, "lastTimestamp": "1970-01-01T00:08:20Z"}));
    tell("other");
    assert_eq!(sent_requests(&server).await.pop().unwrap().0, "POST", "another message is another event");
    tokio::time::sleep(Duration::from_secs(601)).await;
    tell("full");
    assert_eq!(sent_requests(&server).await.pop().unwrap().0, "POST", "too long ago");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_that_the_server_deleted_is_created_again() {
    let server = FakeServer::default();
    server.reply(201, OK);
    server.reply(404, r#"{"kind":"Status","code":404,"reason":"NotFound"}"#);
    server.reply(201, OK);
    let recorder = recorder(&server);
    for _ in 0..2 {
        recorder.event(&object_ref("a"), EventKind::Normal, "Pulled", "Pull", "image");
    }
    let methods: Vec<String> = sent_requests(&server).await.into_iter().map(|(method, ..)| method).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST"]);
    assert_eq!(recorder.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_the_oldest_and_counts_them() {
    let server = FakeServer::default();
    let clock = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let (recorder, writer) = Recorder::new("tester", server.client(), clock, Random::seeded(1));
    for number in 0..4100 {
        recorder.event(&object_ref(&format!("p{number}")), EventKind::Normal, "Scheduled", "Binding", "");
    }
    assert_eq!(recorder.dropped(), 4);
    tokio::spawn(writer);
    let (_, _, first) = sent_requests(&server).await.remove(0);
    assert_eq!(first["involvedObject"]["name"], "p4");
}

#[tokio::test(start_paused = true)]
async fn a_busy_object_fills_the_queue_at_its_own_expense() {
    let server = FakeServer::default();
    let clock = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let (recorder, writer) = Recorder::new("tester", server.client(), clock, Random::seeded(1));
    recorder.event(&object_ref("quiet"), EventKind::Normal, "PodGroupCreated", "Create", "");
    for number in 0..5000 {
        recorder.event(&object_ref("busy"), EventKind::Normal, "SuccessfulCreate", "Create", &number.to_string());
    }
    recorder.event(&object_ref("broken"), EventKind::Warning, "FailedCreate", "Create", "");
    tokio::spawn(writer);
    let first: Vec<Value> = sent_requests(&server)
        .await
        .into_iter()
        .take(3)
        .map(|(_, _, body)| body["involvedObject"]["name"].clone())
        .collect();
    assert_eq!(first, ["broken", "quiet", "busy"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_tried_again_while_the_server_is_away_but_not_for_ever() {
    let server = FakeServer::default();
    server.reply(503, "");
    server.reply(201, OK);
    (0..4).for_each(|_| server.reply(503, ""));
    let recorder = recorder(&server);
    recorder.event(&object_ref("a"), EventKind::Normal, "Scheduled", "Binding", "");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((server.take_requests().len(), recorder.dropped()), (2, 0));
    recorder.event(&object_ref("b"), EventKind::Normal, "Scheduled", "Binding", "");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((server.take_requests().len(), recorder.dropped()), (4, 1));
}
