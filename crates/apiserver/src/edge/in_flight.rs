//! Limits the requests in flight. More are refused at once with 429 and the time after which to retry. A request that
//! waited instead would use memory, and its client could not distinguish a busy server from a dead one.

use std::sync::Arc;

use http::{Method, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::edge::EdgeLimits;
use crate::request::{self, Route, Verb};
use crate::response::status::Status;

/// A request's permit, returned when it is dropped.
pub(super) type InFlightPermit = OwnedSemaphorePermit;

/// Permits for each class of requests, over all connections.
#[derive(Clone)]
pub(super) struct InFlightLimiter {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl InFlightLimiter {
    pub fn new(limits: &EdgeLimits) -> InFlightLimiter {
        let permits = |count: usize| Arc::new(Semaphore::new(count));
        InFlightLimiter {
            reads: permits(limits.max_reads),
            writes: permits(limits.max_writes),
            watches: permits(limits.max_watches),
        }
    }

    /// A permit for `request`, or 429.
    // Upstream: members of system:masters are never refused. Here every user of the kubeconfig is a member.
    pub fn admit<B>(&self, request: &Request<B>) -> Result<InFlightPermit, Status> {
        let permits = match *request.method() {
            Method::GET | Method::HEAD if is_watch(request) => &self.watches,
            Method::GET | Method::HEAD | Method::OPTIONS => &self.reads,
            _ => &self.writes,
        };
        Arc::clone(permits).try_acquire_owned().map_err(|_| Status::too_many_requests())
    }
}

fn is_watch<B>(request: &Request<B>) -> bool {
    // Most requests do not contain this word, and their query is not parsed twice.
    let may_be = request.uri().query().is_some_and(|query| query.contains("watch"));
    may_be
        && matches!(request::parse(request.method(), request.uri()),
            Ok(Route::Resource(info)) if info.verb == Verb::Watch)
}
