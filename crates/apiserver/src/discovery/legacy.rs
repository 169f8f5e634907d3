//! The original form of discovery: a list of groups, a document for each group, a list of resources for each version.

use serde_json::{Map, Value, json};

use super::{ServedGroup, ServedVersion};
use crate::resources::resource::{Resource, Subresource};

/// Every document with its path.
pub(super) fn documents(groups: &[ServedGroup<'_>]) -> Vec<(String, Value)> {
    let mut documents = Vec::new();
    let mut named = Vec::new();
    for group in groups {
        if group.name.is_empty() {
            let versions: Vec<&str> = group.versions.iter().map(|version| version.name).collect();
            // The address of the server is configuration of the client, not part of discovery.
            let document = json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []});
            documents.push(("/api".to_owned(), document));
        } else {
            let entry = group_document(group);
            let mut document = entry.clone();
            document["kind"] = json!("APIGroup");
            document["apiVersion"] = json!("v1");
            documents.push((format!("/apis/{}", group.name), document));
            named.push(entry);
        }
        for version in &group.versions {
            documents.push((format!("/{}", group.path(version)), resource_list(group, version)));
        }
    }
    documents.push(("/apis".to_owned(), json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": named})));
    documents
}

fn group_document(group: &ServedGroup<'_>) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": group.api_version(version), "version": version.name}))
        .collect();
    json!({"name": group.name, "preferredVersion": versions[0], "versions": versions})
}

fn resource_list(group: &ServedGroup<'_>, version: &ServedVersion<'_>) -> Value {
    let mut resources = Vec::new();
    for resource in &version.resources {
        resources.push(resource_document(resource));
        let mut subresources = resource.subresources.to_vec();
        subresources.sort_by_key(|subresource| subresource.as_str());
        resources.extend(subresources.into_iter().map(|subresource| subresource_document(resource, subresource)));
    }
    let mut list = json!({
        "kind": "APIResourceList", "groupVersion": group.api_version(version), "resources": resources,
    });
    // The list of the core group is older than the rule that every object has a version.
    if !group.name.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    list
}

fn resource_document(resource: &Resource) -> Value {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(resource.plural));
    entry.insert("singularName".to_owned(), json!(resource.singular));
    entry.insert("namespaced".to_owned(), json!(resource.namespaced));
    entry.insert("kind".to_owned(), json!(resource.kind));
    entry.insert("verbs".to_owned(), json!(resource.verbs()));
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".to_owned(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".to_owned(), json!(resource.categories));
    }
    if !resource.storage_version_hash.is_empty() {
        entry.insert("storageVersionHash".to_owned(), json!(resource.storage_version_hash));
    }
    Value::Object(entry)
}

fn subresource_document(resource: &Resource, subresource: Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, subresource.as_str()),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind(resource.kind),
        "verbs": subresource.verbs(),
    });
    if let Some((group, version)) = subresource.own_group_version() {
        entry["group"] = group.into();
        entry["version"] = version.into();
    }
    entry
}
