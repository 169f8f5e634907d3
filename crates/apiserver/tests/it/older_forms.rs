//! Older versions and drafts through the server: written, read, patched, watched, refused.

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::test_server::{JOBS, PODS, TestServer, job_document, pod_document, read_response, test_server};

const GROUPS: &str = "namespaces/default/podgroups";
const WORKLOADS: &str = "namespaces/default/workloads";

fn path(version: &str, rest: &str) -> String {
    format!("/apis/scheduling.k8s.io/{version}/{rest}")
}

async fn send(
    server: &TestServer,
    method: &str,
    path: &str,
    media_type: &str,
    body: &Value,
) -> (StatusCode, Value, Vec<String>) {
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    read_response(server.send(request.body(body.to_string().into()).unwrap()).await).await
}

fn alpha2(name: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
            "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": "PodGroup",
        },
    })
}

// Shows: S002-02
// Shows: S002-16
#[tokio::test(start_paused = true)]
async fn a_group_can_be_written_and_read_in_every_version() {
    let server = test_server();
    let (code, made, warned) = send(&server, "POST", &path("v1alpha2", GROUPS), "application/json", &alpha2("a")).await;
    assert_eq!((code, warned.len()), (StatusCode::CREATED, 1), "{made}");
    assert_eq!(made["spec"]["disruptionMode"], "PodGroup");
    assert_eq!(made["spec"]["preemptionPolicy"], "PreemptLowerPriority", "newer fields have their current names");
    let (_, beta) = server.get(&path("v1beta1", &format!("{GROUPS}/a"))).await;
    assert_eq!(beta["spec"]["workloadRef"], json!({"workloadName": "w", "templateName": "t"}));
    assert_eq!(
        (&beta["spec"]["disruptionMode"], &beta["apiVersion"]),
        (&json!({"all": {}}), &json!("scheduling.k8s.io/v1beta1"))
    );
    let (_, list) = server.get(&path("v1alpha2", GROUPS)).await;
    assert_eq!(list["apiVersion"], "scheduling.k8s.io/v1alpha2");
    assert_eq!(list["items"][0], made);
    let one = path("v1alpha2", &format!("{GROUPS}/a"));
    let (code, put, _) = send(&server, "PUT", &one, "application/json", &made).await;
    assert_eq!((code, &put["metadata"]["resourceVersion"]), (StatusCode::OK, &made["metadata"]["resourceVersion"]));
    let count = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}});
    for media_type in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        let (code, patched, _) = send(&server, "PATCH", &one, media_type, &count).await;
        assert_eq!((code, &patched["spec"]["schedulingPolicy"]["gang"]["minCount"]), (StatusCode::OK, &json!(3)));
        assert_eq!(patched["spec"]["disruptionMode"], "PodGroup");
    }
    let operation = json!([{"op": "replace", "path": "/spec/disruptionMode", "value": "Pod"}]);
    let (code, refused, _) = send(&server, "PATCH", &one, "application/json-patch+json", &operation).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    let (code, refused, _) = send(&server, "PUT", &one, "application/json", &beta).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "the body is in another version than the path: {refused}");
}

// Shows: S003-08
#[tokio::test(start_paused = true)]
async fn status_has_the_older_name_of_its_condition_in_older_versions() {
    let server = test_server();
    send(&server, "POST", &path("v1alpha2", GROUPS), "application/json", &alpha2("a")).await;
    let read = |version: &'static str| {
        let server = &server;
        async move { server.get(&path(version, &format!("{GROUPS}/a"))).await.1["status"]["conditions"].clone() }
    };
    assert_eq!(read("v1alpha1").await[0]["status"], "Unknown");
    assert_eq!(read("v1alpha2").await, Value::Null);
    let status = json!({"status": {"conditions": [{
        "type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }]}});
    let one = path("v1beta1", &format!("{GROUPS}/a/status"));
    let (code, response, warned) = send(&server, "PATCH", &one, "application/merge-patch+json", &status).await;
    assert_eq!((code, warned.len()), (StatusCode::OK, 0), "{response}");
    for (version, kind, reason) in [
        ("v1alpha1", "PodGroupScheduled", "MinCountSatisfied"),
        ("v1alpha2", "PodGroupScheduled", "Scheduled"),
        ("v1alpha3", "PodGroupInitiallyScheduled", "Scheduled"),
    ] {
        let conditions = read(version).await;
        assert_eq!((&conditions[0]["type"], &conditions[0]["reason"]), (&json!(kind), &json!(reason)), "{version}");
        assert_eq!(conditions.as_array().map(Vec::len), Some(1), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_serve_older_versions() {
    let server = test_server();
    send(&server, "POST", &path("v1alpha2", GROUPS), "application/json", &alpha2("a")).await;
    let uri = path("v1alpha1", &format!("{GROUPS}?watch=1&timeoutSeconds=1"));
    let bytes = server.send(Request::get(uri).body(Default::default()).unwrap()).await.into_body().collect().await;
    let event: Value = serde_json::from_slice(&bytes.unwrap().to_bytes()).unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["apiVersion"]),
        (&json!("ADDED"), &json!("scheduling.k8s.io/v1alpha1"))
    );
    assert_eq!(event["object"]["spec"]["workloadRef"], json!({"name": "w"}));
}

#[tokio::test(start_paused = true)]
async fn an_older_version_is_checked_by_its_own_fields() {
    let server = test_server();
    let mut group = alpha2("a");
    group["spec"]["workloadRef"] = json!({"workloadName": "w", "templateName": "t"});
    let strict = path("v1alpha2", &format!("{GROUPS}?fieldValidation=Strict"));
    let (code, status, _) = send(&server, "POST", &strict, "application/json", &group).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(status["message"].as_str().unwrap().ends_with("unknown field \"spec.workloadRef\""), "{status}");
    let mut group = alpha2("a");
    group["spec"]["disruptionMode"] = json!("Some");
    let (code, status, _) = send(&server, "POST", &strict, "application/json", &group).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("spec.disruptionMode"))
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_of_an_empty_struct_are_reported() {
    let server = test_server();
    let group = json!({"metadata": {"name": "a"}, "spec": {"schedulingPolicy": {"basic": {"minCount": 2}}}});
    let (code, _, warned) = send(&server, "POST", &path("v1beta1", GROUPS), "application/json", &group).await;
    assert_eq!(code, StatusCode::CREATED);
    assert_eq!(warned, ["unknown field \"spec.schedulingPolicy.basic.minCount\""]);
}

// Shows: S004-13
#[tokio::test(start_paused = true)]
async fn a_draft_manifest_can_be_applied_again() {
    let server = test_server();
    let mut job = job_document("a");
    let drafted = json!({"policy": {"gang": {}}, "constraints": {"topology": [{"level": "rack"}]}});
    job["spec"]["scheduling"] = drafted.clone();
    let (code, made, warned) =
        send(&server, "POST", &format!("{JOBS}?fieldValidation=Strict"), "application/json", &job).await;
    assert_eq!((code, warned.len()), (StatusCode::CREATED, 3), "{made}");
    let present = json!({
        "schedulingPolicy": {"gang": {}}, "schedulingConstraints": {"topology": [{"key": "rack"}]},
    });
    assert_eq!(made["spec"]["scheduling"], present);
    // The second request of a client that compares its manifest with the object.
    let patch = json!({"spec": {"scheduling": drafted}});
    for media_type in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        let (code, again, warned) =
            send(&server, "PATCH", &format!("{JOBS}/a?fieldValidation=Strict"), media_type, &patch).await;
        assert_eq!((code, warned.len()), (StatusCode::OK, 3), "{again}");
        assert_eq!(again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"], "nothing changed");
    }
    job["metadata"]["name"] = json!("b");
    job["spec"]["scheduling"]["schedulingPolicy"] = json!({"basic": {}});
    let (code, status, _) = send(&server, "POST", JOBS, "application/json", &job).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("spec.scheduling.policy"))
    );
}

// Shows: S003-10
// Shows: S003-11
#[tokio::test(start_paused = true)]
async fn the_draft_reference_of_a_pod_becomes_its_group() {
    let server = test_server();
    let mut pod = pod_document("a");
    pod["spec"]["workloadRef"] = json!({"name": "w", "podGroupName": "g"});
    let (code, made, warned) =
        send(&server, "POST", &format!("{PODS}?fieldValidation=Strict"), "application/json", &pod).await;
    assert_eq!((code, warned.len()), (StatusCode::CREATED, 1), "{made}");
    assert_eq!(made["spec"]["schedulingGroup"], json!({"podGroupName": "g"}));
    pod["spec"]["workloadRef"]["podGroupReplicaKey"] = json!("0");
    let (code, status, _) = send(&server, "POST", PODS, "application/json", &pod).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("spec.workloadRef.podGroupReplicaKey") && message.contains("one PodGroup is one replica"),
        "{message}"
    );
}

// Shows: S003-34
#[tokio::test(start_paused = true)]
async fn groups_inside_a_workload_are_refused_with_a_hint() {
    let server = test_server();
    let workload = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "metadata": {"name": "a"},
        "spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]},
    });
    let (code, status, _) = send(&server, "POST", &path("v1alpha1", WORKLOADS), "application/json", &workload).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(status["message"].as_str().unwrap().contains("write podGroupTemplates"), "{status}");
}

// Shows: S000-15
#[tokio::test(start_paused = true)]
async fn a_draft_list_of_templates_can_be_written_and_merged() {
    let server = test_server();
    let template = json!({"name": "workers", "schedulingPolicy": {"gang": {"minCount": 4}}});
    let spec = json!({
        "controllerRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "j"}, "podGroupTemplate": [template],
    });
    let workload = json!({"metadata": {"name": "a"}, "spec": spec});
    let (code, made, warned) = send(&server, "POST", &path("v1alpha1", WORKLOADS), "application/json", &workload).await;
    assert_eq!((code, warned.len()), (StatusCode::CREATED, 2), "{made}");
    let one = path("v1alpha1", &format!("{WORKLOADS}/a"));
    let (code, again, _) = send(&server, "PATCH", &one, "application/merge-patch+json", &json!({"spec": spec})).await;
    assert_eq!((code, &again["metadata"]["resourceVersion"]), (StatusCode::OK, &made["metadata"]["resourceVersion"]));
    let (_, stored) = server.get(&path("v1beta1", &format!("{WORKLOADS}/a"))).await;
    assert_eq!(stored["spec"]["controllerRef"], json!({"apiGroup": "batch", "kind": "Job", "name": "j"}));
    let mut template = template;
    template["schedulingConstraints"] = Value::Null;
    assert_eq!(stored["spec"]["podGroupTemplates"], json!([template]));
}
