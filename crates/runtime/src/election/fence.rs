//! Lets writes through only while the lease is held.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service};

/// Closed until the lease is won, open until the time to which it was last renewed. Clones are the same fence.
///
/// A process that was stopped and goes on later finds it closed with its very next write, whatever its timers are still
/// about to do.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<Mutex<Option<Instant>>>);

impl Fence {
    /// Whether a write may start now.
    pub fn is_open(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn open_until(&self, until: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    pub(super) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same client, whose writes fail while the fence is closed; reads always pass.
    ///
    /// Must be called inside a tokio runtime, which `kube::Client` needs.
    pub fn around(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(Fenced { fence: self.clone(), client }, namespace)
    }
}

/// A client's service behind a fence.
struct Fenced {
    fence: Fence,
    client: Client,
}

impl Service<Request<Body>> for Fenced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The client behind waits for its own service when it is called.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let (fence, client) = (self.fence.clone(), self.client.clone());
        Box::pin(async move {
            // Looked at as late as possible: the future may have waited.
            if !reads && !fence.is_open() {
                return Err("not written: this process does not hold its lease".into());
            }
            Ok(client.send(request).await?)
        })
    }
}
