//! Evictions of pods within their disruption budgets.

use http::StatusCode;
use serde_json::{Value, json};

use crate::test_server::{PODS, TestServer, pod_document, test_server};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}})
}

async fn evict(server: &TestServer, name: &str) -> (StatusCode, Value) {
    server.post(&format!("{PODS}/{name}/eviction"), eviction(name)).await
}

/// A pod with a label, bound to a node, so that its deletion takes a grace period.
async fn make_running_pod(server: &TestServer, name: &str, ready: &str) {
    let mut pod = pod_document(name);
    pod["metadata"]["labels"] = json!({"app": "a"});
    pod["spec"]["nodeName"] = "n".into();
    server.post(PODS, pod).await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    let path = format!("{PODS}/{name}/status");
    let (code, response) = server.call("PATCH", &path, "application/merge-patch+json", status.to_string()).await;
    assert_eq!(code, StatusCode::OK, "{response}");
}

async fn make_budget(server: &TestServer, name: &str, spec: Value, status: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "a"}});
    let budget = json!({"metadata": {"name": name}, "spec": spec});
    let (code, response) = server.post(BUDGETS, budget).await;
    assert_eq!((code, &response["metadata"]["generation"]), (StatusCode::CREATED, &1.into()), "{response}");
    let path = format!("{BUDGETS}/{name}/status");
    let change = json!({"status": status}).to_string();
    let (code, response) = server.call("PATCH", &path, "application/merge-patch+json", change).await;
    assert_eq!(code, StatusCode::OK, "{response}");
}

fn budget_status(count: i64) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": count, "currentHealthy": 2, "desiredHealthy": 2 - count, "expectedPods": 2})
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_gets_a_disruption_condition() {
    let server = test_server();
    make_running_pod(&server, "a", "True").await;
    let (code, response) = evict(&server, "a").await;
    assert_eq!((code, &response["status"]), (StatusCode::CREATED, &"Success".into()), "{response}");
    let (_, pod) = server.get(&format!("{PODS}/a")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_string(), "{pod}");
    let condition = &pod["status"]["conditions"][1];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&"DisruptionTarget".into(), &"True".into(), &"EvictionByEvictionAPI".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_budget_without_disruptions_left_refuses() {
    let server = test_server();
    make_budget(&server, "b", json!({"minAvailable": 1}), budget_status(1)).await;
    make_running_pod(&server, "a", "True").await;
    make_running_pod(&server, "c", "True").await;
    assert_eq!(evict(&server, "a").await.0, StatusCode::CREATED);
    let (_, spent) = server.get(&format!("{BUDGETS}/b")).await;
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["a"].is_string(), "{spent}");
    let (code, refused) = evict(&server, "c").await;
    assert_eq!(code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    assert_eq!(cause["message"], "The disruption budget b needs 1 healthy pods and has 2 currently");
    let (_, pod) = server.get(&format!("{PODS}/c")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["conditions"][1].is_null(), "{pod}");
    // A second eviction of the same pod takes no further disruption.
    assert_eq!(evict(&server, "a").await.0, StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn pods_that_a_budget_does_not_count_are_evicted() {
    for (case, phase, ready, policy, status, want) in [
        ("ready", "Running", "True", "IfHealthyBudget", budget_status(0), StatusCode::TOO_MANY_REQUESTS),
        ("ended", "Failed", "False", "IfHealthyBudget", budget_status(0), StatusCode::CREATED),
        ("not begun", "Pending", "False", "IfHealthyBudget", budget_status(0), StatusCode::CREATED),
        ("not ready, enough others", "Running", "False", "IfHealthyBudget", budget_status(0), StatusCode::CREATED),
        (
            "not ready, too few others",
            "Running",
            "False",
            "IfHealthyBudget",
            json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 2}),
            StatusCode::TOO_MANY_REQUESTS,
        ),
        (
            "not ready, and the budget always allows it",
            "Running",
            "False",
            "AlwaysAllow",
            json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 2}),
            StatusCode::CREATED,
        ),
        ("a budget without a status yet", "Running", "True", "AlwaysAllow", json!({}), StatusCode::TOO_MANY_REQUESTS),
    ] {
        let server = test_server();
        make_budget(&server, "b", json!({"minAvailable": 2, "unhealthyPodEvictionPolicy": policy}), status).await;
        make_running_pod(&server, "a", ready).await;
        let change = json!({"status": {"phase": phase}}).to_string();
        server.call("PATCH", &format!("{PODS}/a/status"), "application/merge-patch+json", change).await;
        let (code, response) = evict(&server, "a").await;
        assert_eq!(code, want, "{case}: {response}");
    }
}

#[tokio::test(start_paused = true)]
async fn evictions_are_validated_first() {
    let server = test_server();
    make_running_pod(&server, "a", "True").await;
    assert_eq!(evict(&server, "none").await.0, StatusCode::NOT_FOUND);
    let path = format!("{PODS}/a/eviction");
    let mut other = eviction("a");
    other["deleteOptions"] = json!({"preconditions": {"uid": "another"}});
    assert_eq!(server.post(&path, other).await.0, StatusCode::CONFLICT);
    assert_eq!(server.post(&path, eviction("b")).await.0, StatusCode::BAD_REQUEST);
    let mut dry = eviction("a");
    dry["deleteOptions"] = json!({"dryRun": ["All"]});
    assert_eq!(server.post(&path, dry).await.0, StatusCode::CREATED);
    assert_eq!(server.post(&format!("{path}?dryRun=All"), eviction("a")).await.0, StatusCode::CREATED);
    let (_, pod) = server.get(&format!("{PODS}/a")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["conditions"][1].is_null(), "{pod}");
    for name in ["b", "c"] {
        make_budget(&server, name, json!({"minAvailable": 0}), budget_status(1)).await;
    }
    let (code, refused) = evict(&server, "a").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(refused["message"].as_str().unwrap().starts_with("This pod has more than one PodDisruptionBudget"));
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_printed_with_its_allowed_disruptions() {
    let server = test_server();
    make_budget(&server, "b", json!({"minAvailable": "50%"}), budget_status(1)).await;
    let request = http::Request::get(BUDGETS).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let response = server.send(request.body(Default::default()).unwrap()).await;
    let (_, table, _) = crate::test_server::read_response(response).await;
    assert_eq!(table["rows"][0]["cells"], json!(["b", "50%", "N/A", 1, "0s"]));
    let (code, refused) =
        server.post(BUDGETS, json!({"metadata": {"name": "c"}, "spec": {"minAvailable": "200%"}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
}
