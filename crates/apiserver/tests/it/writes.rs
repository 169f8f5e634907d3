//! Writes: create, update, patch, status, conflicts, strictness.

use http::StatusCode;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::test_server::{
    JOBS, PODS, job, job_document, labelled, pod, pod_document, refusal, test_server, test_server_on,
};

#[tokio::test(start_paused = true)]
async fn a_created_object_has_defaults_and_system_fields() {
    let server = test_server();
    let made = server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let meta = &made.metadata;
    assert_eq!(meta.namespace.as_deref(), Some("default"));
    assert_eq!(meta.generation, Some(1));
    assert_eq!(meta.creation_timestamp.as_ref().unwrap().0.to_string(), "2030-01-01T00:00:00Z");
    assert!(meta.uid.is_some() && meta.resource_version.is_some());
    let spec = made.spec.as_ref().unwrap();
    assert_eq!((spec.restart_policy.as_deref(), spec.priority), (Some("Always"), Some(0)));
    let status = made.status.as_ref().unwrap();
    assert_eq!((status.phase.as_deref(), status.qos_class.as_deref()), (Some("Pending"), Some("BestEffort")));
    assert_eq!(server.pods().get("a").await.unwrap(), made);
}

#[tokio::test(start_paused = true)]
async fn a_second_object_of_the_same_name_is_refused() {
    let server = test_server();
    server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let again = server.pods().create(&PostParams::default(), &pod("a")).await;
    assert_eq!(refusal(again), (409, "pods \"a\" already exists".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn generated_names_have_five_characters_and_a_base_that_fits() {
    let server = test_server();
    for (prefix, base) in [("trainer-", "trainer-".to_owned()), (&"x".repeat(80), "x".repeat(58))] {
        let mut pod = pod("");
        pod.metadata = ObjectMeta { generate_name: Some(prefix.to_owned()), ..ObjectMeta::default() };
        let name = server.pods().create(&PostParams::default(), &pod).await.unwrap().metadata.name.unwrap();
        assert_eq!((name.len(), name.starts_with(&base)), (base.len() + 5, true), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_generated_name_that_exists_is_generated_again() {
    let first = test_server();
    let mut pod = pod("");
    pod.metadata = ObjectMeta { generate_name: Some("a-".to_owned()), ..ObjectMeta::default() };
    let mut names = Vec::new();
    for _ in 0..3 {
        // The same seed generates the same names, and more of them exist each time.
        let server = test_server_on(first.store.clone(), 7);
        let made = server.pods().create(&PostParams::default(), &pod).await.unwrap();
        names.push(made.metadata.name.unwrap());
    }
    names.dedup();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_selects_its_pods_by_the_generated_name_and_uid() {
    let server = test_server();
    let mut job = job("");
    job.metadata = ObjectMeta { generate_name: Some("j-".to_owned()), ..ObjectMeta::default() };
    let made = server.jobs().create(&PostParams::default(), &job).await.unwrap();
    let labels = made.spec.unwrap().template.metadata.unwrap().labels.unwrap();
    assert_eq!(labels["batch.kubernetes.io/job-name"], made.metadata.name.unwrap());
    assert_eq!(labels["batch.kubernetes.io/controller-uid"], made.metadata.uid.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_update_of_an_older_version_is_a_conflict() {
    let server = test_server();
    let pods = server.pods();
    let first = pods.create(&PostParams::default(), &pod("a")).await.unwrap();
    let mut second = first.clone();
    second.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    let second = pods.replace("a", &PostParams::default(), &second).await.unwrap();
    assert_ne!(second.metadata.resource_version, first.metadata.resource_version);
    let (code, message) = refusal(pods.replace("a", &PostParams::default(), &first).await);
    assert_eq!(code, 409);
    assert_eq!(
        message,
        "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the \
         latest version and try again"
    );
    let mut other = second.clone();
    other.metadata.uid = Some("another".to_owned());
    let (code, message) = refusal(pods.replace("a", &PostParams::default(), &other).await);
    assert!(code == 409 && message.contains("UID in precondition: another"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn an_update_without_a_version_depends_on_the_kind() {
    let server = test_server();
    server.jobs().create(&PostParams::default(), &job("a")).await.unwrap();
    let (_, mut stored) = server.get(&format!("{JOBS}/a")).await;
    stored["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    stored["spec"]["backoffLimit"] = json!(2);
    let put = |path: String, body: Value| {
        let server = &server;
        async move { server.call("PUT", &path, "application/json", body.to_string()).await }
    };
    let (code, after) = put(format!("{JOBS}/a"), stored).await;
    assert_eq!((code, &after["metadata"]["generation"]), (StatusCode::OK, &json!(2)), "{after}");

    let groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
    let (code, mut group) =
        server.post(groups, json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}})).await;
    assert_eq!(code, StatusCode::CREATED, "{group}");
    group["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let (code, refused) = put(format!("{groups}/g"), group).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        refused["message"],
        "PodGroup.scheduling.k8s.io \"g\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[tokio::test(start_paused = true)]
async fn patches_change_only_their_fields() {
    let server = test_server();
    let pods = server.pods();
    let made = pods.create(&PostParams::default(), &labelled("a", "x", "1")).await.unwrap();
    let params = PatchParams::default();
    let merge = json!({"metadata": {"labels": {"x": null, "y": "2"}}});
    let merged = pods.patch("a", &params, &Patch::Merge(&merge)).await.unwrap();
    assert_eq!(merged.metadata.labels, Some([("y".to_owned(), "2".to_owned())].into()));
    assert_eq!(merged.spec, made.spec);
    let operations = json!([{"op": "test", "path": "/metadata/labels/y", "value": "2"},
                            {"op": "replace", "path": "/metadata/labels/y", "value": "3"}]);
    let patch: json_patch::Patch = serde_json::from_value(operations).unwrap();
    let patched = pods.patch("a", &params, &Patch::<Pod>::Json(patch.clone())).await.unwrap();
    assert_eq!(patched.metadata.labels, Some([("y".to_owned(), "3".to_owned())].into()));
    let (code, _) = refusal(pods.patch("a", &params, &Patch::<Pod>::Json(patch)).await);
    assert_eq!(code, 422, "the test operation no longer holds");
    let stale = json!({"metadata": {"resourceVersion": made.metadata.resource_version, "labels": {"y": "4"}}});
    assert_eq!(refusal(pods.patch("a", &params, &Patch::Merge(&stale)).await).0, 409);
    let strategic = json!({"metadata": {"labels": {"y": null, "z": "4"}}});
    let patched = pods.patch("a", &params, &Patch::Strategic(&strategic)).await.unwrap();
    assert_eq!(patched.metadata.labels, Some([("z".to_owned(), "4".to_owned())].into()));
    let (code, _) = refusal(pods.patch("absent", &params, &Patch::Merge(&merge)).await);
    assert_eq!(code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_keeps_its_version() {
    let server = test_server();
    let made = server.pods().create(&PostParams::default(), &labelled("a", "x", "1")).await.unwrap();
    let before = server.store.revision();
    let patch = json!({"metadata": {"labels": {"x": "1"}}});
    let patched = server.pods().patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let replaced = server.pods().replace("a", &PostParams::default(), &made).await.unwrap();
    assert_eq!((&patched, &replaced), (&made, &made));
    assert_eq!(server.store.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_separately() {
    let server = test_server();
    let jobs = server.jobs();
    jobs.create(&PostParams::default(), &job("a")).await.unwrap();
    let both = json!({"spec": {"backoffLimit": 3}, "status": {"active": 2}});
    let params = PatchParams::default();
    let after = jobs.patch_status("a", &params, &Patch::Merge(&both)).await.unwrap();
    assert_eq!(after.status.as_ref().unwrap().active, Some(2));
    assert_eq!((after.spec.as_ref().unwrap().backoff_limit, after.metadata.generation), (Some(6), Some(1)));
    let both = json!({"spec": {"backoffLimit": 3}, "status": {"active": 7}});
    let after = jobs.patch("a", &params, &Patch::Merge(&both)).await.unwrap();
    assert_eq!(after.status.as_ref().unwrap().active, Some(2));
    assert_eq!((after.spec.as_ref().unwrap().backoff_limit, after.metadata.generation), (Some(3), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_refused_warned_of_or_dropped_as_requested() {
    let server = test_server();
    let mut document = pod_document("a");
    document["spec"]["foo"] = json!(1);
    document["spec"]["containers"][0]["imag"] = json!("x");
    let (code, refused) = server.post(&format!("{PODS}?fieldValidation=Strict"), document.clone()).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("strict decoding error: "), "{message}");
    for field in ["unknown field \"spec.foo\"", "unknown field \"spec.containers[0].imag\""] {
        assert!(message.contains(field), "{message}");
    }
    for (name, validation, warned) in [("b", "Warn", 2), ("c", "Ignore", 0), ("d", "", 2)] {
        document["metadata"]["name"] = json!(name);
        let uri = format!("{PODS}?fieldValidation={validation}");
        let request = http::Request::post(uri).header("content-type", "application/json");
        let response = server.send(request.body(document.to_string().into()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::CREATED);
        let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
        assert_eq!(warnings.len(), warned, "{validation}: {warnings:?}");
        let (_, stored) = server.get(&format!("{PODS}/{name}")).await;
        assert!(stored["spec"]["foo"].is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn every_validation_error_is_a_cause() {
    let server = test_server();
    let mut document = job_document("a");
    document["spec"]["parallelism"] = json!(-1);
    document["spec"]["backoffLimit"] = json!(-2);
    let (code, status) = server.post(JOBS, document.clone()).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
    let fields: Vec<&str> =
        status["details"]["causes"].as_array().unwrap().iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert!(fields.contains(&"spec.parallelism") && fields.contains(&"spec.backoffLimit"), "{fields:?}");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("Job.batch \"a\" is invalid: [spec.") && message.ends_with(']'), "{message}");
    document["spec"].as_object_mut().unwrap().remove("backoffLimit");
    let (_, status) = server.post(JOBS, document).await;
    let want = "Job.batch \"a\" is invalid: spec.parallelism: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(status["message"], want);
}

#[tokio::test(start_paused = true)]
async fn all_wrong_types_are_reported() {
    let server = test_server();
    let mut document = job_document("a");
    document["spec"]["parallelism"] = json!("four");
    document["spec"]["suspend"] = json!(1);
    let (code, status) = server.post(JOBS, document).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("spec.parallelism") && message.contains("spec.suspend"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_in_the_namespace_of_the_path() {
    let server = test_server();
    let elsewhere: Api<Pod> = Api::namespaced(server.client.clone(), "nowhere");
    let refused = refusal(elsewhere.create(&PostParams::default(), &pod("a")).await);
    assert_eq!(refused, (404, "namespaces \"nowhere\" not found".to_owned()));
    let mut document = pod_document("a");
    document["metadata"]["namespace"] = json!("kube-system");
    assert_eq!(server.post(PODS, document).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(server.post(PODS, job_document("a")).await.0, StatusCode::BAD_REQUEST);
    let namespaces: Api<Namespace> = Api::all(server.client.clone());
    let names: Vec<String> = namespaces
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|n| n.metadata.name.unwrap())
        .collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[tokio::test(start_paused = true)]
async fn priority_follows_from_the_class() {
    let server = test_server();
    let classes: Api<PriorityClass> = Api::all(server.client.clone());
    let class = |name: &str, value: i32, default: bool| PriorityClass {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        value: Some(value),
        global_default: Some(default),
        ..PriorityClass::default()
    };
    classes.create(&PostParams::default(), &class("high", 1000, false)).await.unwrap();
    classes.create(&PostParams::default(), &class("usual", 10, true)).await.unwrap();
    let (code, message) = refusal(classes.create(&PostParams::default(), &class("second", 1, true)).await);
    assert!(code == 403 && message.contains("usual is already marked as default"), "{message}");
    for (name, class, want) in [("a", "high", 1000), ("b", "", 10), ("c", "system-node-critical", 2_000_001_000)] {
        let mut pod = pod(name);
        pod.spec.as_mut().unwrap().priority_class_name = Some(class.to_owned()).filter(|class| !class.is_empty());
        let made = server.pods().create(&PostParams::default(), &pod).await.unwrap();
        assert_eq!(made.spec.unwrap().priority, Some(want), "{class}");
    }
    let mut wrong = pod("d");
    wrong.spec.as_mut().unwrap().priority_class_name = Some("absent".to_owned());
    let (code, message) = refusal(server.pods().create(&PostParams::default(), &wrong).await);
    assert!(code == 403 && message.ends_with("no PriorityClass with name absent was found"), "{message}");
    let mut own = pod("e");
    own.spec.as_mut().unwrap().priority = Some(7);
    assert_eq!(refusal(server.pods().create(&PostParams::default(), &own).await).0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_the_status_it_registers_with() {
    let server = test_server();
    let nodes: Api<Node> = Api::all(server.client.clone());
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4000m", "pods": "10"}},
    }))
    .unwrap();
    let made = nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = made.status.unwrap();
    assert_eq!(status.capacity.unwrap()["cpu"].0, "4");
    assert_eq!(status.allocatable.unwrap()["pods"].0, "10");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_validates_and_stores_nothing() {
    let server = test_server();
    let before = server.store.revision();
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let made = server.pods().create(&params, &pod("a")).await.unwrap();
    assert!(made.metadata.uid.is_some());
    assert_eq!(server.store.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_new_gated_pod_has_the_condition() {
    let server = test_server();
    let mut pod = pod_document("a");
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    let (_, made) = server.post(PODS, pod).await;
    let condition = &made["status"]["conditions"][0];
    assert_eq!((&condition["reason"], &condition["lastProbeTime"]), (&json!("SchedulingGated"), &Value::Null));
    assert_eq!(condition["lastTransitionTime"], made["metadata"]["creationTimestamp"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_list_is_distinguished_from_an_empty_one() {
    let server = test_server();
    for (values, want) in [(Value::Null, "null"), (json!([]), "[]")] {
        let mut job = job_document("a");
        job["spec"]["podFailurePolicy"] = json!({"rules": [{"action": "FailJob",
            "onExitCodes": {"operator": "In", "values": values}}]});
        let (_, status) = server.post(JOBS, job).await;
        let message = status["details"]["causes"][0]["message"].as_str().unwrap();
        assert_eq!(message, format!("Invalid value: {want}: at least one value is required"));
    }
}

// Errors of environment lists have no path, as in Kubernetes: two equal ones are reported once.
#[tokio::test(start_paused = true)]
async fn equal_errors_are_reported_once() {
    let mut pod = pod_document("a");
    pod["spec"]["containers"][0]["envFrom"] = json!([{}, {}]);
    let (code, status) = test_server().post(PODS, pod).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(status["message"].as_str().unwrap().matches("configMapRef").count(), 1, "{status}");
}

#[tokio::test(start_paused = true)]
async fn the_error_about_an_immutable_field_has_the_sent_value() {
    let server = test_server();
    let groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
    let group = json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "c", "resourceClaimName": "x"}]}});
    let (code, group) = server.post(groups, group).await;
    assert_eq!(code, StatusCode::CREATED, "{group}");
    for (change, want) in [
        (
            json!({"disruptionMode": {"all": {}, "single": null}}),
            r#"spec.disruptionMode: Invalid value: {"all":{}}: field is immutable"#,
        ),
        (json!({"priorityClassName": "x"}), r#"spec.priorityClassName: Invalid value: "x": field is immutable"#),
        (json!({"resourceClaims": null}), "spec.resourceClaims: Invalid value: null: field is immutable"),
        (
            json!({"schedulingPolicy": {"basic": null, "gang": {"minCount": 2}}}),
            r#"spec.schedulingPolicy.gang: Invalid value: {"minCount":2}: field cannot be set once created"#,
        ),
    ] {
        let body = json!({"spec": change}).to_string();
        let (code, status) = server.call("PATCH", &format!("{groups}/g"), "application/merge-patch+json", body).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(status["message"].as_str().unwrap().contains(want), "{status}");
    }
}
