//! Discovery in one document: all groups, versions and resources at once, so that a client sends two requests instead
//! of one for each version.

use serde_json::{Map, Value, json};

use super::{ServedGroup, ServedVersion};
use crate::resources::resource::Resource;

/// The group of the form.
pub(super) const GROUP: &str = "apidiscovery.k8s.io";
/// The kind of the form.
pub(super) const KIND: &str = "APIGroupDiscoveryList";

/// The versions of the form, with the media type of each. They do not differ in structure.
pub(super) const FORMS: [(&str, &str); 2] = [
    ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
];

/// The whole document in one version of the form.
pub(super) fn document(form: &str, groups: &[&ServedGroup<'_>]) -> Value {
    let items: Vec<Value> = groups.iter().map(|group| group_document(group)).collect();
    json!({"kind": KIND, "apiVersion": format!("{GROUP}/{form}"), "metadata": {}, "items": items})
}

fn group_document(group: &ServedGroup<'_>) -> Value {
    let versions: Vec<Value> = group.versions.iter().map(version_document).collect();
    // The core group has no name.
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn version_document(version: &ServedVersion<'_>) -> Value {
    let resources: Vec<Value> = version.resources.iter().map(|resource| resource_document(resource)).collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}

fn resource_document(resource: &Resource) -> Value {
    let mut entry = Map::new();
    entry.insert("resource".to_owned(), json!(resource.plural));
    entry.insert("singularResource".to_owned(), json!(resource.singular));
    entry.insert("scope".to_owned(), json!(if resource.namespaced { "Namespaced" } else { "Cluster" }));
    entry.insert("responseKind".to_owned(), response_kind(resource.kind));
    entry.insert("verbs".to_owned(), json!(resource.verbs()));
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".to_owned(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".to_owned(), json!(resource.categories));
    }
    let mut subresources = resource.subresources.to_vec();
    subresources.sort_by_key(|subresource| subresource.as_str());
    let subresources = subresources.into_iter().map(|subresource| {
        json!({
            "subresource": subresource.as_str(),
            "responseKind": response_kind_in(subresource.own_group_version().unwrap_or_default(), subresource.kind(resource.kind)),
            "verbs": subresource.verbs(),
        })
    });
    let subresources: Vec<Value> = subresources.collect();
    if !subresources.is_empty() {
        entry.insert("subresources".to_owned(), json!(subresources));
    }
    Value::Object(entry)
}

/// Empty group and version: those of the resource.
fn response_kind(kind: &str) -> Value {
    response_kind_in(("", ""), kind)
}

fn response_kind_in((group, version): (&str, &str), kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
