//! Documents about the API itself: built once, stored as bytes, served with an ETag.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::response::body::Body;

/// One document, ready to be sent.
pub(crate) struct StaticDocument {
    bytes: Bytes,
    hash: String,
    media_type: &'static str,
}

impl StaticDocument {
    /// Serializes the document.
    pub fn new(document: &Value, media_type: &'static str) -> StaticDocument {
        StaticDocument::of_bytes(Bytes::from(document.to_string()), media_type)
    }

    /// The same for a document that is already serialized.
    pub fn of_bytes(bytes: Bytes, media_type: &'static str) -> StaticDocument {
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
        StaticDocument { bytes, hash, media_type }
    }

    /// The hash of the bytes.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The document, or 304 to a client that has it already.
    pub fn response(&self, headers: &HeaderMap) -> Response<Body> {
        let tag = format!("\"{}\"", self.hash);
        let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let unchanged = known.flat_map(|value| value.split(',')).any(|known| {
            let known = known.trim();
            known == "*" || known.trim_start_matches("W/") == tag
        });
        let mut response = if unchanged {
            let mut response = Response::new(Body::whole(Bytes::new()));
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            Response::new(Body::whole(self.bytes.clone()))
        };
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        fields.insert(header::ETAG, HeaderValue::from_str(&tag).expect("a tag is hex digits in quotes"));
        // The document depends on `Accept`, and clients revalidate it each time.
        fields.insert(header::VARY, HeaderValue::from_static("Accept"));
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        response
    }
}
