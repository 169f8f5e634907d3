//! Metadata in writes, and the form of stored and returned objects.

use serde_json::{Value, json};

use crate::test_server::{read_response, test_server};

const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn group(metadata: Value) -> Value {
    let mut group = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}}});
    group["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    group
}

#[tokio::test(start_paused = true)]
async fn a_resource_version_is_checked_on_updates_and_refused_on_creates() {
    let server = test_server();
    let (code, status) = server.post(GROUPS, group(json!({"resourceVersion": "7"}))).await;
    assert_eq!((code.as_u16(), &status["reason"]), (500, &Value::Null));
    let (code, made) = server.post(GROUPS, group(json!({"resourceVersion": "Bad_Format!"}))).await;
    assert_eq!(code.as_u16(), 201, "{made}");
    for (version, code, message) in [
        ("sample", 500, "strconv.ParseUint: parsing \"sample\": invalid syntax"),
        ("99999999999999999999999", 500, "strconv.ParseUint: parsing \"99999999999999999999999\": value out of range"),
        ("1", 409, "the object has been modified"),
    ] {
        let body = group(json!({"resourceVersion": version})).to_string();
        let (found, status) = server.call("PUT", &format!("{GROUPS}/g"), "application/json", body).await;
        let text = status["message"].as_str().unwrap();
        assert!(found.as_u16() == code && text.contains(message), "{version}: {found} {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_only_the_server_sets_are_ignored_or_refused() {
    let server = test_server();
    let (_, made) = server.post(GROUPS, group(json!({}))).await;
    let path = format!("{GROUPS}/g");
    let change = |field: &str, value: Value| {
        let mut next = made.clone();
        next["metadata"][field] = value;
        next.to_string()
    };
    let (code, next) =
        server.call("PUT", &path, "application/json", change("creationTimestamp", json!("2026-01-02T03:04:05Z"))).await;
    assert_eq!((code.as_u16(), &next["metadata"]), (200, &made["metadata"]));
    for (field, value) in
        [("deletionTimestamp", json!("2026-01-02T03:04:05Z")), ("deletionGracePeriodSeconds", json!(3))]
    {
        let (code, status) = server.call("PUT", &path, "application/json", change(field, value.clone())).await;
        assert_eq!(code.as_u16(), 422);
        assert_eq!(
            status["details"]["causes"][0]["message"],
            format!("Invalid value: {value}: field is immutable"),
            "{field}"
        );
    }
    let (code, status) = server.call("PUT", &path, "application/json", change("name", Value::Null)).await;
    assert_eq!(code.as_u16(), 400);
    assert_eq!(status["message"], "the name of the object (g based on URL) was undeterminable: name must be provided");
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "c", "namespace": "x"}});
    let (code, class) = server.post(CLASSES, class).await;
    assert_eq!((code.as_u16(), &class["metadata"]["namespace"], &class["value"]), (201, &Value::Null, &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_owner_is_dropped_with_a_warning_even_when_the_write_is_refused() {
    let server = test_server();
    let owner = |name: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": name == "a"});
    let owners = json!({"ownerReferences": [owner("a"), owner("b"), owner("a")]});
    for code in [201, 409] {
        let request = http::Request::post(GROUPS).header("content-type", "application/json");
        let body = group(owners.clone()).to_string().into();
        let (found, response, warnings) = read_response(server.send(request.body(body).unwrap()).await).await;
        assert_eq!((found.as_u16(), warnings.len()), (code, 1), "{response}");
        assert!(warnings[0].ends_with("duplicate UID(s) observed: u"), "{warnings:?}");
    }
    let (_, stored) = server.get(&format!("{GROUPS}/g")).await;
    assert_eq!(stored["metadata"]["ownerReferences"], json!([owner("a"), owner("b")]));
}

#[tokio::test(start_paused = true)]
async fn responses_equal_stored_objects_for_every_client() {
    let server = test_server();
    let metadata = json!({"labels": {}, "finalizers": [], "annotations": {"a": null}});
    let (_, made) = server.post(GROUPS, group(metadata)).await;
    assert_eq!((&made["status"], &made["metadata"]["labels"]), (&json!({}), &Value::Null));
    assert_eq!(made["metadata"]["annotations"], json!({"a": ""}));
    let path = format!("{GROUPS}/g");
    assert_eq!(server.get(&path).await.1, made);
    let merge = "application/merge-patch+json";
    let (_, patched) = server.call("PATCH", &path, merge, r#"{"metadata":{"annotations":{"a":null}}}"#).await;
    assert_eq!(patched["metadata"]["annotations"], Value::Null);
    let status = format!("{path}/status");
    let (_, patched) = server.call("PATCH", &status, merge, r#"{"status":{"conditions":[]}}"#).await;
    assert_eq!(patched["status"], json!({}));
    assert_eq!(server.get(&path).await.1, patched);
}
