//! A client that can abandon all its connections and open new ones.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube::client::Body;
use kube::{Client, Error};
use tower::{BoxError, Service};

use crate::failure::message;
use crate::request::Connection;

/// A client created by `connect`. A request with [`Connection::New`] creates a new one, which is used from then on.
/// Requests in flight, including watches, end on their old connections.
///
/// Must be called inside a tokio runtime, which `kube::Client` needs.
pub fn reconnecting(connect: impl Fn() -> Result<Client, Error> + Send + 'static) -> Result<Client, Error> {
    let current = connect()?;
    let namespace = current.default_namespace().to_owned();
    Ok(Client::new(ReconnectingClient { connect, current }, namespace))
}

struct ReconnectingClient<C> {
    connect: C,
    /// Owns the connections that requests may use.
    current: Client,
}

impl<C: Fn() -> Result<Client, Error>> Service<Request<Body>> for ReconnectingClient<C> {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The wrapped client waits for its own service when it is called.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.extensions().get() == Some(&Connection::New) {
            match (self.connect)() {
                Ok(client) => self.current = client,
                Err(error) => tracing::debug!("no new connections: {}", message(&error)),
            }
        }
        let client = self.current.clone();
        Box::pin(async move { Ok(client.send(request).await?) })
    }
}
