//! Lists as long as a body can contain. The tests have no time limit: when the work was quadratic in the length, each
//! of them took minutes.

use http::StatusCode;
use serde_json::{Value, json};

use crate::test_server::{JOBS, PODS, TestServer, job_document, pod_document, test_server};

const COUNT: usize = 20_000;

fn owners(controller: bool) -> Vec<Value> {
    let owner = |n: usize| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": format!("u{n}"), "controller": controller});
    (0..COUNT).map(owner).collect()
}

async fn patch(server: &TestServer, kind: &str, patch: Value) -> (StatusCode, Value) {
    server.call("PATCH", &format!("{PODS}/a"), &format!("application/{kind}+json"), patch.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn the_longest_list_of_owners_is_stored_and_removed() {
    let server = test_server();
    let mut pod = pod_document("a");
    let mut all = owners(false);
    // The last one is an exact duplicate.
    all.push(all[0].clone());
    pod["metadata"]["ownerReferences"] = all.into();
    let (code, pod) = server.post(PODS, pod).await;
    assert_eq!(code, StatusCode::CREATED);
    assert_eq!(pod["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(COUNT));
    let deleted: Vec<Value> = (1..COUNT).map(|n| json!({"$patch": "delete", "uid": format!("u{n}")})).collect();
    let (code, pod) = patch(&server, "strategic-merge-patch", json!({"metadata": {"ownerReferences": deleted}})).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(pod["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_few_of_many_controller_references_are_reported() {
    let server = test_server();
    let mut pod = pod_document("a");
    pod["metadata"]["ownerReferences"] = owners(true).into();
    let (code, status) = server.post(PODS, pod).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    // Each of them shows all owners.
    assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(8));
}

#[tokio::test(start_paused = true)]
async fn the_longest_list_of_finalizers_is_merged_and_compared() {
    let server = test_server();
    let names = |count: usize| -> Vec<String> { (0..count).map(|n| format!("example.com/f{n:05}")).collect() };
    server.post(PODS, pod_document("a")).await;
    let (code, _) = patch(&server, "strategic-merge-patch", json!({"metadata": {"finalizers": names(COUNT)}})).await;
    assert_eq!(code, StatusCode::OK);
    server.call("DELETE", &format!("{PODS}/a"), "application/json", r#"{"gracePeriodSeconds": 0}"#).await;
    let body = json!({"metadata": {"finalizers": names(COUNT + 1)}});
    let (code, status) = patch(&server, "strategic-merge-patch", body).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with(r#"found new finalizers []string{"example.com/f20000"}"#), "{message}");
}

#[tokio::test(start_paused = true)]
async fn other_long_lists_are_validated_completely() {
    let server = test_server();
    let mut pod = pod_document("a");
    let labels = (0..COUNT).map(|n| (format!("-{n}"), json!("x")));
    pod["metadata"]["labels"] = Value::Object(labels.collect());
    let (code, status) = server.post(PODS, pod).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(COUNT));

    let mut pod = pod_document("a");
    let claim = |n: usize| json!({"name": format!("c{n}"), "resourceClaimName": "x"});
    pod["spec"]["resourceClaims"] = (0..COUNT).map(claim).collect();
    let container = |n: usize| {
        json!({"name": format!("m{n}"), "image": "x", "resources": {"claims": [{"name": "none"}]},
            "volumeDevices": [{"name": "none", "devicePath": "/d"}]})
    };
    pod["spec"]["containers"] = (0..COUNT / 4).map(container).collect();
    let (code, status) = server.post(PODS, pod).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let causes = status["details"]["causes"].as_array().unwrap();
    let of_claims: Vec<&Value> =
        causes.iter().filter(|cause| cause["field"].as_str().unwrap().ends_with("claims[0]")).collect();
    assert_eq!(of_claims.len(), COUNT / 4);
    let message = of_claims[0]["message"].as_str().unwrap();
    assert!(message.ends_with(", ...") && message.len() < 1000, "{message}");

    let mut job = job_document("a");
    let codes: Vec<usize> = (1..=10 * COUNT).collect();
    let rule = json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": codes}});
    job["spec"]["podFailurePolicy"] = json!({"rules": [rule]});
    let (code, status) = server.post(JOBS, job).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(1), "too many, and nothing else");
}

#[tokio::test(start_paused = true)]
async fn expensive_json_patches_are_refused() {
    let server = test_server();
    let mut pod = pod_document("a");
    pod["metadata"]["finalizers"] = (0..COUNT).map(|n| format!("example.com/f{n:05}")).collect();
    server.post(PODS, pod).await;
    let moves: Vec<Value> = (0..10_000)
        .map(|n| match n % 2 {
            0 => json!({"op": "move", "from": "/metadata/finalizers", "path": "/metadata/x"}),
            _ => json!({"op": "move", "from": "/metadata/x", "path": "/metadata/finalizers"}),
        })
        .collect();
    let (code, status) = patch(&server, "json-patch", moves.into()).await;
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE, "{status}");
    let removals: Vec<Value> = (0..10_000).map(|_| json!({"op": "remove", "path": "/metadata/finalizers/0"})).collect();
    let (code, status) = patch(&server, "json-patch", removals.into()).await;
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE, "{status}");
    let removals: Vec<Value> = (0..1_000).map(|_| json!({"op": "remove", "path": "/metadata/finalizers/0"})).collect();
    let (code, pod) = patch(&server, "json-patch", removals.into()).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(pod["metadata"]["finalizers"].as_array().map(Vec::len), Some(COUNT - 1_000));
}
