//! Requests of all control loops: a path and a body in, the metadata of the response out.
//!
//! The response to a write is the whole object. Decoding it would cost more than the write, so only its version and uid
//! are read. The new state of the object arrives in the cache.
//!
//! Every request except a watch ends within [`DEADLINE`]. A request without a response by then closes its connection:
//! HTTP/1.1, the only protocol of `kube`, has no other way to cancel a request. The next request uses another
//! connection.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use kube::client::Body;
use kube::core::Status;
use kube::{Client, Error};
use serde::{Deserialize, Serialize};
use types::Revision;
use types::views::{MetaView, ObjectKey, View};

use crate::failure::is_not_found;
use crate::informer::Cache;

/// How long the server has for a response, including its whole body; each page of a list has this long.
pub const DEADLINE: Duration = Duration::from_secs(15);

const JSON: &str = "application/json";
/// Metadata alone, or the whole object from a server without that form.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

/// Which connection a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// An existing one, or a new one.
    Any,
    /// A new one, also for all later requests: the existing ones may be dead. A client that cannot do this
    /// ([`crate::reconnecting`] can) uses any.
    New,
}

/// The values that are read from the response to a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteResponse {
    /// The object's version after the write; zero if the server returns a bare `Status` (bind, some deletes).
    pub revision: Revision,
    /// The object's uid; empty if the server returns a bare `Status` without it.
    pub uid: String,
    /// The object's name, which the server may have generated; empty if the response does not have it.
    pub name: String,
}

/// The format of a PATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386: objects are merged, everything else (lists too) is replaced, null removes.
    Merge,
    /// RFC 6902: a list of operations, applied all or none.
    Json,
}

impl PatchKind {
    fn content_type(self) -> &'static str {
        match self {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Json => "application/json-patch+json",
        }
    }
}

/// Creates an object in the collection at `path` (or posts to a subresource).
pub async fn post(client: &Client, path: &str, body: &impl Serialize) -> Result<WriteResponse, Error> {
    write(client, Method::POST, path, JSON, encode(body)?).await
}

/// Replaces the object at `path`.
pub async fn put(client: &Client, path: &str, body: &impl Serialize) -> Result<WriteResponse, Error> {
    write(client, Method::PUT, path, JSON, encode(body)?).await
}

/// Changes the object at `path`.
pub async fn patch(
    client: &Client,
    path: &str,
    kind: PatchKind,
    body: &impl Serialize,
) -> Result<WriteResponse, Error> {
    write(client, Method::PATCH, path, kind.content_type(), encode(body)?).await
}

/// Deletes the object at `path`; `options` is a `DeleteOptions` document (`{}` for none).
pub async fn delete(client: &Client, path: &str, options: &impl Serialize) -> Result<WriteResponse, Error> {
    write(client, Method::DELETE, path, JSON, encode(options)?).await
}

/// Reads `path` as raw bytes. For rare reads without a cache.
pub async fn get(client: &Client, path: &str) -> Result<Bytes, Error> {
    get_as(client, path, JSON).await
}

/// Like [`get`], on the given connection.
pub(crate) async fn get_on(client: &Client, path: &str, connection: Connection) -> Result<Bytes, Error> {
    let request = Request::get(path).header(ACCEPT, JSON).extension(connection).body(Body::empty());
    send(client, request.map_err(Error::HttpError)?).await
}

async fn get_as(client: &Client, path: &str, form: &str) -> Result<Bytes, Error> {
    let request = Request::get(path).header(ACCEPT, form).body(Body::empty()).map_err(Error::HttpError)?;
    send(client, request).await
}

/// The metadata of the object at `path`, of any kind; `None` if it does not exist.
pub async fn read_meta(client: &Client, path: &str) -> Result<Option<MetaView>, Error> {
    #[derive(Deserialize)]
    struct PartialObject {
        metadata: MetaView,
    }
    match get_as(client, path, METADATA).await {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(|PartialObject { metadata }| Some(metadata)).map_err(Error::SerdeError)
        }
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The object on the server; `None` if it does not exist.
pub async fn read<V: View>(client: &Client, key: &ObjectKey) -> Result<Option<V>, Error> {
    match get(client, &V::RESOURCE.object_path(key)).await {
        Ok(bytes) => V::decode(&bytes).map(Some).map_err(Error::SerdeError),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ensures that `cache` is not older than the server for one object: for a write that was refused because of a state
/// that the cache does not show. Costs a read, and a list of the kind if an event was lost.
pub async fn catch_up<V: View>(client: &Client, cache: &Cache<V>, key: &ObjectKey) -> Result<(), Error> {
    let Some(live) = read::<V>(client, key).await? else { return Ok(()) };
    let version = live.meta().resource_version;
    cache.wait_for_revision(version).await;
    let shows =
        |cached: std::sync::Arc<V>| cached.meta().uid != live.meta().uid || cached.meta().resource_version >= version;
    // A missing object may have been deleted meanwhile. The list is then unnecessary but harmless.
    if !cache.get(key).is_some_and(shows) {
        cache.relist().await;
    }
    Ok(())
}

/// Sends `request` and returns the body of the response, or its `Status` as an error. Without a response within
/// [`DEADLINE`] it is unknown whether the server applied the request.
pub(crate) fn send(client: &Client, request: Request<Body>) -> BoxFuture<'_, Result<Bytes, Error>> {
    with_deadline(DEADLINE, exchange(client, request)).boxed()
}

/// The result of `work`, or an error if the server does not respond within `deadline`.
pub(crate) async fn with_deadline<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let ended = tokio::time::timeout(deadline, work).await;
    ended.unwrap_or_else(|_| Err(Error::Service(format!("no response within {} s", deadline.as_secs()).into())))
}

async fn exchange(client: &Client, request: Request<Body>) -> Result<Bytes, Error> {
    let response = client.send(request).await?;
    let code = response.status();
    let bytes = response.into_body().collect_bytes().await?;
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(bytes);
    }
    // A proxy may send a response that is not a `Status`; its code still decides what to do.
    let status = serde_json::from_slice::<Status>(&bytes).unwrap_or_else(|_| {
        Status::failure(String::from_utf8_lossy(&bytes).trim(), "Unknown").with_code(code.as_u16())
    });
    Err(Error::Api(status.boxed()))
}

async fn write(client: &Client, method: Method, path: &str, kind: &str, body: Vec<u8>) -> Result<WriteResponse, Error> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, kind)
        .header(ACCEPT, JSON)
        .body(Body::from(body))
        .map_err(Error::HttpError)?;
    let bytes = send(client, request).await?;
    let response: WriteResponseBody = serde_json::from_slice(&bytes).map_err(Error::SerdeError)?;
    let uid = if response.metadata.uid.is_empty() { response.details.uid } else { response.metadata.uid };
    Ok(WriteResponse { revision: response.metadata.resource_version, uid, name: response.metadata.name })
}

fn encode(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(Error::SerdeError)
}

/// The fields of an object or a `Status` that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WriteResponseBody {
    metadata: WriteResponseMeta,
    details: WriteResponseDetails,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WriteResponseMeta {
    resource_version: Revision,
    uid: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WriteResponseDetails {
    uid: String,
}
