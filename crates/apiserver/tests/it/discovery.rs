//! Discovery, in both forms.

use std::collections::BTreeSet;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::test_server::{TestServer, test_server};

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// Sends a GET with headers. Returns the code, the value of `header`, and the document.
async fn get_with_headers(
    server: &TestServer,
    path: &str,
    headers: &[(&str, &str)],
    header: &str,
) -> (StatusCode, String, Value) {
    let request =
        headers.iter().fold(Request::builder().uri(path), |request, (name, value)| request.header(*name, *value));
    let response = server.send(request.body(bytes::Bytes::new()).unwrap()).await;
    let value = response.headers().get(header).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let code = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, value, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// `pods po Pod true create,delete,…` for every resource and subresource of a version.
fn lines(list: &Value) -> Vec<String> {
    let joined = |value: &Value| {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.collect::<Vec<_>>().join(",")
    };
    let line = |entry: &Value| {
        let [name, singular, kind] = ["name", "singularName", "kind"].map(|key| entry[key].as_str().unwrap());
        let [short, categories, verbs] = ["shortNames", "categories", "verbs"].map(|key| joined(&entry[key]));
        let scope = if entry["namespaced"] == true { "Namespaced" } else { "Cluster" };
        format!("{name} [{singular}] [{short}] [{categories}] {kind} {scope} {verbs}")
    };
    list["resources"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn groups_list_their_versions_with_the_preferred_one_first() {
    let server = test_server();
    let (_, api) = server.get("/api").await;
    assert_eq!(api, json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}));
    let (_, apis) = server.get("/apis").await;
    let names: Vec<&Value> = apis["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
    assert_eq!(names, ["events.k8s.io", "batch", "coordination.k8s.io", "policy", "scheduling.k8s.io"]);
    let (_, group) = server.get("/apis/scheduling.k8s.io").await;
    assert_eq!(
        group,
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "scheduling.k8s.io",
            "preferredVersion": {"groupVersion": "scheduling.k8s.io/v1", "version": "v1"},
            "versions": [
                {"groupVersion": "scheduling.k8s.io/v1", "version": "v1"},
                {"groupVersion": "scheduling.k8s.io/v1beta1", "version": "v1beta1"},
                {"groupVersion": "scheduling.k8s.io/v1alpha3", "version": "v1alpha3"},
                {"groupVersion": "scheduling.k8s.io/v1alpha2", "version": "v1alpha2"},
                {"groupVersion": "scheduling.k8s.io/v1alpha1", "version": "v1alpha1"},
            ],
        })
    );
}

#[tokio::test(start_paused = true)]
async fn versions_list_their_resources() {
    let server = test_server();
    let most = "create,delete,deletecollection,get,list,patch,update,watch";
    let (_, core) = server.get("/api/v1").await;
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let core = lines(&core);
    assert!(core.is_sorted(), "{core:?}");
    // Not all of them: a unit test compares the served kinds with the registry.
    for line in [
        format!("events [event] [ev] [] Event Namespaced {most}"),
        "namespaces [namespace] [ns] [] Namespace Cluster create,delete,get,list,patch,update,watch".to_owned(),
        "namespaces/finalize [] [] [] Namespace Cluster update".to_owned(),
        "namespaces/status [] [] [] Namespace Cluster get,patch,update".to_owned(),
        format!("nodes [node] [no] [] Node Cluster {most}"),
        "nodes/status [] [] [] Node Cluster get,patch,update".to_owned(),
        format!("pods [pod] [po] [all] Pod Namespaced {most}"),
        "pods/binding [] [] [] Binding Namespaced create".to_owned(),
        "pods/eviction [] [] [] Eviction Namespaced create".to_owned(),
        "pods/status [] [] [] Pod Namespaced get,patch,update".to_owned(),
    ] {
        assert!(core.contains(&line), "{line}: {core:?}");
    }
    let (_, batch) = server.get("/apis/batch/v1").await;
    assert_eq!(
        lines(&batch),
        [
            format!("cronjobs [cronjob] [cj] [all] CronJob Namespaced {most}"),
            "cronjobs/status [] [] [] CronJob Namespaced get,patch,update".to_owned(),
            format!("jobs [job] [] [all] Job Namespaced {most}"),
            "jobs/status [] [] [] Job Namespaced get,patch,update".to_owned(),
        ]
    );
    let (_, beta) = server.get("/apis/scheduling.k8s.io/v1beta1/").await;
    assert_eq!(
        lines(&beta),
        [
            format!("podgroups [podgroup] [] [] PodGroup Namespaced {most}"),
            "podgroups/status [] [] [] PodGroup Namespaced get,patch,update".to_owned(),
            format!("workloads [workload] [] [] Workload Namespaced {most}"),
        ]
    );
    assert_eq!(beta["resources"][0]["storageVersionHash"], "QjOl2H5qPs0=");
    let (_, alpha) = server.get("/apis/scheduling.k8s.io/v1alpha3").await;
    assert_eq!(
        lines(&alpha)[..2],
        [
            format!("compositepodgroups [compositepodgroup] [] [] CompositePodGroup Namespaced {most}"),
            "compositepodgroups/status [] [] [] CompositePodGroup Namespaced get,patch,update".to_owned(),
        ]
    );
    for version in ["v1alpha2", "v1alpha1"] {
        let (_, older) = server.get(&format!("/apis/scheduling.k8s.io/{version}")).await;
        assert_eq!(lines(&older), lines(&beta), "{version}");
    }
    for path in ["/apis/apps", "/apis/apps/v1", "/apis/batch/v2", "/api/v2", "/apixs", "/openapi/v1"] {
        assert_eq!(server.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

/// The aggregated form of a version, as the plain list.
fn as_plain(version: &Value) -> Value {
    let mut resources = Vec::new();
    for entry in version["resources"].as_array().unwrap() {
        let namespaced = entry["scope"] == "Namespaced";
        let name = entry["resource"].as_str().unwrap();
        resources.push(json!({
            "name": name, "singularName": entry["singularResource"], "shortNames": entry["shortNames"],
            "categories": entry["categories"], "kind": entry["responseKind"]["kind"], "namespaced": namespaced,
            "verbs": entry["verbs"],
        }));
        for inner in entry["subresources"].as_array().into_iter().flatten() {
            resources.push(json!({
                "name": format!("{name}/{}", inner["subresource"].as_str().unwrap()), "singularName": "",
                "kind": inner["responseKind"]["kind"], "namespaced": namespaced, "verbs": inner["verbs"],
            }));
        }
    }
    json!({"resources": resources})
}

#[tokio::test(start_paused = true)]
async fn both_forms_have_the_same_content() {
    let server = test_server();
    let mut listed = BTreeSet::new();
    for (path, form, version) in
        [("/api", V2, "v2"), ("/apis", V2, "v2"), ("/api", V2BETA1, "v2beta1"), ("/apis", V2BETA1, "v2beta1")]
    {
        let accept = format!("{form},application/json");
        let (code, media_type, document) =
            get_with_headers(&server, path, &[("accept", &accept)], "content-type").await;
        assert_eq!((code, media_type.as_str()), (StatusCode::OK, form));
        assert_eq!(document["kind"], "APIGroupDiscoveryList");
        assert_eq!(document["apiVersion"], format!("apidiscovery.k8s.io/{version}"));
        for group in document["items"].as_array().unwrap() {
            let group_path = match group["metadata"]["name"].as_str() {
                None => "/api".to_owned(),
                Some(name) => format!("/apis/{name}"),
            };
            let versions: Vec<&str> =
                group["versions"].as_array().unwrap().iter().map(|of| of["version"].as_str().unwrap()).collect();
            let (_, plain) = server.get(&group_path).await;
            let plain: Vec<&str> = plain["versions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|of| of["version"].as_str().or(of.as_str()).unwrap())
                .collect();
            assert_eq!(versions, plain, "{group_path}");
            for of in group["versions"].as_array().unwrap() {
                let path = format!("{group_path}/{}", of["version"].as_str().unwrap());
                let (_, plain) = server.get(&path).await;
                assert_eq!(lines(&as_plain(of)), lines(&plain), "{path}");
                listed.insert(path);
            }
        }
    }
    for resource in server.server.resources() {
        for version in resource.versions {
            let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
            assert!(listed.contains(&format!("{root}/{version}")), "{} {version}", resource.plural);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_chooses_the_form() {
    let server = test_server();
    let kubectl = format!("{V2},{V2BETA1},application/json");
    for (path, accept, want) in [
        ("/apis", "", "application/json"),
        ("/apis", "application/json", "application/json"),
        ("/apis", "application/json, */*", "application/json"),
        ("/apis", kubectl.as_str(), V2),
        ("/apis", "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,*/*", "application/json"),
        // Only the roots have the aggregated form.
        ("/apis/batch", kubectl.as_str(), "application/json"),
    ] {
        let headers = if accept.is_empty() { vec![] } else { vec![("accept", accept)] };
        let (code, media_type, _) = get_with_headers(&server, path, &headers, "content-type").await;
        assert_eq!((code, media_type.as_str()), (StatusCode::OK, want), "{path} {accept}");
    }
    let (_, vary, _) = get_with_headers(&server, "/apis", &[("accept", &kubectl)], "vary").await;
    assert_eq!(vary, "Accept");
    let protobuf = [("accept", "application/vnd.kubernetes.protobuf")];
    assert_eq!(get_with_headers(&server, "/apis", &protobuf, "").await.0, StatusCode::NOT_ACCEPTABLE);
    assert_eq!(server.post("/apis", json!({})).await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_the_document_gets_304() {
    let server = test_server();
    let (_, tag, _) = get_with_headers(&server, "/apis", &[], "etag").await;
    assert!(tag.len() > 2, "{tag}");
    let (code, again, body) = get_with_headers(&server, "/apis", &[("if-none-match", &tag)], "etag").await;
    assert_eq!((code, again, body), (StatusCode::NOT_MODIFIED, tag.clone(), Value::Null));
    // The other form is another document.
    assert_eq!(
        get_with_headers(&server, "/apis", &[("if-none-match", &tag), ("accept", V2)], "").await.0,
        StatusCode::OK
    );
}

#[tokio::test(start_paused = true)]
async fn namespaces_have_no_collection_delete() {
    let server = test_server();
    assert_eq!(server.call("DELETE", "/api/v1/namespaces", "", "").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(server.get("/api/v1/namespaces/default").await.0, StatusCode::OK);
}
