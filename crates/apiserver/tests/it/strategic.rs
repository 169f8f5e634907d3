//! Strategic merge patches as kubectl sends them.

use http::StatusCode;
use serde_json::{Value, json};

use crate::test_server::{JOBS, PODS, TestServer, job_document, pod_document, test_server};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn patch(server: &TestServer, path: &str, patch: Value) -> (StatusCode, Value) {
    server.call("PATCH", path, STRATEGIC, patch.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_kubectl_apply_changes_only_its_fields() {
    let server = test_server();
    let mut job = job_document("a");
    job["spec"]["suspend"] = true.into();
    job["spec"]["template"]["spec"]["containers"] = json!([
        {"name": "main", "image": "busybox", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
    ]);
    server.post(JOBS, job).await;
    let body = json!({
        "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "spec": {"parallelism": 3, "backoffLimit": null, "template": {"spec": {
            "$setElementOrder/containers": [{"name": "main"}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
        }}},
    });
    let path = format!("{JOBS}/a");
    let (code, first) = patch(&server, &path, body.clone()).await;
    assert_eq!(code, StatusCode::OK, "{first}");
    let spec = &first["spec"];
    assert_eq!((&spec["parallelism"], &spec["backoffLimit"]), (&3.into(), &6.into()), "null restores the default");
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["env"][1]["value"]), (&"busybox".into(), &"2".into()));
    assert_eq!(container["resources"]["requests"]["cpu"], "2");
    assert!(!first.to_string().contains("$setElementOrder"));
    let (_, second) = patch(&server, &path, body).await;
    assert_eq!(second, first, "the second patch changes nothing, not even the version");
}

#[tokio::test(start_paused = true)]
async fn a_status_is_merged_by_condition_type() {
    let server = test_server();
    server.post(PODS, pod_document("a")).await;
    let path = format!("{PODS}/a/status");
    for (kind, status) in [("Ready", "False"), ("PodScheduled", "True"), ("Ready", "True")] {
        let (code, response) =
            patch(&server, &path, json!({"status": {"conditions": [{"type": kind, "status": status}]}})).await;
        assert_eq!(code, StatusCode::OK, "{response}");
    }
    let (_, pod) = server.get(&format!("{PODS}/a")).await;
    assert_eq!(
        pod["status"]["conditions"],
        json!([{"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": null},
            {"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}])
    );
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_added_and_removed() {
    let server = test_server();
    let mut pod = pod_document("a");
    pod["metadata"]["finalizers"] = json!(["example.com/a"]);
    server.post(PODS, pod).await;
    let path = format!("{PODS}/a");
    let (_, pod) = patch(&server, &path, json!({"metadata": {"finalizers": ["example.com/b"]}})).await;
    assert_eq!(pod["metadata"]["finalizers"], json!(["example.com/b", "example.com/a"]));
    let out = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/b"]}});
    let (_, pod) = patch(&server, &path, out).await;
    assert_eq!(pod["metadata"]["finalizers"].as_array().map_or(0, Vec::len), 0);
}

#[tokio::test(start_paused = true)]
async fn malformed_patches_are_refused() {
    let server = test_server();
    server.post(PODS, pod_document("a")).await;
    let path = format!("{PODS}/a");
    for (case, body, code, want) in [
        ("not JSON", "{", 400, "error decoding patch"),
        ("not an object", "[]", 400, "a merge patch must be a JSON object"),
        ("directive", r#"{"spec":{"$patch":"burn"}}"#, 400, "error applying patch: spec: unknown patch type: \"burn\""),
        ("no key", r#"{"spec":{"containers":[{"image":"x"}]}}"#, 400, "does not contain declared merge key: name"),
        ("another name", r#"{"metadata":{"name":"b"}}"#, 400, "does not match the name on the URL"),
        ("type", r#"{"spec":"x"}"#, 400, "spec: expected object, found string \"x\""),
        ("everything", r#"{"$patch":"delete"}"#, 400, "name must be provided"),
        ("spec", r#"{"spec":{"$patch":"delete"}}"#, 422, "spec.containers: Required value"),
        ("old version", r#"{"metadata":{"resourceVersion":"1"}}"#, 409, "the object has been modified"),
    ] {
        let (found, status) = server.call("PATCH", &path, STRATEGIC, body).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(found.as_u16() == code && message.contains(want), "{case}: {found} {message}");
    }
    let (code, status) = server.call("PATCH", &path, "application/apply-patch+yaml", "{}").await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(status["message"].as_str().unwrap().contains("server-side apply"));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_a_patch_returns_the_result_and_stores_nothing() {
    let server = test_server();
    server.post(PODS, pod_document("a")).await;
    let body = json!({"metadata": {"labels": {"x": "y"}}});
    let (code, patched) = patch(&server, &format!("{PODS}/a?dryRun=All&fieldManager=kubectl-label"), body).await;
    assert_eq!((code, &patched["metadata"]["labels"]["x"]), (StatusCode::OK, &"y".into()));
    assert_eq!(server.get(&format!("{PODS}/a")).await.1["metadata"].get("labels"), None);
}
