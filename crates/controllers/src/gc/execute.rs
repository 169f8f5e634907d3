//! Executes the action for one object.

use api::kinds::ApiResource;
use api::views::{ObjectKey, OwnerRef};
use kube::{Client, Error};
use runtime::discovery::is_path_segment;
use runtime::request::{delete, patch, read_meta};
use runtime::{PatchKind, is_not_found};
use serde_json::{Value, json};

use super::decide::OwnerState;
use super::graph::{FOREGROUND, GraphObject};

/// Deletes `object`, but not another object with its name. `policy` is a propagation policy of the API.
pub async fn delete_object(client: &Client, object: &GraphObject, policy: &str) -> Result<(), Error> {
    let options = json!({ "propagationPolicy": policy, "preconditions": { "uid": object.uid() } });
    ignore_not_found(delete(client, &path(object), &options).await.map(|_| ()))
}

/// Removes the owner references at `positions` (ascending) from `object`.
pub async fn remove_owner_refs(client: &Client, object: &GraphObject, positions: &[usize]) -> Result<(), Error> {
    let mut operations = vec![uid_precondition("/metadata/uid", object.uid())];
    // From the end, so that removals do not shift the positions that follow.
    for position in positions.iter().rev() {
        let path = format!("/metadata/ownerReferences/{position}");
        operations.push(uid_precondition(&format!("{path}/uid"), &object.owners()[*position].uid));
        operations.push(json!({ "op": "remove", "path": path }));
    }
    ignore_not_found(patch(client, &path(object), PatchKind::Json, &operations).await.map(|_| ()))
}

/// Removes `finalizer` from `object`.
pub async fn remove_finalizer(client: &Client, object: &GraphObject, finalizer: &str) -> Result<(), Error> {
    crate::finalizer::remove(client, &path(object), object.uid(), &object.meta().finalizers, finalizer).await
}

/// Reads an owner that no cache has. No object can have a name that would change the path of the request.
pub async fn look_up_owner(
    client: &Client,
    resource: &ApiResource,
    owner: &OwnerRef,
    namespace: &str,
) -> Result<OwnerState, Error> {
    if !is_path_segment(&owner.name) {
        return Ok(OwnerState::Absent);
    }
    let namespace = if resource.namespaced { namespace } else { "" };
    let found = read_meta(client, &resource.object_path(&ObjectKey::new(namespace, &owner.name))).await?;
    Ok(match found.filter(|meta| meta.uid == owner.uid) {
        None => OwnerState::Absent,
        Some(meta) if meta.is_deleting() && meta.has_finalizer(FOREGROUND) => OwnerState::WaitingForDependents,
        Some(_) => OwnerState::Solid,
    })
}

fn path(object: &GraphObject) -> String {
    object.resource().object_path(&object.meta().key())
}

fn uid_precondition(path: &str, uid: &str) -> Value {
    json!({ "op": "test", "path": path, "value": uid })
}

/// An object that is gone needs no write. If it changed meanwhile, the error causes a retry.
fn ignore_not_found(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if is_not_found(&error) => Ok(()),
        other => other,
    }
}
