//! The manifests of the proposals, posted as they are in `examples/seeds`.

use std::path::PathBuf;

use api::gates::{Gate, Gates};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use store::{HistoryLimits, Store};

use crate::test_server::{TestServer, read_response, test_server, test_server_with_gates};

fn manifest(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/seeds").join(format!("{name}.yaml"));
    std::fs::read_to_string(path).unwrap()
}

/// The path to which an object of this kind is posted, as a client finds it by discovery.
fn collection(document: &Value) -> String {
    let api_version = document["apiVersion"].as_str().unwrap();
    let api_version = api_version.replace("scheduling/", "scheduling.k8s.io/");
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let kind = document["kind"].as_str().unwrap().to_lowercase();
    if kind == "priorityclass" {
        return format!("/{root}/{api_version}/priorityclasses");
    }
    let namespace = document["metadata"]["namespace"].as_str().unwrap_or("default");
    format!("/{root}/{api_version}/namespaces/{namespace}/{kind}s")
}

/// Posts a file with strict validation, as kubectl does, after creating its namespace. Returns code, body and warnings.
async fn post(server: &TestServer, name: &str) -> (StatusCode, Value, Vec<String>) {
    let text = manifest(name);
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    if let Some(namespace) = document["metadata"]["namespace"].as_str() {
        server.post("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
    }
    let path = format!("{}?fieldValidation=Strict", collection(&document));
    let request = Request::post(path).header("content-type", "application/yaml").body(text.into());
    read_response(server.send(request.unwrap()).await).await
}

fn older(version: &str, kind: &str) -> String {
    format!(
        "scheduling.k8s.io/{version} {kind} is an older form and is converted; write scheduling.k8s.io/v1beta1 {kind}"
    )
}

// Shows: S000-15
// Shows: S000-16
// Shows: S001-07
// Shows: S002-10
// Shows: S002-24
// Shows: S003-06
// Shows: S004-13
// Shows: S004-14
// Shows: S004-15
#[tokio::test(start_paused = true)]
async fn every_manifest_of_the_proposals_is_accepted_with_warnings_about_old_forms() {
    let server = test_server();
    let off = "spec.template.spec.workloadRef: dropped, because the feature gate JobWorkloadRef is off";
    let draft =
        |field: &str, write: &str| format!("spec.scheduling.{field}: a name from a draft of the API; use {write}");
    let wants: Vec<(&str, Vec<String>)> = vec![
        ("000-job", vec![]),
        (
            "000-workload",
            vec![
                "spec.podGroupTemplate: a name from a draft of the API; use podGroupTemplates".to_owned(),
                older("v1alpha1", "Workload"),
            ],
        ),
        ("000-podgroup", vec![older("v1alpha1", "PodGroup")]),
        ("000-pod", vec![]),
        ("001-job-1", vec![off.to_owned()]),
        (
            "001-workload",
            vec![
                "apiVersion: scheduling/v1alpha1 is a name from a draft of the API; use scheduling.k8s.io/v1alpha1"
                    .to_owned(),
                older("v1alpha1", "Workload"),
            ],
        ),
        ("001-job-2", vec![off.to_owned()]),
        ("002-priorityclass", vec![]),
        ("002-workload", vec![older("v1alpha2", "Workload")]),
        ("002-podgroup-priority", vec![older("v1alpha2", "PodGroup")]),
        ("002-podgroup-topology", vec![older("v1alpha2", "PodGroup")]),
        ("003-workload", vec![]),
        ("003-podgroup", vec![older("v1alpha1", "PodGroup")]),
        (
            "004-job-gang",
            vec![
                draft("policy", "schedulingPolicy"),
                draft("constraints", "schedulingConstraints"),
                draft("disruption", "disruptionMode"),
                draft("schedulingConstraints.topology[0].level", "key"),
            ],
        ),
        ("004-job-plain", vec![]),
    ];
    for (name, want) in &wants {
        let (code, response, warned) = post(&server, name).await;
        assert_eq!(code, StatusCode::CREATED, "{name}: {response}");
        assert_eq!(&warned, want, "{name}");
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/seeds");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.filter_map(|file| file.strip_suffix(".yaml").map(str::to_owned)).collect();
    // The server does not serve JobSets. `phalanx compile` accepts them.
    files.retain(|file| !file.starts_with("004-jobset"));
    let mut posted: Vec<String> = wants.iter().map(|(name, _)| (*name).to_owned()).collect();
    files.sort();
    posted.sort();
    assert_eq!(files, posted, "every file is posted");
}

// Shows: S002-10
// Shows: S002-24
// Shows: S002-44
#[tokio::test(start_paused = true)]
async fn the_manifests_are_stored_in_the_current_form() {
    let server = test_server();
    for name in ["002-priorityclass", "002-workload", "002-podgroup-priority", "002-podgroup-topology", "003-workload"]
    {
        assert_eq!(post(&server, name).await.0, StatusCode::CREATED, "{name}");
    }
    let (_, created, _) = post(&server, "003-podgroup").await;
    assert_eq!(created["spec"]["podGroupTemplateRef"]["name"], "pd-1-template", "{created}");
    let beta = |namespace: &str, rest: &str| format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/{rest}");
    let (_, workload) = server.get(&beta("some-ns", "workloads/training-job-workload")).await;
    assert_eq!(workload["spec"]["podGroupTemplates"][0]["disruptionMode"], json!({"all": {}}));
    let old = "/apis/scheduling.k8s.io/v1alpha2/namespaces/some-ns/workloads/training-job-workload";
    let (_, read) = server.get(old).await;
    let printed: Value = serde_saphyr::from_str(&manifest("002-workload")).unwrap();
    assert_eq!((&read["spec"], &read["apiVersion"]), (&printed["spec"], &printed["apiVersion"]));
    let (_, group) = server.get(&beta("ns-1", "podgroups/job-1")).await;
    assert_eq!(group["spec"]["priority"], 1_000_000);
    let (_, group) = server.get(&beta("default", "podgroups/example-podgroup")).await;
    assert_eq!(group["spec"]["schedulingConstraints"]["topology"][0]["key"], "topology.example.com/rack");
    let (_, group) = server.get(&beta("ns-1", "podgroups/pd-1")).await;
    assert_eq!(
        group["spec"]["workloadRef"],
        json!({"workloadName": "training-workload", "templateName": "pd-1-template"})
    );
    assert_eq!(group["spec"]["schedulingPolicy"], json!({"gang": {"minCount": 2}}), "from its template");
    assert_eq!(group.get("status"), Some(&json!({})), "a new group has an empty status");
}

// Shows: S001-01
// Shows: S001-02
// Shows: S001-06
// Shows: S001-19
#[tokio::test(start_paused = true)]
async fn a_jobs_reference_is_kept_while_its_gate_is_on() {
    let gates = Gates::default().with(Gate::JobWorkloadRef, true);
    let store = Store::in_memory(HistoryLimits::default());
    let server = test_server_with_gates(store.clone(), 1, gates);
    let (code, job, warned) = post(&server, "001-job-1").await;
    assert_eq!((code, warned.len()), (StatusCode::CREATED, 2), "{job} {warned:?}");
    let reference =
        json!({"apiVersion": "scheduling.k8s.io/v1alpha1", "name": "w-job-1", "namespace": "demo-workload"});
    assert_eq!(job["spec"]["workloadRef"], reference);
    let jobs = "/apis/batch/v1/namespaces/demo-workload/jobs";
    let mut other = job.clone();
    other["spec"]["workloadRef"]["name"] = json!("another");
    let (code, status) = server.call("PUT", &format!("{jobs}/job-1"), "application/json", other.to_string()).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
    // The gate is switched off: the stored field stays, also after a write of another field, and returns with the gate.
    let off = test_server_with_gates(store.clone(), 2, Gates::default());
    let patch = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let (code, job) = off.call("PATCH", &format!("{jobs}/job-1"), "application/merge-patch+json", patch).await;
    assert_eq!((code, &job["spec"]["workloadRef"]), (StatusCode::OK, &reference), "{job}");
    let (_, plain, _) = post(&off, "001-job-2").await;
    assert_eq!(plain["spec"].get("workloadRef"), None);
    let (_, job) = test_server_with_gates(store, 3, gates).get(&format!("{jobs}/job-1")).await;
    assert_eq!(job["spec"]["workloadRef"], reference);
}
