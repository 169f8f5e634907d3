//! The paths of one document: for every resource its collections, its objects and their subresources.

use serde_json::{Map, Value, json};

use super::group_version_kind;
use super::schemas::{meta, name_of_kind, reference};
use crate::discovery::{ServedGroup, ServedVersion};
use crate::resources::resource::{Resource, Subresource};

/// A parameter of the query: name and type.
type Parameters = &'static [(&'static str, &'static str)];

const LIST: Parameters = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: Parameters = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const DELETE: Parameters = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_COLLECTION: Parameters = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
];

/// The media types of patches that the server accepts.
const PATCHES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];

/// Every path with its operations.
pub(super) fn paths(group: &ServedGroup<'_>, version: &ServedVersion<'_>) -> Value {
    let root = format!("/{}", group.path(version));
    let mut paths = Map::new();
    for resource in &version.resources {
        let operations_of = ResourceOperations { group, version, resource };
        let all_namespaces = format!("{root}/{}", resource.plural);
        let collection = if resource.namespaced {
            paths.insert(all_namespaces, with_parameters(&[], vec![("get", operations_of.list("ForAllNamespaces"))]));
            format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
        } else {
            all_namespaces
        };
        let path_parameters: &[&str] = if resource.namespaced { &["namespace"] } else { &[] };
        let object_parameters: &[&str] = if resource.namespaced { &["name", "namespace"] } else { &["name"] };
        paths.insert(collection.clone(), with_parameters(path_parameters, operations_of.collection()));
        let object = format!("{collection}/{{name}}");
        paths.insert(object.clone(), with_parameters(object_parameters, operations_of.object("")));
        for &subresource in resource.subresources {
            let operations = match subresource {
                Subresource::Status => {
                    operations_of.object("Status").into_iter().filter(|(method, _)| *method != "delete").collect()
                }
                Subresource::Binding => vec![("post", operations_of.binding())],
                Subresource::Eviction => vec![("post", operations_of.eviction())],
                Subresource::Finalize => {
                    operations_of.object("Finalize").into_iter().filter(|(method, _)| *method == "put").collect()
                }
            };
            let path = format!("{object}/{}", subresource.as_str());
            paths.insert(path, with_parameters(object_parameters, operations));
        }
    }
    Value::Object(paths)
}

fn with_parameters(path_parameters: &[&str], operations: Vec<(&'static str, Value)>) -> Value {
    let mut item: Map<String, Value> =
        operations.into_iter().map(|(method, operation)| (method.to_owned(), operation)).collect();
    let mut parameters: Vec<Value> = path_parameters
        .iter()
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    parameters.push(query_parameter("pretty", "string"));
    item.insert("parameters".to_owned(), Value::Array(parameters));
    Value::Object(item)
}

fn query_parameter(name: &str, of: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": of}})
}

/// Builds the operations of one resource.
struct ResourceOperations<'a> {
    group: &'a ServedGroup<'a>,
    version: &'a ServedVersion<'a>,
    resource: &'a Resource,
}

impl ResourceOperations<'_> {
    fn collection(&self) -> Vec<(&'static str, Value)> {
        let mut operations = vec![
            ("get", self.list("")),
            ("post", self.operation("create", "post", "", WRITE, Some(json_body(&self.kind())), &self.kind())),
        ];
        if self.resource.deletes_collections {
            let body = delete_options();
            let operation = self.operation(
                "deleteCollection",
                "deletecollection",
                "",
                DELETE_COLLECTION,
                Some(body),
                &meta("Status"),
            );
            operations.push(("delete", operation));
        }
        operations
    }

    fn list(&self, suffix: &str) -> Value {
        let response_schema = format!("{}List", self.kind());
        self.operation("list", "list", suffix, LIST, None, &response_schema)
    }

    /// The operations on an object, or with `Status` on its status.
    fn object(&self, suffix: &str) -> Vec<(&'static str, Value)> {
        let kind = self.kind();
        let patch: Map<String, Value> =
            PATCHES.iter().map(|&form| (form.to_owned(), json!({"schema": reference(&meta("Patch"))}))).collect();
        let patch = json!({"required": true, "content": patch});
        let deleted = if self.resource.returns_deleted { kind.clone() } else { meta("Status") };
        vec![
            ("get", self.operation("read", "get", suffix, &[], None, &kind)),
            ("put", self.operation("replace", "put", suffix, WRITE, Some(json_body(&kind)), &kind)),
            ("patch", self.operation("patch", "patch", suffix, WRITE, Some(patch), &kind)),
            ("delete", self.operation("delete", "delete", suffix, DELETE, Some(delete_options()), &deleted)),
        ]
    }

    fn binding(&self) -> Value {
        let kind = name_of_kind(self.group.name, self.version.name, "Binding");
        let mut operation = self.operation("create", "post", "Binding", WRITE, Some(json_body(&kind)), &meta("Status"));
        operation["x-kubernetes-group-version-kind"] = group_version_kind(self.group, self.version, "Binding");
        operation
    }

    fn eviction(&self) -> Value {
        let kind = name_of_kind("policy", "v1", "Eviction");
        let mut operation =
            self.operation("create", "post", "Eviction", WRITE, Some(json_body(&kind)), &meta("Status"));
        operation["x-kubernetes-group-version-kind"] = json!({"group": "policy", "version": "v1", "kind": "Eviction"});
        operation
    }

    /// The schema of the resource's objects.
    fn kind(&self) -> String {
        name_of_kind(self.group.name, self.version.name, self.resource.kind)
    }

    fn operation(
        &self,
        verb: &str,
        action: &str,
        suffix: &str,
        parameters: Parameters,
        body: Option<Value>,
        response_schema: &str,
    ) -> Value {
        let parameters: Vec<Value> = parameters.iter().map(|(name, of)| query_parameter(name, of)).collect();
        let response_schema = json!({
            "description": "OK", "content": {"application/json": {"schema": reference(response_schema)}},
        });
        let mut responses = json!({"200": response_schema});
        if action == "post" {
            responses["201"] = response_schema;
        }
        let mut operation = json!({
            "operationId": self.operation_id(verb, suffix),
            "tags": [format!("{}_{}", short_group(self.group.name), self.version.name)],
            "parameters": parameters,
            "responses": responses,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_version_kind(self.group, self.version, self.resource.kind),
        });
        if let Some(body) = body {
            operation["requestBody"] = body;
        }
        operation
    }

    /// `patchBatchV1NamespacedJobStatus`: the names that generated clients have for their methods.
    fn operation_id(&self, verb: &str, suffix: &str) -> String {
        let (verb, collection) = match verb {
            "deleteCollection" => ("delete", "Collection"),
            verb => (verb, ""),
        };
        let scope = if self.resource.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
        let (group, version) = (capital(short_group(self.group.name)), capital(self.version.name));
        format!("{verb}{group}{version}{collection}{scope}{}{suffix}", self.resource.kind)
    }
}

fn json_body(kind: &str) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": reference(kind)}}})
}

fn delete_options() -> Value {
    json!({"content": {"application/json": {"schema": reference(&meta("DeleteOptions"))}}})
}

/// `scheduling.k8s.io` → `scheduling`; the core group is `core`.
fn short_group(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(characters).collect()
}
