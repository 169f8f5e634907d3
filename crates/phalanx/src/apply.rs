//! Manifests to the server, with every problem gathered and put at its line.

use api::views::ResourceRef;
use http::Request;
use kube::Client;
use kube::core::Status;
use serde_json::Value;

use crate::manifest::{Manifest, Problem};

/// A kind that can be applied.
struct Kind {
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
}

const KINDS: &[Kind] = &[
    Kind { group: "", versions: &["v1"], kind: "Namespace", plural: "namespaces", namespaced: false },
    Kind { group: "", versions: &["v1"], kind: "Node", plural: "nodes", namespaced: false },
    Kind { group: "", versions: &["v1"], kind: "Pod", plural: "pods", namespaced: true },
    Kind { group: "batch", versions: &["v1"], kind: "Job", plural: "jobs", namespaced: true },
    Kind {
        group: "scheduling.k8s.io",
        versions: &["v1"],
        kind: "PriorityClass",
        plural: "priorityclasses",
        namespaced: false,
    },
    Kind {
        group: "scheduling.k8s.io",
        versions: &["v1beta1", "v1alpha3"],
        kind: "Workload",
        plural: "workloads",
        namespaced: true,
    },
    Kind {
        group: "scheduling.k8s.io",
        versions: &["v1beta1", "v1alpha3"],
        kind: "PodGroup",
        plural: "podgroups",
        namespaced: true,
    },
];

/// Creates every manifest's object; returns what the server made of each, or every problem there is.
pub async fn create_all(client: &Client, manifests: &[Manifest]) -> Result<Vec<Value>, Vec<Problem>> {
    let (mut created, mut problems) = (Vec::new(), Vec::new());
    for manifest in manifests {
        match create(client, manifest).await {
            Ok(object) => created.push(object),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(created) } else { Err(problems) }
}

async fn create(client: &Client, manifest: &Manifest) -> Result<Value, Vec<Problem>> {
    let path = path_of(manifest).map_err(|problem| vec![problem])?;
    let misshapen = shape_problems(manifest);
    if !misshapen.is_empty() {
        return Err(misshapen);
    }
    let body = serde_json::to_vec(&manifest.document).expect("a JSON value can always be written");
    let request = Request::post(format!("{path}?fieldValidation=Strict"))
        .header("content-type", "application/json")
        .body(body)
        .map_err(|_| vec![manifest.problem("metadata.namespace", "metadata.namespace: not a legal name")])?;
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => problems_of(manifest, &status),
        other => vec![manifest.problem("", &other.to_string())],
    })
}

/// Unknown fields and wrong types, each at its line. A server would name them too, but all in one sentence.
fn shape_problems(manifest: &Manifest) -> Vec<Problem> {
    let Ok((api_version, kind)) = manifest.api_version_and_kind() else { return Vec::new() };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let findings = api::schema::check(group, version, kind, &mut manifest.document.clone());
    let unknown = findings.unknown.iter().map(|path| manifest.problem(path, &format!("{path}: unknown field")));
    let types = findings.type_errors.iter().map(|error| manifest.problem(&error.path, &error.to_string()));
    unknown.chain(types).collect()
}

fn path_of(manifest: &Manifest) -> Result<String, Problem> {
    let (api_version, kind) = manifest.api_version_and_kind()?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(known) = KINDS.iter().find(|known| known.kind == kind && known.group == group) else {
        let names: Vec<String> = KINDS.iter().map(kind_name).collect();
        let message = format!("kind {kind} of {api_version} is not served; served are {}", names.join(", "));
        return Err(manifest.problem("kind", &message));
    };
    if !known.versions.contains(&version) {
        let message = format!("version {version} of {kind} is not served; served are {}", known.versions.join(", "));
        return Err(manifest.problem("apiVersion", &message));
    }
    let namespace = manifest.document["metadata"]["namespace"].as_str().unwrap_or("default");
    let resource = ResourceRef {
        group: known.group,
        version: known.versions.iter().find(|served| **served == version).expect("checked above"),
        kind: known.kind,
        plural: known.plural,
        namespaced: known.namespaced,
    };
    Ok(if known.namespaced { resource.namespaced_path(namespace) } else { resource.path() })
}

fn kind_name(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.kind.to_owned() } else { format!("{}.{}", kind.kind, kind.group) }
}

/// One problem for each cause the server names; the whole message where it names none.
fn problems_of(manifest: &Manifest, status: &Status) -> Vec<Problem> {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let with_field: Vec<Problem> = causes
        .iter()
        .filter(|cause| !cause.field.is_empty())
        .map(|cause| manifest.problem(&cause.field, &format!("{}: {}", cause.field, cause.message)))
        .collect();
    if with_field.is_empty() { vec![manifest.problem("", &status.message)] } else { with_field }
}
