//! Removes one finalizer from exactly the object that was read.

use kube::{Client, Error};
use runtime::request::patch;
use runtime::{PatchKind, is_not_found};
use serde_json::json;

/// Removes `finalizer` from the object at `path`, which had `uid` and `finalizers` when it was read. A missing
/// object is not an error. A changed one is, and is read again.
pub(crate) async fn remove(
    client: &Client,
    path: &str,
    uid: &str,
    finalizers: &[String],
    finalizer: &str,
) -> Result<(), Error> {
    let Some(position) = finalizers.iter().position(|present| present == finalizer) else { return Ok(()) };
    let pointer = format!("/metadata/finalizers/{position}");
    let operations = json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": pointer, "value": finalizer },
        { "op": "remove", "path": pointer },
    ]);
    match patch(client, path, PatchKind::Json, &operations).await {
        Err(error) if is_not_found(&error) => Ok(()),
        response => response.map(|_| ()),
    }
}
