//! CompositePodGroups and CronJobs through the server, with every verb.

use api::gates::{Gate, Gates};
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use store::{HistoryLimits, Store};

use crate::test_server::{TestServer, job_document, test_server, test_server_with_gates};

const COMPOSITES: &str = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

fn composite() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": {"name": "a"},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        },
    })
}

fn cron_job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job_document("x")["spec"]}},
    })
}

/// Every verb: create, get, list, watch, update, patch, status updates, delete and collection delete.
async fn all_verbs(server: &TestServer, collection: &str, object: Value, status: Value) {
    let one = format!("{collection}/a");
    let (code, made) = server.post(collection, object.clone()).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    assert_eq!(server.get(&one).await.1, made);
    assert_eq!(server.get(collection).await.1["items"], json!([made]));
    let watch = http::Request::get(format!("{collection}?watch=1&timeoutSeconds=1")).body(Default::default()).unwrap();
    let bytes = server.send(watch).await.into_body().collect().await.unwrap().to_bytes();
    let event: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(event["object"], made);
    let (code, put) = server.call("PUT", &one, "application/json", made.to_string()).await;
    assert_eq!((code, &put), (StatusCode::OK, &made), "a write that changes nothing");
    let patch = json!({"metadata": {"labels": {"a": "b"}}, "status": status}).to_string();
    let (code, patched) = server.call("PATCH", &one, "application/merge-patch+json", patch.clone()).await;
    assert_eq!((code, &patched["metadata"]["labels"]["a"]), (StatusCode::OK, &json!("b")), "{patched}");
    assert_eq!(patched.get("status"), made.get("status"), "the status has a path of its own");
    let path = format!("{one}/status");
    let (code, reported) = server.call("PATCH", &path, "application/merge-patch+json", patch).await;
    assert_eq!((code, &reported["status"]), (StatusCode::OK, &status), "{reported}");
    let (code, put) = server.call("PUT", &path, "application/json", reported.to_string()).await;
    assert_eq!((code, &put["spec"]), (StatusCode::OK, &made["spec"]));
    assert_eq!(server.get(&path).await.1["status"], status);
    assert_eq!(server.call("DELETE", &one, "", "").await.0, StatusCode::OK);
    assert_eq!(server.get(&one).await.0, StatusCode::NOT_FOUND);
    server.post(collection, object).await;
    assert_eq!(server.call("DELETE", collection, "", "").await.0, StatusCode::OK);
    assert_eq!(server.get(collection).await.1["items"], json!([]));
}

// Shows: S000-01
#[tokio::test(start_paused = true)]
async fn every_verb_works_on_composites() {
    let condition = json!({
        "type": "CompositePodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    });
    all_verbs(&test_server(), COMPOSITES, composite(), json!({"conditions": [condition]})).await;
}

// Shows: S000-01
#[tokio::test(start_paused = true)]
async fn every_verb_works_on_cron_jobs() {
    all_verbs(&test_server(), CRON_JOBS, cron_job(), json!({"lastScheduleTime": "2030-01-01T00:00:00Z"})).await;
}

#[tokio::test(start_paused = true)]
async fn composites_are_served_in_one_version_and_behind_their_gate() {
    let server = test_server();
    let (_, made) = server.post(COMPOSITES, composite()).await;
    assert_eq!(made["spec"]["disruptionMode"], json!({"single": {}}));
    assert_eq!(made["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let mut larger = made.clone();
    larger["spec"]["schedulingPolicy"]["gang"]["minGroupCount"] = json!(3);
    let (code, status) = server.call("PUT", &format!("{COMPOSITES}/a"), "application/json", larger.to_string()).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(status["details"]["causes"][0]["field"], "spec.schedulingPolicy", "{status}");
    assert_eq!(server.get(&COMPOSITES.replace("v1alpha3", "v1beta1")).await.0, StatusCode::NOT_FOUND);
    let off = Gates::default().with(Gate::CompositePodGroup, false);
    let without = test_server_with_gates(Store::in_memory(HistoryLimits::default()), 1, off);
    assert_eq!(without.get(COMPOSITES).await.0, StatusCode::NOT_FOUND);
    let (_, list) = without.get("/apis/scheduling.k8s.io/v1alpha3").await;
    assert!(!list.to_string().contains("compositepodgroups"), "{list}");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_has_generations_and_is_validated_with_its_template() {
    let server = test_server();
    let (_, made) = server.post(CRON_JOBS, cron_job()).await;
    assert_eq!((&made["metadata"]["generation"], &made["spec"]["concurrencyPolicy"]), (&json!(1), &json!("Allow")));
    let one = format!("{CRON_JOBS}/a");
    let patch = json!({"spec": {"schedule": "@hourly"}}).to_string();
    let (_, patched) = server.call("PATCH", &one, "application/merge-patch+json", patch).await;
    assert_eq!(patched["metadata"]["generation"], 2);
    let mut bad = cron_job();
    bad["metadata"]["name"] = json!("b");
    bad["spec"]["schedule"] = json!("TZ=UTC * * * * *");
    bad["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    let (code, status) = server.post(CRON_JOBS, bad).await;
    let fields: Vec<&Value> =
        status["details"]["causes"].as_array().unwrap().iter().map(|cause| &cause["field"]).collect();
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(fields, ["spec.schedule", "spec.jobTemplate.spec.template.spec.restartPolicy"]);
}
