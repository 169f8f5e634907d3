//! Every endpoint of workload-aware scheduling, in every version, with every verb.

use std::collections::BTreeSet;

use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::test_server::{TestServer, job_document, test_server};

const GROUP: &str = "/apis/scheduling.k8s.io";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

fn policy() -> Value {
    json!({"gang": {"minCount": 2}})
}

/// An object of the kind, with its storage version.
fn sample(plural: &str) -> (&'static str, Value) {
    let reference = json!({"workloadName": "w", "templateName": "t"});
    match plural {
        "workloads" => ("v1beta1", json!({"podGroupTemplates": [{"name": "t", "schedulingPolicy": policy()}]})),
        "podgroups" => ("v1beta1", json!({"schedulingPolicy": policy(), "workloadRef": reference})),
        "compositepodgroups" => ("v1alpha3", json!({"schedulingPolicy": {"basic": {}}, "workloadRef": reference})),
        other => panic!("{other} needs a sample here"),
    }
}

fn path(version: &str, plural: &str) -> String {
    format!("{GROUP}/{version}/namespaces/default/{plural}")
}

async fn ok(server: &TestServer, method: &str, path: &str, media_type: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (code, response) = server.call(method, path, media_type, body).await;
    assert!(code.is_success(), "{method} {path}: {code} {response}");
    response
}

/// Creates an object called `name` in this version.
async fn make(server: &TestServer, version: &str, plural: &str, name: &str) -> Value {
    let (storage_version, spec) = sample(plural);
    let model = format!("model-{name}");
    ok(server, "POST", &path(storage_version, plural), JSON, &json!({"metadata": {"name": model}, "spec": spec})).await;
    let mut object = ok(server, "GET", &format!("{}/{model}", path(version, plural)), "", &Value::Null).await;
    object["metadata"] = json!({"name": name});
    ok(server, "POST", &path(version, plural), JSON, &object).await
}

/// Exercises the verb on a new object, and checks the result.
async fn exercise(server: &TestServer, version: &str, resource: &str, verb: &str) {
    let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let name = format!("{version}-{verb}{}", if subresource.is_empty() { "" } else { "-part" });
    let made = make(server, version, plural, &name).await;
    let collection = path(version, plural);
    let one = format!("{collection}/{name}");
    let target = if subresource.is_empty() { one.clone() } else { format!("{one}/{subresource}") };
    // The change, and the path where it is checked.
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "Shown", "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    });
    let (change, pointer) = if subresource.is_empty() {
        (json!({"metadata": {"labels": {"a": "b"}}}), "/metadata/labels/a")
    } else {
        (json!({"status": {"conditions": [condition]}}), "/status/conditions/0/type")
    };
    match verb {
        "create" => assert_eq!(made["metadata"]["name"], json!(name)),
        "get" => assert_eq!(ok(server, "GET", &target, "", &Value::Null).await["metadata"], made["metadata"]),
        "list" => {
            let list = ok(server, "GET", &collection, "", &Value::Null).await;
            assert!(list["items"].as_array().unwrap().iter().any(|item| item["metadata"] == made["metadata"]));
        }
        "watch" => {
            let query = format!("{collection}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name={name}");
            let request = http::Request::get(query).body(Default::default()).unwrap();
            let bytes = server.send(request).await.into_body().collect().await.unwrap().to_bytes();
            let event: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!((&event["type"], &event["object"]["metadata"]), (&json!("ADDED"), &made["metadata"]));
        }
        "update" => {
            let mut changed = made.clone();
            changed["metadata"]["labels"] = change["metadata"]["labels"].clone();
            changed["status"] = change["status"].clone();
            let put = ok(server, "PUT", &target, JSON, &changed).await;
            assert_eq!(put.pointer(pointer), change.pointer(pointer), "{put}");
        }
        "patch" => {
            let patched = ok(server, "PATCH", &target, MERGE, &change).await;
            assert_eq!(patched.pointer(pointer), change.pointer(pointer), "{patched}");
        }
        "delete" | "deletecollection" => {
            // Groups have a finalizer, which the controller would remove.
            ok(server, "PATCH", &one, MERGE, &json!({"metadata": {"finalizers": null}})).await;
            let all = format!("{collection}?fieldSelector=metadata.name={name}");
            ok(server, "DELETE", if verb == "delete" { &one } else { &all }, "", &Value::Null).await;
            assert_eq!(server.get(&one).await.0, StatusCode::NOT_FOUND, "{one}");
        }
        other => panic!("{resource}: verb {other} has no test"),
    }
}

// Shows: S000-01
// Shows: S003-30
// Shows: U-e2e-workload-api
#[tokio::test(start_paused = true)]
async fn every_verb_of_every_endpoint_works_in_every_version() {
    let server = test_server();
    let (_, group) = server.get(GROUP).await;
    let mut exercised = BTreeSet::new();
    for version in group["versions"].as_array().unwrap() {
        let version = version["version"].as_str().unwrap();
        let (_, list) = server.get(&format!("{GROUP}/{version}")).await;
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if name == "priorityclasses" {
                continue;
            }
            for verb in resource["verbs"].as_array().unwrap() {
                exercise(&server, version, name, verb.as_str().unwrap()).await;
                exercised.insert((version.to_owned(), name.to_owned()));
            }
        }
    }
    for (version, name) in [
        ("v1beta1", "workloads"),
        ("v1beta1", "podgroups/status"),
        ("v1alpha3", "compositepodgroups/status"),
        ("v1alpha2", "workloads"),
        ("v1alpha1", "podgroups"),
    ] {
        assert!(exercised.contains(&(version.to_owned(), name.to_owned())), "{version} {name} is not offered");
    }
}

// Shows: S000-94
#[tokio::test(start_paused = true)]
async fn workloads_and_groups_are_listed_over_all_namespaces() {
    let server = test_server();
    ok(&server, "POST", "/api/v1/namespaces", JSON, &json!({"metadata": {"name": "other"}})).await;
    for plural in ["workloads", "podgroups"] {
        let (version, spec) = sample(plural);
        for namespace in ["default", "other"] {
            let path = format!("{GROUP}/{version}/namespaces/{namespace}/{plural}");
            ok(&server, "POST", &path, JSON, &json!({"metadata": {"name": "a"}, "spec": spec})).await;
        }
        let list = ok(&server, "GET", &format!("{GROUP}/{version}/{plural}"), "", &Value::Null).await;
        let found: Vec<&Value> =
            list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["namespace"]).collect();
        assert_eq!(found, ["default", "other"], "{plural}");
    }
}

// Shows: S002-01
#[tokio::test(start_paused = true)]
async fn a_workload_has_no_status() {
    let server = test_server();
    let made = make(&server, "v1beta1", "workloads", "a").await;
    let fields: Vec<&String> = made.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata", "spec"]);
    assert_eq!(server.get(&format!("{}/a/status", path("v1beta1", "workloads"))).await.0, StatusCode::NOT_FOUND);
    let (code, status) = server
        .call(
            "PATCH",
            &format!("{}/a?fieldValidation=Strict", path("v1beta1", "workloads")),
            MERGE,
            r#"{"status": {}}"#,
        )
        .await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{status}");
    assert!(status["message"].as_str().unwrap().ends_with("unknown field \"status\""), "{status}");
}

// Shows: S002-13
#[tokio::test(start_paused = true)]
async fn a_workload_may_reference_an_object_of_any_kind() {
    let server = test_server();
    for (index, group) in ["batch", "training.example.com", ""].into_iter().enumerate() {
        let (version, mut spec) = sample("workloads");
        spec["controllerRef"] = json!({"apiGroup": group, "kind": "Anything", "name": "not-there"});
        let object = json!({"metadata": {"name": format!("w{index}")}, "spec": spec});
        ok(&server, "POST", &path(version, "workloads"), JSON, &object).await;
    }
}

// Shows: S003-12
#[tokio::test(start_paused = true)]
async fn a_group_name_is_a_unique_dns_subdomain() {
    let server = test_server();
    let (version, spec) = sample("podgroups");
    let collection = path(version, "podgroups");
    for (name, want) in [
        ("a.b-c", StatusCode::CREATED),
        ("a.b-c", StatusCode::CONFLICT),
        ("A", StatusCode::UNPROCESSABLE_ENTITY),
        ("a_b", StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let (code, response) = server.post(&collection, json!({"metadata": {"name": name}, "spec": spec})).await;
        assert_eq!(code, want, "{name}: {response}");
    }
}

// Shows: S004-01
// Shows: S004-18
// Shows: S004-32
// Shows: S004-68
#[tokio::test(start_paused = true)]
async fn the_building_blocks_are_types_with_the_same_form_in_every_kind() {
    let server = test_server();
    let blocks = json!({
        "schedulingPolicy": {"gang": {"minCount": 1}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"all": {}},
        "resourceClaims": [{"name": "nic", "resourceClaimName": "shared"}],
    });
    let with = |mut object: Value| {
        blocks.as_object().unwrap().iter().for_each(|(field, value)| object[field] = value.clone());
        object
    };
    let mut job = job_document("a");
    job["spec"]["scheduling"] = blocks.clone();
    let cron_job =
        json!({"metadata": {"name": "a"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": job["spec"]}}});
    let metadata = json!({"name": "a"});
    for (path, object, pointer) in [
        ("/apis/batch/v1/namespaces/default/jobs".to_owned(), job, "/spec/scheduling"),
        ("/apis/batch/v1/namespaces/default/cronjobs".to_owned(), cron_job, "/spec/jobTemplate/spec/scheduling"),
        (path("v1beta1", "podgroups"), json!({"metadata": metadata, "spec": with(json!({}))}), "/spec"),
        (
            path("v1beta1", "workloads"),
            json!({"metadata": metadata, "spec": {"podGroupTemplates": [with(json!({"name": "t"}))]}}),
            "/spec/podGroupTemplates/0",
        ),
    ] {
        let made = ok(&server, "POST", &path, JSON, &object).await;
        let written = made.pointer(pointer).unwrap();
        for (field, value) in blocks.as_object().unwrap() {
            assert_eq!(&written[field], value, "{path}: {field}");
        }
    }
    let (_, batch) = server.get("/openapi/v3/apis/batch/v1").await;
    let schemas = batch["components"]["schemas"].as_object().unwrap();
    for block in ["PodGroupSchedulingPolicy", "PodGroupSchedulingConstraints", "DisruptionMode", "ResourceClaim"] {
        let is_shared = |name: &String| name.contains("scheduling") && name.ends_with(block);
        assert!(schemas.keys().any(is_shared), "{block} in {:?}", schemas.keys());
    }
    let (_, list) = server.get("/apis/scheduling.k8s.io/v1beta1").await;
    let served: BTreeSet<&str> =
        list["resources"].as_array().unwrap().iter().filter_map(|r| r["kind"].as_str()).collect();
    assert_eq!(served, BTreeSet::from(["PodGroup", "Workload"]), "blocks are not served on their own");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_has_details_and_the_version_is_served_with_a_slash() {
    let server = test_server();
    for path in ["/apis/batch/v1/none", "/api/v1/namespaces/default/pods/a/ephemeralcontainers", "/none"] {
        let (code, status) = server.get(path).await;
        assert_eq!(code, 404, "{path}");
        // kubectl reads the name in them without checking that they exist.
        assert_eq!(status["details"]["causes"][0]["reason"], "UnexpectedServerResponse", "{path}");
    }
    assert_eq!(server.get("/version/").await, server.get("/version").await);
    assert_eq!(server.get("/version/").await.0, 200);
}
