//! Deletes the objects in a namespace, and counts what remains.

use std::collections::BTreeMap;

use api::views::MetaView;
use kube::{Client, Error};
use runtime::is_not_found;
use runtime::request::{delete, get};
use serde::Deserialize;
use serde_json::json;

use super::decide::{NamespaceContent, RemainingObjects};
use super::kinds::{NamespacedKind, NamespacedKinds};

/// Deletes everything in `namespace` that is not being deleted, and returns what remains. Pods are deleted first: the
/// objects that they use stay while they run.
pub async fn delete_content(client: &Client, namespace: &str, kinds: NamespacedKinds) -> NamespaceContent {
    let mut found = NamespaceContent { discovery_errors: kinds.failures, ..NamespaceContent::default() };
    let (pods, others): (Vec<NamespacedKind>, Vec<NamespacedKind>) =
        kinds.kinds.into_iter().partition(NamespacedKind::is_pods);
    for stage in [pods, others] {
        for kind in &stage {
            match delete_kind(client, namespace, kind).await {
                Ok(left) if left.count == 0 => {}
                Ok(left) => found.remaining.push(left),
                Err(error) => found.deletion_errors.push(format!("{}.{}: {error}", kind.plural, kind.group)),
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    found
}

async fn delete_kind(client: &Client, namespace: &str, kind: &NamespacedKind) -> Result<RemainingObjects, Error> {
    let objects = list(client, namespace, kind).await?;
    let staying: Vec<&MetaView> = objects.iter().filter(|object| !object.is_deleting()).collect();
    if staying.is_empty() {
        return Ok(count(kind, &objects));
    }
    let path = kind.path(namespace);
    // Not the default of the kind, which may be to orphan dependents: nothing may remain in this namespace.
    let options = json!({ "propagationPolicy": "Background" });
    if kind.deletes_collections {
        // The response is a list, which is not read.
        delete(client, &path, &options).await?;
    } else {
        for object in staying {
            match delete(client, &format!("{path}/{}", object.name), &options).await {
                Err(error) if !is_not_found(&error) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(count(kind, &list(client, namespace, kind).await?))
}

fn count(kind: &NamespacedKind, objects: &[MetaView]) -> RemainingObjects {
    let mut finalizers = BTreeMap::new();
    for finalizer in objects.iter().flat_map(|object| &object.finalizers) {
        *finalizers.entry(finalizer.clone()).or_default() += 1;
    }
    RemainingObjects { kind: format!("{}.{}", kind.plural, kind.group), count: objects.len(), finalizers }
}

async fn list(client: &Client, namespace: &str, kind: &NamespacedKind) -> Result<Vec<MetaView>, Error> {
    #[derive(Deserialize)]
    struct MetadataList {
        items: Vec<MetadataItem>,
    }
    #[derive(Deserialize)]
    struct MetadataItem {
        metadata: MetaView,
    }
    let bytes = get(client, &kind.path(namespace)).await?;
    let MetadataList { items } = serde_json::from_slice(&bytes).map_err(Error::SerdeError)?;
    Ok(items.into_iter().map(|item| item.metadata).collect())
}
