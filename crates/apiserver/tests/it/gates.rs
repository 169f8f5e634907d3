//! Feature gates that are switched off and on while objects exist.

use api::gates::{Gate, Gates};
use http::StatusCode;
use serde_json::{Value, json};
use store::{HistoryLimits, Store};

use crate::test_server::{JOBS, PODS, TestServer, job_document, pod_document, test_server, test_server_with_gates};

const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const WORKLOADS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads";
const MERGE: &str = "application/merge-patch+json";

/// An object with a field behind a gate: its collection, and the path of the field.
struct GatedField {
    gate: Gate,
    collection: &'static str,
    object: Value,
    field: &'static str,
}

fn gated_fields() -> Vec<GatedField> {
    let group = |field: &str, value: Value| {
        let spec = json!({"schedulingPolicy": {"basic": {}}, field: value, "workloadRef": {"workloadName": "w", "templateName": "t"}});
        json!({"metadata": {"name": "a"}, "spec": spec})
    };
    let template = |field: &str, value: Value| {
        let template = json!({"name": "t", "schedulingPolicy": {"basic": {}}, field: value});
        json!({"metadata": {"name": "a"}, "spec": {"podGroupTemplates": [template]}})
    };
    let constraints = || json!({"topology": [{"key": "rack"}]});
    let claims = || json!([{"name": "nic", "resourceClaimName": "shared"}]);
    let mut job = job_document("a");
    job["spec"]["scheduling"] = json!({"schedulingPolicy": {"gang": {}}});
    let mut pod = pod_document("a");
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
    let topology = Gate::TopologyAwareWorkloadScheduling;
    let row = |gate, collection, object, field| GatedField { gate, collection, object, field };
    vec![
        row(Gate::WorkloadWithJob, JOBS, job, "/spec/scheduling"),
        row(Gate::GenericWorkload, PODS, pod, "/spec/schedulingGroup"),
        row(topology, GROUPS, group("schedulingConstraints", constraints()), "/spec/schedulingConstraints"),
        row(Gate::DRAWorkloadResourceClaims, GROUPS, group("resourceClaims", claims()), "/spec/resourceClaims"),
        row(
            Gate::CompositePodGroup,
            GROUPS,
            group("parentCompositePodGroupName", json!("p")),
            "/spec/parentCompositePodGroupName",
        ),
        row(
            topology,
            WORKLOADS,
            template("schedulingConstraints", constraints()),
            "/spec/podGroupTemplates/0/schedulingConstraints",
        ),
        row(
            Gate::PodGroupPreemptionPolicy,
            WORKLOADS,
            template("preemptionPolicy", json!("Never")),
            "/spec/podGroupTemplates/0/preemptionPolicy",
        ),
    ]
}

/// A change of the object that does not affect the field.
async fn touch(server: &TestServer, path: &str, label: &str) -> Value {
    let patch = json!({"metadata": {"labels": {"touched": label}}}).to_string();
    let (code, response) = server.call("PATCH", path, MERGE, patch).await;
    assert_eq!(code, StatusCode::OK, "{response}");
    response
}

// Shows: S003-37
// Shows: S004-33
#[tokio::test(start_paused = true)]
async fn a_stored_field_is_kept_while_its_gate_is_off() {
    for GatedField { gate, collection, object, field } in gated_fields() {
        let case = format!("{} of {collection}", gate.name());
        let store = Store::in_memory(HistoryLimits::default());
        let on = test_server_with_gates(store.clone(), 1, Gates::default());
        let (code, made) = on.post(collection, object.clone()).await;
        assert_eq!(code, StatusCode::CREATED, "{case}: {made}");
        let value = made.pointer(field).unwrap_or_else(|| panic!("{case}: {made}"));
        let path = format!("{collection}/a");
        let off = test_server_with_gates(store.clone(), 2, Gates::default().with(gate, false));
        assert_eq!(off.get(&path).await.1.pointer(field), Some(value), "{case}: read while off");
        assert_eq!(touch(&off, &path, "off").await.pointer(field), Some(value), "{case}: changed while off");
        let again = test_server_with_gates(store, 3, Gates::default());
        assert_eq!(touch(&again, &path, "on").await.pointer(field), Some(value), "{case}: on again");
    }
}

// Shows: S000-69
// Shows: S002-45
// Shows: S004-68
// Shows: U-TestDropDisabledFieldsScheduling
#[tokio::test(start_paused = true)]
async fn a_new_object_loses_the_field_only_while_its_gate_is_off() {
    for GatedField { gate, collection, object, field } in gated_fields() {
        let case = format!("{} of {collection}", gate.name());
        let store = Store::in_memory(HistoryLimits::default());
        let off = test_server_with_gates(store.clone(), 1, Gates::default().with(gate, false));
        let (code, made) = off.post(collection, object.clone()).await;
        assert_eq!((code, made.pointer(field)), (StatusCode::CREATED, None), "{case}: {made}");
        let mut second = object;
        second["metadata"]["name"] = json!("b");
        let on = test_server_with_gates(store, 2, Gates::default());
        let (code, made) = on.post(collection, second).await;
        assert!(code == StatusCode::CREATED && made.pointer(field).is_some(), "{case}: {made}");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_list_the_enabled_features() {
    let server = test_server();
    let request = http::Request::get("/metrics").body(bytes::Bytes::new()).unwrap();
    let body = http_body_util::BodyExt::collect(server.send(request).await.into_body()).await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    for gate in Gate::ALL {
        let on = i32::from(Gates::default().enabled(gate));
        let line = format!("kubernetes_feature_enabled{{name=\"{}\",stage=\"{}\"}} {on}", gate.name(), gate.stage());
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
}

/// The path and an object of each kind that needs `GenericWorkload`.
fn gated_kinds() -> [(String, Value); 3] {
    let reference = json!({"workloadName": "a", "templateName": "t"});
    [
        (WORKLOADS.to_owned(), json!({"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]})),
        (GROUPS.to_owned(), json!({"schedulingPolicy": {"gang": {"minCount": 2}}})),
        (
            GROUPS.replace("v1beta1", "v1alpha3").replace("podgroups", "compositepodgroups"),
            json!({"schedulingPolicy": {"basic": {}}, "workloadRef": reference}),
        ),
    ]
}

// As kube-apiserver 1.37.1 without the gate: the versions are not served, and paths in them are unknown.
// Shows: S002-02
// Shows: S003-37
#[tokio::test(start_paused = true)]
async fn without_their_gate_kinds_are_not_served_and_stored_objects_return_with_it() {
    let store = Store::in_memory(HistoryLimits::default());
    let on = test_server_with_gates(store.clone(), 1, Gates::default());
    let mut made = Vec::new();
    for (collection, spec) in gated_kinds() {
        let (code, object) = on.post(&collection, json!({"metadata": {"name": "a"}, "spec": spec})).await;
        assert_eq!(code, StatusCode::CREATED, "{object}");
        made.push(object);
    }
    let off = test_server_with_gates(store.clone(), 2, Gates::default().with(Gate::GenericWorkload, false));
    let (_, group) = off.get("/apis/scheduling.k8s.io").await;
    let versions: Vec<&Value> = group["versions"].as_array().unwrap().iter().map(|v| &v["version"]).collect();
    assert_eq!(versions, ["v1"]);
    for version in ["v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"] {
        assert_eq!(off.get(&format!("/apis/scheduling.k8s.io/{version}")).await.0, StatusCode::NOT_FOUND, "{version}");
    }
    let unknown = json!("the server could not find the requested resource");
    for (collection, spec) in gated_kinds() {
        let (code, status) = off.post(&collection, json!({"metadata": {"name": "b"}, "spec": spec})).await;
        assert_eq!((code, &status["message"]), (StatusCode::NOT_FOUND, &unknown), "{collection}");
        assert_eq!(off.get(&format!("{collection}/a")).await.0, StatusCode::NOT_FOUND);
        assert_eq!(off.call("DELETE", &format!("{collection}/a"), "", "").await.0, StatusCode::NOT_FOUND);
    }
    let (_, classes) = off.get("/apis/scheduling.k8s.io/v1/priorityclasses").await;
    assert_eq!(classes["items"].as_array().map(Vec::len), Some(2), "kinds without a gate are still served");
    let again = test_server_with_gates(store, 3, Gates::default());
    for ((collection, _), before) in gated_kinds().into_iter().zip(made) {
        assert_eq!(again.get(&format!("{collection}/a")).await.1, before, "{collection}");
        let touched = touch(&again, &format!("{collection}/a"), "on").await;
        assert_eq!(touched["spec"], before["spec"]);
    }
}
