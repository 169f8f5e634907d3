//! Pods that are asked to go, and the budgets that are asked first.

use http::StatusCode;
use serde_json::{Value, json};

use crate::test_server::{PODS, TestServer, pod_document, test_server};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}})
}

async fn evict(home: &TestServer, name: &str) -> (StatusCode, Value) {
    home.post(&format!("{PODS}/{name}/eviction"), eviction(name)).await
}

/// A pod with a label, on a node that takes its time to end it.
async fn make_running_pod(home: &TestServer, name: &str, ready: &str) {
    let mut pod = pod_document(name);
    pod["metadata"]["labels"] = json!({"app": "a"});
    pod["spec"]["nodeName"] = "n".into();
    home.post(PODS, pod).await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    let path = format!("{PODS}/{name}/status");
    let (code, answer) = home.call("PATCH", &path, "application/merge-patch+json", status.to_string()).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
}

async fn make_budget(home: &TestServer, name: &str, spec: Value, status: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "a"}});
    let budget = json!({"metadata": {"name": name}, "spec": spec});
    let (code, answer) = home.post(BUDGETS, budget).await;
    assert_eq!((code, &answer["metadata"]["generation"]), (StatusCode::CREATED, &1.into()), "{answer}");
    let path = format!("{BUDGETS}/{name}/status");
    let change = json!({"status": status}).to_string();
    let (code, answer) = home.call("PATCH", &path, "application/merge-patch+json", change).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
}

fn budget_status(count: i64) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": count, "currentHealthy": 2, "desiredHealthy": 2 - count, "expectedPods": 2})
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_says_that_it_was_not_its_fault() {
    let home = test_server();
    make_running_pod(&home, "a", "True").await;
    let (code, answer) = evict(&home, "a").await;
    assert_eq!((code, &answer["status"]), (StatusCode::CREATED, &"Success".into()), "{answer}");
    let (_, pod) = home.get(&format!("{PODS}/a")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_string(), "{pod}");
    let condition = &pod["status"]["conditions"][1];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&"DisruptionTarget".into(), &"True".into(), &"EvictionByEvictionAPI".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_spent_and_then_refuses() {
    let home = test_server();
    make_budget(&home, "b", json!({"minAvailable": 1}), budget_status(1)).await;
    make_running_pod(&home, "a", "True").await;
    make_running_pod(&home, "c", "True").await;
    assert_eq!(evict(&home, "a").await.0, StatusCode::CREATED);
    let (_, spent) = home.get(&format!("{BUDGETS}/b")).await;
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["a"].is_string(), "{spent}");
    let (code, refused) = evict(&home, "c").await;
    assert_eq!(code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    assert_eq!(cause["message"], "The disruption budget b needs 1 healthy pods and has 2 currently");
    let (_, pod) = home.get(&format!("{PODS}/c")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["conditions"][1].is_null(), "{pod}");
    // The same pod once more costs nothing more.
    assert_eq!(evict(&home, "a").await.0, StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn what_a_budget_does_not_count_goes_in_spite_of_it() {
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
            "not ready, and the budget does not mind",
            "Running",
            "False",
            "AlwaysAllow",
            json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 2}),
            StatusCode::CREATED,
        ),
        ("a budget not counted yet", "Running", "True", "AlwaysAllow", json!({}), StatusCode::TOO_MANY_REQUESTS),
    ] {
        let home = test_server();
        make_budget(&home, "b", json!({"minAvailable": 2, "unhealthyPodEvictionPolicy": policy}), status).await;
        make_running_pod(&home, "a", ready).await;
        let change = json!({"status": {"phase": phase}}).to_string();
        home.call("PATCH", &format!("{PODS}/a/status"), "application/merge-patch+json", change).await;
        let (code, answer) = evict(&home, "a").await;
        assert_eq!(code, want, "{case}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn evictions_are_judged_before_they_are_done() {
    let home = test_server();
    make_running_pod(&home, "a", "True").await;
    assert_eq!(evict(&home, "none").await.0, StatusCode::NOT_FOUND);
    let path = format!("{PODS}/a/eviction");
    let mut other = eviction("a");
    other["deleteOptions"] = json!({"preconditions": {"uid": "another"}});
    assert_eq!(home.post(&path, other).await.0, StatusCode::CONFLICT);
    assert_eq!(home.post(&path, eviction("b")).await.0, StatusCode::BAD_REQUEST);
    let mut dry = eviction("a");
    dry["deleteOptions"] = json!({"dryRun": ["All"]});
    assert_eq!(home.post(&path, dry).await.0, StatusCode::CREATED);
    assert_eq!(home.post(&format!("{path}?dryRun=All"), eviction("a")).await.0, StatusCode::CREATED);
    let (_, pod) = home.get(&format!("{PODS}/a")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["conditions"][1].is_null(), "{pod}");
    for name in ["b", "c"] {
        make_budget(&home, name, json!({"minAvailable": 0}), budget_status(1)).await;
    }
    let (code, refused) = evict(&home, "a").await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(refused["message"].as_str().unwrap().starts_with("This pod has more than one PodDisruptionBudget"));
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_shown_with_what_it_allows() {
    let home = test_server();
    make_budget(&home, "b", json!({"minAvailable": "50%"}), budget_status(1)).await;
    let request = http::Request::get(BUDGETS).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let response = home.send(request.body(Default::default()).unwrap()).await;
    let (_, table, _) = crate::test_server::read_response(response).await;
    assert_eq!(table["rows"][0]["cells"], json!(["b", "50%", "N/A", 1, "0s"]));
    let (code, refused) =
        home.post(BUDGETS, json!({"metadata": {"name": "c"}, "spec": {"minAvailable": "200%"}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
}
