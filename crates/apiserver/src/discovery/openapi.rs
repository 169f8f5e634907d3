//! The API as OpenAPI 3 documents, one for each group and version, made from the structure of the served kinds.
//!
//! Clients read them to learn whether the server validates fields (`fieldValidation`), how lists merge in patches of
//! kinds that the client has no schema for, and what `kubectl explain` prints.
//!
//! Version 2 at `/openapi/v2` exists for older clients and describes no kinds.

mod paths; // requests
mod v2; // the older version
mod schemas; // bodies of requests and responses

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

pub(crate) use v2::OpenApi2;

use crate::discovery::static_document::StaticDocument;
use crate::discovery::{ServedGroup, ServedVersion, groups};
use crate::request::negotiation;
use crate::resources::resource::Resource;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};

/// Every document, and their index.
pub(crate) struct OpenApi {
    index: StaticDocument,
    /// By the path of the API that they describe: `apis/batch/v1`.
    documents: BTreeMap<String, StaticDocument>,
}

impl OpenApi {
    /// Builds every document.
    pub fn new(resources: &[Resource]) -> OpenApi {
        let mut documents = BTreeMap::new();
        for group in groups(resources) {
            for version in &group.versions {
                let document = document(&group, version);
                documents.insert(group.path(version), StaticDocument::new(&document, "application/json"));
            }
        }
        let mut paths = Map::new();
        for (path, document) in &documents {
            paths.insert(path.clone(), json!({"serverRelativeURL": address(path, document)}));
        }
        OpenApi { index: StaticDocument::new(&json!({"paths": paths}), "application/json"), documents }
    }

    /// The document or index at `path`, which begins with `/openapi/v3`.
    pub fn response(&self, path: &str, query: &str, headers: &HeaderMap) -> ApiResult<Response<Body>> {
        let inner = path.strip_prefix("/openapi/v3").ok_or_else(Status::unknown_path)?.trim_matches('/');
        let document = match inner {
            "" => &self.index,
            inner => self.documents.get(inner).ok_or_else(Status::unknown_path)?,
        };
        if !negotiation::accepted_ranges(headers).iter().any(|range| range.is_json() && range.parameter("as").is_none())
        {
            return Err(Status::not_acceptable());
        }
        let requested_hash = query.split('&').find_map(|pair| pair.strip_prefix("hash="));
        match requested_hash {
            None => Ok(document.response(headers)),
            Some(hash) if hash == document.hash() => {
                let mut response = document.response(headers);
                // The document at this address never changes.
                let immutable = HeaderValue::from_static("public, immutable, max-age=31536000");
                response.headers_mut().insert(header::CACHE_CONTROL, immutable);
                Ok(response)
            }
            Some(_) => Ok(moved_to(&address(inner, document))),
        }
    }
}

fn address(path: &str, document: &StaticDocument) -> String {
    format!("/openapi/v3/{path}?hash={}", document.hash())
}

/// A redirect for a client that has the address of an older document.
fn moved_to(address: &str) -> Response<Body> {
    let mut response = Response::new(Body::whole(bytes::Bytes::new()));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let location = HeaderValue::from_str(address).expect("a path with a hash of hex digits is a valid header value");
    response.headers_mut().insert(header::LOCATION, location);
    response
}

fn document(group: &ServedGroup<'_>, version: &ServedVersion<'_>) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v{}", api::schema::kubernetes_version())},
        "paths": paths::paths(group, version),
        "components": {"schemas": schemas::schemas(group, version)},
    })
}

/// How operations and schemas name a kind.
fn group_version_kind(group: &ServedGroup<'_>, version: &ServedVersion<'_>, kind: &str) -> Value {
    json!({"group": group.name, "version": version.name, "kind": kind})
}
