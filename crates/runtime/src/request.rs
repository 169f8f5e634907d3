//! Writes, as all control loops make them: a path and a body in, the answer's metadata out.
//!
//! The answer to a write is the whole object; decoding it would cost more than the write is worth, so only its
//! version and uid are read. What the object now looks like arrives in the cache.
//!
//! Every request that is no watch ends within [`DEADLINE`]. One that got no answer by then takes its connection with it:
//! HTTP/1.1, which is all that `kube` speaks, has no other way to give a request up, so the next one gets another.

use std::time::Duration;

use bytes::Bytes;
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

/// How long the server has for an answer, the whole of its body included; each page of a list has this long.
pub const DEADLINE: Duration = Duration::from_secs(15);

const JSON: &str = "application/json";
/// Metadata alone, or the whole object from a server that knows no such form.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

/// Which connection a request may travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// One of those that there are, or a new one.
    Any,
    /// One that is opened for it, as all after it: those that there are may be dead. A client that cannot do this
    /// ([`crate::reconnecting`] can) takes any.
    New,
}

/// What is read of a write's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteResponse {
    /// The object's version after the write; zero where the server answers with a bare `Status` (bind, some deletes).
    pub revision: Revision,
    /// The object's uid; empty where the server answers with a bare `Status` that does not name it.
    pub uid: String,
    /// The object's name, which the server may have generated; empty where the answer does not name it.
    pub name: String,
}

/// How the body of a PATCH is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386: objects merge, everything else (lists too) is replaced, null removes.
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

/// Reads `path` as the server answers it. For the rare read that a cache cannot answer.
pub async fn get(client: &Client, path: &str) -> Result<Bytes, Error> {
    get_as(client, path, JSON).await
}

/// Like [`get`], on such a connection.
pub(crate) async fn get_on(client: &Client, path: &str, connection: Connection) -> Result<Bytes, Error> {
    let request = Request::get(path).header(ACCEPT, JSON).extension(connection).body(Body::empty());
    send(client, request.map_err(Error::HttpError)?).await
}

async fn get_as(client: &Client, path: &str, form: &str) -> Result<Bytes, Error> {
    let request = Request::get(path).header(ACCEPT, form).body(Body::empty()).map_err(Error::HttpError)?;
    send(client, request).await
}

/// The metadata of the object at `path`, of whatever kind; `None` if there is none.
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

/// The object as the server has it; `None` if it has none.
pub async fn read<V: View>(client: &Client, key: &ObjectKey) -> Result<Option<V>, Error> {
    match get(client, &V::RESOURCE.object_path(key)).await {
        Ok(bytes) => V::decode(&bytes).map(Some).map_err(Error::SerdeError),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes sure that `cache` is not older than the server about one object: for a write that was refused because of what
/// the cache does not show. Costs a read, and a list of the kind where an event was lost.
pub async fn catch_up<V: View>(client: &Client, cache: &Cache<V>, key: &ObjectKey) -> Result<(), Error> {
    let Some(live) = read::<V>(client, key).await? else { return Ok(()) };
    let version = live.meta().resource_version;
    cache.wait_for_revision(version).await;
    let shows = |held: std::sync::Arc<V>| held.meta().uid != live.meta().uid || held.meta().resource_version >= version;
    // One that is not there at all may have been deleted meanwhile; then the list is for nothing, and does no harm.
    if !cache.get(key).is_some_and(shows) {
        cache.relist().await;
    }
    Ok(())
}

/// Sends `request` and returns the answer's body as it came, or the `Status` it carries as an error. Without an answer
/// within [`DEADLINE`] it is not known whether the server did what was asked.
pub(crate) async fn send(client: &Client, request: Request<Body>) -> Result<Bytes, Error> {
    with_deadline(DEADLINE, exchange(client, request)).await
}

/// What `work` comes to, or an error where the server does not answer within `deadline`.
pub(crate) async fn with_deadline<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let ended = tokio::time::timeout(deadline, work).await;
    ended.unwrap_or_else(|_| Err(Error::Service(format!("no answer within {} s", deadline.as_secs()).into())))
}

async fn exchange(client: &Client, request: Request<Body>) -> Result<Bytes, Error> {
    let response = client.send(request).await?;
    let code = response.status();
    let bytes = response.into_body().collect_bytes().await?;
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(bytes);
    }
    // A proxy in between may answer with something that is no Status; its code still says what to do.
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
    let answer: WriteResponseBody = serde_json::from_slice(&bytes).map_err(Error::SerdeError)?;
    let uid = if answer.metadata.uid.is_empty() { answer.details.uid } else { answer.metadata.uid };
    Ok(WriteResponse { revision: answer.metadata.resource_version, uid, name: answer.metadata.name })
}

fn encode(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(Error::SerdeError)
}

/// An object or a `Status`, as far as it is read.
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
