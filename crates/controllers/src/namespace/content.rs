//! Deletes what is in a namespace, and counts what is left.

use std::collections::BTreeMap;

use api::views::Meta;
use kube::{Client, Error};
use runtime::is_not_found;
use runtime::request::{delete, get};
use serde::Deserialize;
use serde_json::json;

use super::decide::{Found, Left};
use super::kinds::{Kind, Kinds};

/// Deletes everything in `namespace` that is not yet being deleted, and says what is left. Pods go first: what they need
/// stays as long as they run.
pub async fn empty(client: &Client, namespace: &str, kinds: Kinds) -> Found {
    let mut found = Found { undiscovered: kinds.failures, ..Found::default() };
    let (pods, others): (Vec<Kind>, Vec<Kind>) = kinds.known.into_iter().partition(Kind::is_pods);
    for stage in [pods, others] {
        for kind in &stage {
            match empty_of(client, namespace, kind).await {
                Ok(left) if left.count == 0 => {}
                Ok(left) => found.left.push(left),
                Err(error) => found.undeleted.push(format!("{}.{}: {error}", kind.plural, kind.group)),
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    found
}

async fn empty_of(client: &Client, namespace: &str, kind: &Kind) -> Result<Left, Error> {
    let objects = list(client, namespace, kind).await?;
    let staying: Vec<&Meta> = objects.iter().filter(|object| !object.is_deleting()).collect();
    if staying.is_empty() {
        return Ok(count(kind, &objects));
    }
    let path = kind.path(namespace);
    // Whatever a kind's own default is: nothing in this namespace is to be left behind.
    let options = json!({ "propagationPolicy": "Background" });
    if kind.deletes_collections {
        // The answer is a list, of which nothing is read.
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

fn count(kind: &Kind, objects: &[Meta]) -> Left {
    let mut finalizers = BTreeMap::new();
    for finalizer in objects.iter().flat_map(|object| &object.finalizers) {
        *finalizers.entry(finalizer.clone()).or_default() += 1;
    }
    Left { kind: format!("{}.{}", kind.plural, kind.group), count: objects.len(), finalizers }
}

async fn list(client: &Client, namespace: &str, kind: &Kind) -> Result<Vec<Meta>, Error> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        metadata: Meta,
    }
    let bytes = get(client, &kind.path(namespace)).await?;
    let List { items } = serde_json::from_slice(&bytes).map_err(Error::SerdeError)?;
    Ok(items.into_iter().map(|item| item.metadata).collect())
}
