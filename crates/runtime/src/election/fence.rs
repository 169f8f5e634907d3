//! Passes writes, and waits for their responses, only while the lease is held.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, Service};

/// Closed until the lease is acquired, open until the time to which it was last renewed. Clones share the state.
///
/// A process that was suspended finds it closed at its next write, even before its own timers fire. A write without a
/// response is abandoned when the fence closes. The time from then to the end of the lease is left for requests that
/// are already sent.
#[derive(Clone, Debug)]
pub struct Fence(Arc<watch::Sender<Option<Instant>>>);

impl Default for Fence {
    fn default() -> Fence {
        Fence(Arc::new(watch::Sender::new(None)))
    }
}

impl Fence {
    /// Whether a write may start now.
    pub fn is_open(&self) -> bool {
        self.0.borrow().is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn open_until(&self, until: Instant) {
        self.0.send_replace(Some(until));
    }

    pub(super) fn close(&self) {
        self.0.send_replace(None);
    }

    /// Returns once it is closed. It may be extended meanwhile.
    async fn wait_until_closed(&self) {
        let mut until = self.0.subscribe();
        loop {
            let Some(end) = *until.borrow_and_update() else { return };
            tokio::select! {
                biased;
                // The sender lives as long as this fence.
                _ = until.changed() => {}
                () = sleep_until(end) => return,
            }
        }
    }

    /// The same client, whose writes fail while the fence is closed. Reads always pass.
    ///
    /// Must be called inside a tokio runtime, which `kube::Client` needs.
    pub fn wrap(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(FencedClient { fence: self.clone(), client }, namespace)
    }
}

/// A client's service behind a fence.
struct FencedClient {
    fence: Fence,
    client: Client,
}

impl Service<Request<Body>> for FencedClient {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The wrapped client waits for its own service when it is called.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let (fence, client) = (self.fence.clone(), self.client.clone());
        Box::pin(async move {
            if reads {
                return Ok(client.send(request).await?);
            }
            // Checked as late as possible, because the future may have waited.
            if !fence.is_open() {
                return Err("not written: this process does not hold its lease".into());
            }
            tokio::select! {
                biased;
                () = fence.wait_until_closed() => Err("abandoned: this process no longer holds its lease".into()),
                response = client.send(request) => Ok(response?),
            }
        })
    }
}
