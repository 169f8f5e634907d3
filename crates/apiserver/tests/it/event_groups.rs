//! Events of the core group and of `events.k8s.io`: the same objects in two forms, under two sets of rules.

use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::test_server::{TestServer, read_response, test_server};

const CORE: &str = "/api/v1/namespaces/default/events";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// An Event as newer recorders send it.
fn newer(name: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
        "eventTime": "2030-01-01T00:00:00.500000Z", "reportingController": "test.dev/recorder",
        "reportingInstance": "recorder-1", "action": "Testing", "reason": "Tested", "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "note": "all is well",
    })
}

/// An Event as older recorders send it.
fn older(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "firstTimestamp": "2030-01-01T00:00:00Z", "lastTimestamp": "2030-01-01T00:00:05Z", "count": 3,
        "source": {"component": "kubelet", "host": "node-1"}, "reason": "Pulled", "type": "Warning",
        "involvedObject": {"kind": "Job", "namespace": "default", "name": "j"}, "message": "image is there",
    })
}

fn without_metadata(mut event: Value) -> Value {
    event.as_object_mut().unwrap().remove("metadata");
    event
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|event| event["metadata"]["name"].as_str().unwrap()).collect()
}

async fn patch(server: &TestServer, path: &str, media_type: &str, body: Value) -> (StatusCode, Value) {
    server.call("PATCH", path, media_type, body.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn an_event_of_either_group_is_in_both() {
    let server = test_server();
    let (code, made) = server.post(EVENTS, newer("new")).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    let mut want = without_metadata(newer("new"));
    want["deprecatedFirstTimestamp"] = Value::Null;
    want["deprecatedLastTimestamp"] = Value::Null;
    want["deprecatedSource"] = json!({});
    assert_eq!(without_metadata(made.clone()), want);
    let (_, core) = server.get(&format!("{CORE}/new")).await;
    assert_eq!(core["metadata"], made["metadata"]);
    let in_core = json!({
        "apiVersion": "v1", "kind": "Event", "action": "Testing", "reason": "Tested", "type": "Normal",
        "eventTime": "2030-01-01T00:00:00.500000Z", "firstTimestamp": null, "lastTimestamp": null, "source": {},
        "reportingComponent": "test.dev/recorder", "reportingInstance": "recorder-1",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "message": "all is well",
    });
    assert_eq!(without_metadata(core), in_core);

    let (code, core) = server.post(CORE, older("old")).await;
    assert_eq!(code, StatusCode::CREATED, "{core}");
    let (_, shown) = server.get(&format!("{EVENTS}/old")).await;
    let in_events = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": null, "reason": "Pulled", "type": "Warning",
        "deprecatedFirstTimestamp": "2030-01-01T00:00:00Z", "deprecatedLastTimestamp": "2030-01-01T00:00:05Z",
        "deprecatedCount": 3, "deprecatedSource": {"component": "kubelet", "host": "node-1"},
        "regarding": {"kind": "Job", "namespace": "default", "name": "j"}, "note": "image is there",
    });
    assert_eq!(without_metadata(shown.clone()), in_events);

    let (_, list) = server.get("/apis/events.k8s.io/v1/events").await;
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("events.k8s.io/v1"), &json!("EventList")));
    assert_eq!(list["items"], json!([made, shown]));
    assert_eq!(names(&server.get(CORE).await.1), ["new", "old"]);
    let (code, refused) = server.post(CORE, newer("other")).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "the body is of another group than the path: {refused}");
    let (code, refused) = server.post(EVENTS, newer("old")).await;
    assert_eq!((code, &refused["reason"]), (StatusCode::CONFLICT, &json!("AlreadyExists")), "{refused}");
    let (code, status) = server.call("DELETE", &format!("{EVENTS}/old"), "", "").await;
    assert_eq!((code, &status["details"]["group"]), (StatusCode::OK, &json!("events.k8s.io")), "{status}");
    let (code, status) = server.get(&format!("{EVENTS}/old")).await;
    let message = "events.events.k8s.io \"old\" not found";
    assert_eq!((code, &status["message"]), (StatusCode::NOT_FOUND, &json!(message)));
    assert_eq!(names(&server.get(CORE).await.1), ["new"]);
}

/// What recorders do when an event repeats.
#[tokio::test(start_paused = true)]
async fn a_series_grows_by_patches_and_nothing_else_changes() {
    let server = test_server();
    server.post(EVENTS, newer("e")).await;
    let one = format!("{EVENTS}/e");
    let series = |count: i32| json!({"series": {"count": count, "lastObservedTime": "2030-01-01T00:01:00.000000Z"}});
    for (count, media_type) in [(2, STRATEGIC), (3, "application/merge-patch+json")] {
        let (code, patched) = patch(&server, &one, media_type, series(count)).await;
        assert_eq!((code, &patched["series"]["count"]), (StatusCode::OK, &json!(count)), "{patched}");
        assert_eq!(patched["note"], "all is well", "other fields are not changed");
    }
    let operation = json!([{"op": "replace", "path": "/series/count", "value": 4}]);
    let (code, patched) = patch(&server, &one, "application/json-patch+json", operation).await;
    assert_eq!((code, &patched["series"]["count"]), (StatusCode::OK, &json!(4)), "{patched}");
    let (_, core) = server.get(&format!("{CORE}/e")).await;
    assert_eq!(core["series"], json!({"count": 4, "lastObservedTime": "2030-01-01T00:01:00.000000Z"}));
    let (code, refused) = patch(&server, &one, STRATEGIC, json!({"note": "another"})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused["message"], "Event \"e\" is invalid: message: Invalid value: \"another\": field is immutable");
    let (code, changed) = patch(&server, &format!("{CORE}/e"), STRATEGIC, json!({"message": "another"})).await;
    assert_eq!(code, StatusCode::OK, "the core group allows every change: {changed}");
    let (_, read) = server.get(&one).await;
    assert_eq!(read["note"], "another");
    let (code, put) = server.call("PUT", &one, "application/json", read.to_string()).await;
    assert_eq!((code, &put), (StatusCode::OK, &read), "a write that changes nothing");
}

#[tokio::test(start_paused = true)]
async fn each_group_has_its_own_fields_and_rules() {
    let server = test_server();
    let mut mixed = newer("e");
    mixed["message"] = json!("of the other group");
    let (code, status) = server.post(&format!("{EVENTS}?fieldValidation=Strict"), mixed.clone()).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(status["message"].as_str().unwrap().contains("unknown field \"message\""), "{status}");
    let request = Request::post(EVENTS).header("content-type", "application/json");
    let (code, made, warned) = read_response(server.send(request.body(mixed.to_string().into()).unwrap()).await).await;
    assert_eq!((code, &made["note"]), (StatusCode::CREATED, &json!("all is well")));
    assert_eq!(warned, ["unknown field \"message\""], "and no warning about the form itself");

    let mut bare = newer("bare");
    bare["eventTime"] = Value::Null;
    bare["deprecatedCount"] = json!(1);
    let (code, status) = server.post(EVENTS, bare).await;
    let causes = status["details"]["causes"].as_array().unwrap().iter();
    let fields: Vec<&str> = causes.map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!((code, fields), (StatusCode::UNPROCESSABLE_ENTITY, vec!["eventTime", "count"]), "{status}");
    let (code, made) = server
        .post(
            CORE,
            json!({"metadata": {"name": "Odd_name", "namespace": "default"},
        "involvedObject": {"namespace": "default"}}),
        )
        .await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
}

#[tokio::test(start_paused = true)]
async fn fields_are_selected_by_the_names_of_the_group() {
    let server = test_server();
    server.post(EVENTS, newer("new")).await;
    server.post(CORE, older("old")).await;
    for (collection, selector, want) in [
        (EVENTS, "regarding.kind=Pod", Some(vec!["new"])),
        (EVENTS, "regarding.name=j,reason=Pulled", Some(vec!["old"])),
        (EVENTS, "reportingController=test.dev/recorder", Some(vec!["new"])),
        (EVENTS, "type!=Normal,regarding.namespace=default", Some(vec!["old"])),
        (EVENTS, "metadata.name=old", Some(vec!["old"])),
        (EVENTS, "involvedObject.kind=Pod", None),
        (EVENTS, "source=kubelet", None),
        (CORE, "involvedObject.kind=Pod", Some(vec!["new"])),
        (CORE, "source=kubelet", Some(vec!["old"])),
        (CORE, "reportingComponent=test.dev/recorder", Some(vec!["new"])),
        (CORE, "regarding.kind=Pod", None),
    ] {
        let (code, list) = server.get(&format!("{collection}?fieldSelector={selector}")).await;
        let found = (code == StatusCode::OK).then(|| names(&list));
        assert_eq!(found, want, "{collection} {selector}: {list}");
    }
}

/// The objects of a watch that ends after a second.
async fn watched(server: &TestServer, path: &str) -> Vec<Value> {
    let request = Request::get(format!("{path}&watch=1&timeoutSeconds=1")).body(Default::default()).unwrap();
    let bytes = server.send(request).await.into_body().collect().await.unwrap().to_bytes();
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn watches_of_both_groups_report_writes_of_either() {
    let server = test_server();
    let since = server.store.revision();
    server.post(CORE, older("old")).await;
    server.post(EVENTS, newer("new")).await;
    patch(&server, &format!("{CORE}/old"), STRATEGIC, json!({"count": 4})).await;
    server.call("DELETE", &format!("{CORE}/new"), "", "").await;
    for (collection, api_version, kind) in [(CORE, "v1", "involvedObject"), (EVENTS, "events.k8s.io/v1", "regarding")] {
        let events = watched(&server, &format!("{collection}?resourceVersion={since}")).await;
        let events: Vec<[&str; 3]> = events
            .iter()
            .map(|event| {
                assert_eq!(event["object"]["apiVersion"], api_version);
                [&event["type"], &event["object"]["metadata"]["name"], &event["object"][kind]["kind"]]
                    .map(|value| value.as_str().unwrap_or_default())
            })
            .collect();
        let want =
            [["ADDED", "old", "Job"], ["ADDED", "new", "Pod"], ["MODIFIED", "old", "Job"], ["DELETED", "new", "Pod"]];
        assert_eq!(events, want, "{collection}");
    }
    let events =
        watched(&server, &format!("{EVENTS}?resourceVersion={since}&fieldSelector=regarding.kind%3DPod")).await;
    assert_eq!(events.len(), 2, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn both_groups_show_the_same_rows_and_the_same_metadata() {
    let server = test_server();
    server.post(EVENTS, newer("new")).await;
    server.post(CORE, older("old")).await;
    let rows = async |path: &str, form: &str| {
        let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");
        let request = Request::get(path).header("accept", accept).body(Default::default()).unwrap();
        read_response(server.send(request).await).await.1
    };
    for form in ["Table", "PartialObjectMetadataList"] {
        let core = rows(CORE, form).await;
        assert_eq!(rows(EVENTS, form).await, core, "{form}");
    }
    let table = rows(&format!("{EVENTS}?includeObject=Object"), "Table").await;
    let row = &table["rows"][0];
    assert_eq!((&row["cells"][2], &row["cells"][3]), (&json!("Tested"), &json!("pod/p")));
    assert_eq!(row["object"]["regarding"]["name"], "p");
}

#[tokio::test(start_paused = true)]
async fn an_event_of_the_events_group_expires_after_an_hour_too() {
    let server = test_server();
    tokio::spawn(server.server.clone().expire());
    server.post(EVENTS, newer("e")).await;
    tokio::time::sleep(Duration::from_secs(60 * 60 - 2)).await;
    assert_eq!(server.get(&format!("{EVENTS}/e")).await.0, StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(server.get(&format!("{EVENTS}/e")).await.0, StatusCode::NOT_FOUND);
    server.post(EVENTS, newer("f")).await;
    assert_eq!(server.call("DELETE", EVENTS, "", "").await.0, StatusCode::OK);
    assert_eq!(names(&server.get(CORE).await.1), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_events_group_is_described() {
    let server = test_server();
    let (_, list) = server.get("/apis/events.k8s.io/v1").await;
    let events = &list["resources"][0];
    assert_eq!((&events["name"], &events["shortNames"]), (&json!("events"), &json!(["ev"])));
    assert_eq!(events["storageVersionHash"], server.get("/api/v1").await.1["resources"][0]["storageVersionHash"]);
    let (_, document) = server.get("/openapi/v3/apis/events.k8s.io/v1").await;
    let schema = &document["components"]["schemas"]["io.k8s.api.events.v1.Event"];
    assert!(schema["properties"]["regarding"].is_object() && schema["properties"]["message"].is_null(), "{schema}");
    let path = &document["paths"]["/apis/events.k8s.io/v1/namespaces/{namespace}/events/{name}"];
    assert_eq!(path["patch"]["operationId"], "patchEventsV1NamespacedEvent");
    let (_, metrics) = server.get("/metrics").await;
    assert_eq!(metrics, Value::Null, "text, which counts the Events once");
    let bytes =
        server.send(Request::get("/metrics").body(Default::default()).unwrap()).await.into_body().collect().await;
    let text = String::from_utf8(bytes.unwrap().to_bytes().to_vec()).unwrap();
    let counted =
        text.lines().filter(|line| line.starts_with("apiserver_resource_objects{") && line.contains("\"events\""));
    assert_eq!(counted.count(), 1);
}
