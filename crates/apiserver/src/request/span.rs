//! One request as a tracing span: every line logged inside it has the request's id, and one line ends it.
//!
//! The span has values of the path and the identity. Headers, queries and bodies are never recorded, because they can
//! contain credentials. Span and line are at debug level; when that is off, nothing is formatted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use api::Revision;
use http::request::Parts;
use http::{Response, StatusCode};
use store::StoredObject;
use tokio::time::Instant;
use tracing::Span;
use tracing::field::{Empty, display};

use crate::request::{RequestInfo, Verb};

/// Numbers the requests of one server, from 1.
// Not random: a random id would make the uids and names of a simulation depend on the log level.
#[derive(Default)]
pub(crate) struct RequestIds(AtomicU64);

impl RequestIds {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The span of one request. Dropping it writes the line that ends the request, also after a timeout, a panic or a
/// disconnect. A watch ends with its stream.
pub(crate) struct RequestSpan {
    span: Span,
    began: Instant,
    /// The status code, once there is a response.
    code: Option<StatusCode>,
    /// The last write of the request. A collection delete or an eviction writes several objects.
    revision: Mutex<Option<Revision>>,
    /// Whether the name of the object is known only after the write: a create.
    is_unnamed: bool,
}

impl RequestSpan {
    /// A request for a resource.
    pub fn of_resource(ids: &RequestIds, user: &str, info: &RequestInfo) -> RequestSpan {
        let span = tracing::debug_span!(
            "request",
            id = ids.next(),
            user,
            verb = info.verb.name(),
            group = Some(&*info.group).filter(|group| !group.is_empty()),
            resource = &*info.resource,
            subresource = info.subresource.as_deref(),
            namespace = info.namespace.as_deref(),
            name = info.name.as_deref(),
            revision = Empty,
        );
        let is_unnamed = info.verb == Verb::Create && info.name.is_none();
        RequestSpan::new(span, is_unnamed)
    }

    /// A request for a path that refers to no resource.
    pub fn of_path(ids: &RequestIds, user: &str, request: &Parts) -> RequestSpan {
        let span = tracing::debug_span!(
            "request",
            id = ids.next(),
            user,
            method = request.method.as_str(),
            path = request.uri.path(),
        );
        RequestSpan::new(span, false)
    }

    /// No request: a write by the server itself.
    pub fn none() -> RequestSpan {
        RequestSpan::new(Span::none(), false)
    }

    fn new(span: Span, is_unnamed: bool) -> RequestSpan {
        RequestSpan { span, began: Instant::now(), code: None, revision: Mutex::new(None), is_unnamed }
    }

    /// The span itself, for the future that handles the request.
    pub fn handle(&self) -> Span {
        self.span.clone()
    }

    /// When the request began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The request wrote this object.
    pub fn record_write(&self, stored: &StoredObject) {
        if self.span.is_disabled() {
            return;
        }
        if self.is_unnamed {
            self.span.record("name", &*stored.key.name);
        }
        *self.revision.lock().unwrap_or_else(PoisonError::into_inner) = Some(stored.revision);
        self.span.in_scope(|| tracing::trace!("{} written at revision {}", stored.key, stored.revision));
    }

    /// The request has this response.
    pub fn record_response<B>(&mut self, response: &Response<B>) {
        self.code = Some(response.status());
    }

    /// Ends the request with this response.
    pub fn end<B>(mut self, response: Response<B>) -> Response<B> {
        self.record_response(&response);
        response
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if self.span.is_disabled() {
            return;
        }
        if let Some(revision) = *self.revision.get_mut().unwrap_or_else(PoisonError::into_inner) {
            self.span.record("revision", display(revision));
        }
        let duration_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        // Entered, not only named as the parent: the JSON format writes the spans that are entered.
        self.span.in_scope(|| match self.code.map(|code| code.as_u16()) {
            Some(code) => tracing::debug!(code, duration_us, "request ended"),
            None => tracing::debug!(duration_us, "request ended without a response"),
        });
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use tracing::subscriber::NoSubscriber;

    use super::*;

    #[test]
    fn a_disabled_span_evaluates_no_field() {
        let ids = RequestIds::default();
        let (request, ()) = Request::new(()).into_parts();
        // As in the program, where a subscriber is set: without one `tracing` may evaluate fields for the `log` crate.
        tracing::subscriber::with_default(NoSubscriber::new(), || {
            drop(RequestSpan::of_path(&ids, "jane", &request));
        });
        assert_eq!(ids.next(), 1, "the id is a field like the others");
    }
}
