//! The API as an OpenAPI 2 document. It names the API and describes no kinds. Clients read it only for kinds that
//! version 3 does not have: kubectl reads it as protobuf, and then reports from discovery that the kind does not exist.
//!
//! Upstream: describes every kind here, too.

use bytes::Bytes;
use http::{HeaderMap, Response};
use serde_json::json;

use crate::discovery::static_document::StaticDocument;
use crate::request::negotiation;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};

const TITLE: &str = "Kubernetes";
/// The media type that kubectl requests, and the spelling of the response: Go clients cannot parse a media type with an
/// `@`.
const PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

/// The document, in both forms.
pub(crate) struct OpenApi2 {
    json: StaticDocument,
    protobuf: StaticDocument,
}

impl OpenApi2 {
    /// Builds the document in both forms.
    pub fn new() -> OpenApi2 {
        let version = format!("v{}", api::schema::kubernetes_version());
        let document = json!({"swagger": "2.0", "info": {"title": TITLE, "version": version}, "paths": {}});
        let info = [text(1, TITLE), text(2, &version)].concat();
        // `Document` of gnostic: swagger, info, paths.
        let message = [text(1, "2.0"), field(2, &info), field(8, &[])].concat();
        OpenApi2 {
            json: StaticDocument::new(&document, "application/json"),
            protobuf: StaticDocument::of_bytes(Bytes::from(message), PROTOBUF[1]),
        }
    }

    /// The document in the form that the client reads.
    pub fn response(&self, headers: &HeaderMap) -> ApiResult<Response<Body>> {
        let ranges = negotiation::accepted_ranges(headers);
        let accepts_protobuf = ranges.iter().any(|range| PROTOBUF.contains(&range.media_type()));
        if accepts_protobuf {
            return Ok(self.protobuf.response(headers));
        }
        let accepts_json = ranges.iter().any(|range| range.is_json() && range.parameter("as").is_none());
        if accepts_json { Ok(self.json.response(headers)) } else { Err(Status::not_acceptable()) }
    }
}

/// One field of a message, with its length. Field numbers and lengths here fit into one byte.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length =
        u8::try_from(content.len()).ok().filter(|length| *length < 0x80).expect("texts are shorter than 128 bytes");
    [&[number << 3 | 2, length], content].concat()
}

fn text(number: u8, text: &str) -> Vec<u8> {
    field(number, text.as_bytes())
}
