//! Reading a request.
//!
//! In: method, URI, headers, extensions and body. Out: a `Route` with its options, the client's identity, the media
//! types of both directions, and the body as a document.
//! Promises: paths are data. Which resources exist is not known here, so nothing here matches on a kind.

mod route; // path and query → the requested route
pub(crate) mod identity; // the client
pub(crate) mod span; // the request in the log
pub(crate) mod negotiation; // media types of the body and of the response
pub(crate) mod duplicates; // bytes → a document, noting duplicate fields
pub(crate) mod strict; // unknown fields, duplicate fields and wrong types
pub(crate) mod block_in_place; // work on a large body, without delaying the thread's other requests

pub use route::*;
