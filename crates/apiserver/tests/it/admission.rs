//! Admission: rules that depend on other objects in the cluster.

use http::StatusCode;
use serde_json::{Value, json};

use crate::test_server::{PODS, TestServer, pod_document, test_server};

const NAMESPACES: &str = "/api/v1/namespaces";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const COMPOSITES: &str = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups";
const MERGE: &str = "application/merge-patch+json";

fn group(name: &str, fields: &Value) -> Value {
    let mut spec = json!({"schedulingPolicy": {"basic": {}}});
    fields.as_object().unwrap().iter().for_each(|(field, value)| spec[field] = value.clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn composite(name: &str, fields: &Value) -> Value {
    let mut composite = group(name, fields);
    composite["spec"]["workloadRef"] = json!({"workloadName": "w", "templateName": "t"});
    composite
}

async fn make(server: &TestServer, path: &str, object: Value) -> Value {
    let (code, response) = server.post(path, object).await;
    assert_eq!(code, StatusCode::CREATED, "{response}");
    response
}

/// The text after `forbidden: ` in a refusal by admission.
async fn refusal_reason(server: &TestServer, path: &str, object: Value) -> String {
    let (code, status) = server.post(path, object).await;
    assert_eq!((code, &status["reason"]), (StatusCode::FORBIDDEN, &json!("Forbidden")), "{status}");
    status["message"].as_str().unwrap().split_once(" is forbidden: ").unwrap().1.to_owned()
}

// Shows: S002-20
// Shows: S002-22
#[tokio::test(start_paused = true)]
async fn a_group_has_the_priority_of_its_class_or_of_the_default() {
    let server = test_server();
    make(&server, CLASSES, json!({"metadata": {"name": "calm"}, "value": 5, "preemptionPolicy": "Never"})).await;
    for (path, object) in [(GROUPS, group as fn(&str, &Value) -> Value), (COMPOSITES, composite)] {
        let made = make(&server, path, object("plain", &json!({}))).await;
        assert_eq!((&made["spec"]["priority"], &made["spec"]["priorityClassName"]), (&json!(0), &Value::Null));
        let named = json!({"priorityClassName": "calm", "preemptionPolicy": "Never", "priority": 5});
        let made = make(&server, path, object("named", &named)).await;
        assert_eq!((&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]), (&json!(5), &json!("Never")));
    }
    make(&server, CLASSES, json!({"metadata": {"name": "usual"}, "value": 10, "globalDefault": true})).await;
    let made = make(&server, GROUPS, group("default", &json!({}))).await;
    assert_eq!((&made["spec"]["priority"], &made["spec"]["priorityClassName"]), (&json!(10), &json!("usual")));
    let second = json!({"metadata": {"name": "other"}, "value": 1, "globalDefault": true});
    let want = "PriorityClass usual is already marked as default. Only one default can exist";
    assert_eq!(refusal_reason(&server, CLASSES, second).await, want);
}

// Shows: S002-21
#[tokio::test(start_paused = true)]
async fn a_group_that_differs_from_its_class_is_refused_with_upstreams_message() {
    let server = test_server();
    make(&server, CLASSES, json!({"metadata": {"name": "calm"}, "value": 5, "preemptionPolicy": "Never"})).await;
    let rows =
        [(GROUPS, "pod group", group as fn(&str, &Value) -> Value), (COMPOSITES, "composite pod group", composite)];
    for (path, kind, object) in rows {
        let priority = format!(
            "priority set in the {kind} (7) must match the priority computed (0) based on the priority class set in the spec"
        );
        // A missing policy has already been defaulted, so a class with another policy refuses it.
        let policy = format!(
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in {kind} spec; priority \
             admission controller computed Never from the given PriorityClass name"
        );
        for (fields, want) in [
            (json!({"priority": 7}), priority.as_str()),
            (json!({"priorityClassName": "calm"}), policy.as_str()),
            (json!({"priorityClassName": "absent"}), "no PriorityClass with name absent was found"),
        ] {
            assert_eq!(refusal_reason(&server, path, object("a", &fields)).await, want, "{path} {fields}");
        }
    }
    let mut pod = pod_document("a");
    pod["spec"]["priority"] = json!(3);
    let want = "the integer value of priority (3) must not be provided in pod spec; priority admission controller \
                computed 0 from the given PriorityClass name";
    assert_eq!(refusal_reason(&server, PODS, pod).await, want);
}

#[tokio::test(start_paused = true)]
async fn system_classes_exist_and_cannot_be_deleted() {
    let server = test_server();
    let (_, class) = server.get(&format!("{CLASSES}/system-node-critical")).await;
    assert_eq!((&class["value"], &class["preemptionPolicy"]), (&json!(2_000_001_000), &json!("PreemptLowerPriority")));
    let (code, status) = server.call("DELETE", &format!("{CLASSES}/system-cluster-critical"), "", "").await;
    let want = "priorityclasses.scheduling.k8s.io \"system-cluster-critical\" is forbidden: this is a system priority \
                class and cannot be deleted";
    assert_eq!((code, status["message"].as_str().unwrap()), (StatusCode::FORBIDDEN, want));
    let mut pod = pod_document("a");
    pod["spec"]["priorityClassName"] = json!("system-node-critical");
    assert_eq!(make(&server, PODS, pod).await["spec"]["priority"], 2_000_001_000);
}

#[tokio::test(start_paused = true)]
async fn every_new_pod_group_is_protected_once() {
    let server = test_server();
    let ours = "scheduling.k8s.io/podgroup-protection";
    assert_eq!(make(&server, GROUPS, group("a", &json!({}))).await["metadata"]["finalizers"], json!([ours]));
    let mut with_finalizer = group("b", &json!({}));
    with_finalizer["metadata"]["finalizers"] = json!(["example.com/x"]);
    assert_eq!(make(&server, GROUPS, with_finalizer).await["metadata"]["finalizers"], json!(["example.com/x", ours]));
    let mut with_protection = group("c", &json!({}));
    with_protection["metadata"]["finalizers"] = json!([ours]);
    assert_eq!(make(&server, GROUPS, with_protection).await["metadata"]["finalizers"], json!([ours]));
    let made = make(&server, COMPOSITES, composite("d", &json!({}))).await;
    assert_eq!(made["metadata"]["finalizers"], Value::Null, "composites are not protected");
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_refuses_creates_with_a_cause() {
    let server = test_server();
    make(&server, NAMESPACES, json!({"metadata": {"name": "one"}})).await;
    let (_, deleted) = server.call("DELETE", &format!("{NAMESPACES}/one"), "", "").await;
    assert_eq!(deleted["status"]["phase"], "Terminating");
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], Value::Null);
    let (code, status) = server.post("/api/v1/namespaces/one/pods", pod_document("a")).await;
    let want = "pods \"a\" is forbidden: unable to create new content in namespace one because it is being terminated";
    assert_eq!((code, status["message"].as_str().unwrap()), (StatusCode::FORBIDDEN, want));
    let cause = json!([{
        "reason": "NamespaceTerminating", "message": "namespace one is being terminated", "field": "metadata.namespace",
    }]);
    assert_eq!(status["details"]["causes"], cause);
    let (_, again) = server.call("DELETE", &format!("{NAMESPACES}/one"), "", "").await;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&again), version(&deleted), "a second delete changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_removed_with_the_last_finalizer_of_its_spec() {
    let server = test_server();
    let path = format!("{NAMESPACES}/two");
    let made =
        make(&server, NAMESPACES, json!({"metadata": {"name": "two"}, "spec": {"finalizers": ["x.io/y"]}})).await;
    assert_eq!(made["spec"]["finalizers"], json!(["x.io/y", "kubernetes"]));
    let finalize = |finalizers: Value| {
        let body = json!({"metadata": {"name": "two"}, "spec": {"finalizers": finalizers}}).to_string();
        server.call("PUT", "/api/v1/namespaces/two/finalize", "application/json", body)
    };
    let (code, status) = finalize(json!(["kubernetes", "bad"])).await;
    let cause = json!({
        "reason": "FieldValueInvalid", "field": "spec.finalizers[1]",
        "message": "Invalid value: \"bad\": name is neither a standard finalizer name nor is it fully qualified",
    });
    assert_eq!((code, &status["details"]["causes"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!([cause])));
    let (code, updated) = server.call("PATCH", &path, MERGE, json!({"spec": {"finalizers": []}}).to_string()).await;
    assert_eq!((code, &updated["spec"]), (StatusCode::OK, &made["spec"]), "only finalize removes finalizers");
    assert_eq!(finalize(json!(["kubernetes"])).await.1["spec"]["finalizers"], json!(["kubernetes"]));
    server.call("DELETE", &path, "", "").await;
    assert_eq!(server.get(&path).await.1["status"]["phase"], "Terminating");
    assert_eq!(finalize(json!([])).await.0, StatusCode::OK);
    assert_eq!(server.get(&path).await.0, StatusCode::NOT_FOUND);
    for method in ["GET", "PATCH", "DELETE"] {
        let (code, _) = server.call(method, &format!("{NAMESPACES}/default/finalize"), MERGE, "{}").await;
        assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_missing_runtime_class_is_refused() {
    let server = test_server();
    let mut pod = pod_document("a");
    pod["spec"]["runtimeClassName"] = json!("kata");
    assert_eq!(refusal_reason(&server, PODS, pod).await, "pod rejected: RuntimeClass \"kata\" not found");
}

// As DefaultTolerationSeconds of the real server.
#[tokio::test(start_paused = true)]
async fn a_pod_tolerates_an_unavailable_node_for_five_minutes_by_default() {
    let server = test_server();
    let added = |taint: &str| json!({"key": format!("node.kubernetes.io/{taint}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let (not_ready, unreachable) = (added("not-ready"), added("unreachable"));
    let own = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"});
    let other = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoSchedule"});
    let all = json!({"operator": "Exists"});
    for (name, given, want) in [
        ("a", json!(null), json!([not_ready, unreachable])),
        ("b", json!([own]), json!([own, not_ready])),
        ("c", json!([other]), json!([other, not_ready, unreachable])),
        ("d", json!([all]), json!([all])),
    ] {
        let mut pod = pod_document(name);
        pod["spec"]["tolerations"] = given;
        let (code, pod) = server.post(PODS, pod).await;
        assert_eq!(code, 201, "{pod}");
        assert_eq!(pod["spec"]["tolerations"], want, "{name}");
    }
}
