//! How many requests are under way at once. More are refused at once with 429 and the time to come back: what would
//! only wait for its turn takes memory meanwhile, and its client cannot tell a busy server from a dead one.

use std::sync::Arc;

use http::{Method, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::edge::EdgeLimits;
use crate::request::{self, Route, Verb};
use crate::response::status::Status;

/// A request's permit, returned when it is dropped.
pub(super) type InFlightPermit = OwnedSemaphorePermit;

/// Places for each kind of request, over all connections.
#[derive(Clone)]
pub(super) struct InFlightLimiter {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl InFlightLimiter {
    pub fn new(limits: &EdgeLimits) -> InFlightLimiter {
        let places = |count: usize| Arc::new(Semaphore::new(count));
        InFlightLimiter {
            reads: places(limits.max_reads),
            writes: places(limits.max_writes),
            watches: places(limits.max_watches),
        }
    }

    /// A place for `request`, if there is one.
    // Upstream: members of system:masters are never refused. Here every user of the kubeconfig is a member.
    pub fn admit<B>(&self, request: &Request<B>) -> Result<InFlightPermit, Status> {
        let places = match *request.method() {
            Method::GET | Method::HEAD if is_watch(request) => &self.watches,
            Method::GET | Method::HEAD | Method::OPTIONS => &self.reads,
            _ => &self.writes,
        };
        Arc::clone(places).try_acquire_owned().map_err(|_| Status::too_many_requests())
    }
}

fn is_watch<B>(request: &Request<B>) -> bool {
    // Most requests have no such word and need not be read twice.
    let may_be = request.uri().query().is_some_and(|query| query.contains("watch"));
    may_be
        && matches!(request::parse(request.method(), request.uri()),
            Ok(Route::Resource(info)) if info.verb == Verb::Watch)
}
