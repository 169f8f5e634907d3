//! Bindings: once, to the right pod, never twice.

use http::StatusCode;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::home::{Home, PODS, home, pod};

async fn bind(home: &Home, name: &str, node: &str, metadata: Value) -> (StatusCode, Value) {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    home.post(&format!("{PODS}/{name}/binding"), binding).await
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_has_its_node_and_the_condition() {
    let home = home();
    let made = home.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let metadata = json!({"name": "a", "uid": made.metadata.uid, "annotations": {"why": "fits"}});
    let (code, status) = bind(&home, "a", "n1", metadata).await;
    assert_eq!((code, &status["status"]), (StatusCode::CREATED, &json!("Success")));
    let bound = home.pods().get("a").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(bound.metadata.annotations.unwrap()["why"], "fits");
    let conditions = bound.status.unwrap().conditions.unwrap();
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled").unwrap();
    assert!(scheduled.status == "True" && scheduled.last_transition_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once_and_only_the_pod_that_was_meant() {
    let home = home();
    home.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let (code, status) = bind(&home, "a", "n1", json!({"name": "a", "uid": "another"})).await;
    assert_eq!(code, StatusCode::CONFLICT, "{status}");
    let (code, status) = bind(&home, "a", "", json!({"name": "a"})).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("target.name"))
    );
    assert_eq!(bind(&home, "a", "n1", json!({"name": "a"})).await.0, StatusCode::CREATED);
    let (code, status) = bind(&home, "a", "n2", json!({"name": "a"})).await;
    let want = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\"";
    assert_eq!((code, status["message"].as_str().unwrap()), (StatusCode::CONFLICT, want));
    home.pods().delete("a", &Default::default()).await.unwrap();
    let (code, status) = bind(&home, "a", "n2", json!({"name": "a"})).await;
    assert!(
        code == StatusCode::CONFLICT && status["message"].as_str().unwrap().contains("is being deleted"),
        "{status}"
    );
    assert_eq!(bind(&home, "absent", "n1", json!({})).await.0, StatusCode::NOT_FOUND);
}
