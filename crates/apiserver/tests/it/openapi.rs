//! The OpenAPI documents: complete, and with the fields that clients read.

use std::collections::BTreeSet;

use http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{TestServer, test_server};

/// Every document with the path of the API that it describes.
async fn documents(server: &TestServer) -> Vec<(String, Value)> {
    let (_, index) = server.get("/openapi/v3").await;
    let mut documents = Vec::new();
    for (path, entry) in index["paths"].as_object().unwrap() {
        let (code, document) = server.get(entry["serverRelativeURL"].as_str().unwrap()).await;
        assert_eq!(code, StatusCode::OK, "{path}");
        assert_eq!(document["openapi"], "3.0.0", "{path}");
        documents.push((path.clone(), document));
    }
    documents
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get("$ref") {
                found.insert(target.clone());
            }
            fields.values().for_each(|inner| references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

/// The schema of a kind, found as clients find it.
fn schema_of<'a>(document: &'a Value, kind: &Value) -> Option<&'a Value> {
    let has = |schema: &&Value| {
        schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(kind))
    };
    document["components"]["schemas"].as_object().unwrap().values().find(has)
}

#[tokio::test(start_paused = true)]
async fn every_reference_has_a_schema_and_every_schema_is_referenced() {
    for (path, document) in documents(&test_server()).await {
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for target in &found {
            let schema = document.pointer(target.trim_start_matches('#'));
            assert!(schema.is_some_and(Value::is_object), "{path}: {target}");
        }
        for name in document["components"]["schemas"].as_object().unwrap().keys() {
            assert!(found.contains(&format!("#/components/schemas/{name}")), "{path}: {name} is not referenced");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_served_kind_has_its_schema_and_its_operations() {
    let server = test_server();
    let documents = documents(&server).await;
    for resource in server.server.resources() {
        for version in resource.versions {
            let root = if resource.group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{}/{version}", resource.group)
            };
            let (_, document) = documents.iter().find(|(path, _)| *path == root).unwrap();
            let kind = json!({"group": resource.group, "version": version, "kind": resource.kind});
            let schema = schema_of(document, &kind).unwrap_or_else(|| panic!("no schema of {kind}"));
            assert!(schema["properties"]["metadata"].is_object(), "{kind}");
            let mut actions = BTreeSet::new();
            for item in document["paths"].as_object().unwrap().values() {
                for (method, operation) in
                    item.as_object().unwrap().iter().filter(|(method, _)| *method != "parameters")
                {
                    let names: Vec<&str> = operation["parameters"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|parameter| parameter["name"].as_str().unwrap())
                        .collect();
                    if matches!(method.as_str(), "post" | "put" | "patch") {
                        for name in ["dryRun", "fieldManager", "fieldValidation"] {
                            assert!(names.contains(&name), "{}: {name}", operation["operationId"]);
                        }
                    }
                    if operation["x-kubernetes-group-version-kind"] == kind {
                        actions.insert(operation["x-kubernetes-action"].as_str().unwrap());
                    }
                }
            }
            let mut want = BTreeSet::from(["get", "list", "post", "put", "patch", "delete"]);
            if resource.deletes_collections {
                want.insert("deletecollection");
            }
            assert_eq!(actions, want, "{kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn operation_ids_are_unique() {
    let mut ids = BTreeSet::new();
    for (_, document) in documents(&test_server()).await {
        for item in document["paths"].as_object().unwrap().values() {
            for (_, operation) in item.as_object().unwrap().iter().filter(|(method, _)| *method != "parameters") {
                let name = operation["operationId"].as_str().unwrap().to_owned();
                assert!(ids.insert(name.clone()), "{name} is a duplicate");
            }
        }
    }
    for name in [
        "createBatchV1NamespacedJob",
        "createCoreV1NamespacedPodBinding",
        "deleteSchedulingV1beta1CollectionNamespacedPodGroup",
        "listCoreV1PodForAllNamespaces",
        "patchCoreV1NodeStatus",
        "readSchedulingV1alpha3NamespacedWorkload",
        "replaceCoreV1Namespace",
    ] {
        assert!(ids.contains(name), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn schemas_have_merge_markers_and_descriptions() {
    let documents = documents(&test_server()).await;
    let schemas = |path: &str| {
        let (_, document) = documents.iter().find(|(known, _)| known == path).unwrap();
        document["components"]["schemas"].clone()
    };
    let batch = schemas("apis/batch/v1");
    assert_eq!(
        batch["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"],
        json!({
            "type": "array",
            "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
        })
    );
    assert_eq!(batch["io.k8s.api.batch.v1.JobSpec"]["required"], json!(["template"]));
    assert_eq!(batch["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"]["x-kubernetes-map-type"], "atomic");
    let scheduling = &batch["io.k8s.api.batch.v1.JobSpec"]["properties"]["scheduling"];
    assert!(scheduling["description"].as_str().unwrap().contains("one group"), "{scheduling}");
    let group = &schemas("apis/scheduling.k8s.io/v1beta1")["io.k8s.api.scheduling.v1beta1.PodGroupSpec"];
    assert_eq!(group["properties"]["disruptionMode"]["default"], json!({"single": {}}));
    assert_eq!(
        group["properties"]["disruptionMode"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.api.scheduling.v1beta1.DisruptionMode"}])
    );
}

#[tokio::test(start_paused = true)]
async fn an_outdated_address_redirects_to_the_current_document() {
    let server = test_server();
    let request = |uri: &str, accept: &str| {
        Request::builder().uri(uri).header("accept", accept).body(bytes::Bytes::new()).unwrap()
    };
    let old = server.send(request("/openapi/v3/apis/batch/v1?hash=OLD", "*/*")).await;
    assert_eq!(old.status(), StatusCode::MOVED_PERMANENTLY);
    let address = old.headers()["location"].to_str().unwrap();
    let new = server.send(request(address, "application/json")).await;
    assert_eq!(new.status(), StatusCode::OK);
    assert!(new.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    assert_eq!(server.send(request("/openapi/v3/apis/batch/v1", protobuf)).await.status(), StatusCode::NOT_ACCEPTABLE);
    assert_eq!(server.send(request("/openapi/v3/apis/apps/v1", "*/*")).await.status(), StatusCode::NOT_FOUND);
}

/// The document that kubectl requests when version 3 does not have a kind.
#[tokio::test(start_paused = true)]
async fn version_2_is_served_in_both_forms_without_kinds() {
    let server = test_server();
    let (code, document) = server.get("/openapi/v2").await;
    assert_eq!((code, &document["swagger"]), (StatusCode::OK, &"2.0".into()));
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let request = http::Request::get("/openapi/v2").header("accept", accept).body(bytes::Bytes::new()).unwrap();
    let response = server.send(request).await;
    // As kube-apiserver: Go clients cannot parse a media type with an `@`.
    let want = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!(response.headers()["content-type"], want);
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    // swagger: "2.0", info: {title, version}, paths: {}
    assert_eq!(&bytes[..], b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.37.1\x42\x00");
}
