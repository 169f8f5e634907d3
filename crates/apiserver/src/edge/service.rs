//! One request: authentication, limits, its timeout, and panics.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response, header};
use tokio::sync::watch;
use tower::{BoxError, Service};

use crate::edge::activity::ConnectionActivity;
use crate::edge::in_flight::{InFlightLimiter, InFlightPermit};
use crate::edge::response_body::ResponseBody;
use crate::edge::slots::Slot;
use crate::edge::{EdgeLimits, authentication, compression, request_body};
use crate::request::identity::Identity;
use crate::response::body::Body;
use crate::response::status::Status;
use crate::server::{ApiServer, LongRunning};

/// Paths that need no authentication.
const UNAUTHENTICATED_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// Prefix of the impersonation headers.
const IMPERSONATE: &str = "impersonate-";
/// How long the rest of a refused body is read and discarded.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Shared by all connections.
#[derive(Clone)]
pub(super) struct Edge {
    server: ApiServer,
    token: Arc<str>,
    in_flight: InFlightLimiter,
    timeout: Duration,
    max_header_bytes: usize,
}

impl Edge {
    /// An edge that authenticates by `token` or by a client certificate.
    pub fn new(server: ApiServer, token: &str, limits: &EdgeLimits) -> Edge {
        let in_flight = InFlightLimiter::new(limits);
        let (timeout, max_header_bytes) = (limits.request_timeout, limits.max_header_bytes);
        Edge { server, token: token.into(), in_flight, timeout, max_header_bytes }
    }

    /// The service of one connection. `identity` is from its certificate.
    pub fn on_connection(
        &self,
        identity: Option<Identity>,
        slot: Arc<Slot>,
        activity: ConnectionActivity,
        stopped: watch::Receiver<bool>,
    ) -> ConnectionService {
        if identity.as_ref().is_some_and(Identity::has_rights) {
            slot.mark_identified();
        }
        ConnectionService { edge: self.clone(), identity, slot, activity, stopped }
    }
}

/// The service of one connection.
#[derive(Clone)]
pub(super) struct ConnectionService {
    edge: Edge,
    identity: Option<Identity>,
    slot: Arc<Slot>,
    activity: ConnectionActivity,
    stopped: watch::Receiver<bool>,
}

impl<B> Service<Request<B>> for ConnectionService
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}

impl ConnectionService {
    async fn respond<B>(self, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let request_guard = self.activity.begin();
        let (request, lender) = {
            let (parts, body) = request.into_parts();
            let (lent, lender) = request_body::lend(body);
            (Request::from_parts(parts, lent), lender)
        };
        let reads_gzip = compression::is_accepted(request.headers()) && request.method() != Method::HEAD;
        let logged = tracing::enabled!(tracing::Level::DEBUG);
        let target = logged.then(|| format!("{} {}", request.method(), request.uri().path()));
        let (mut response, permit) = match self.identify(request).and_then(|request| self.admit(request)) {
            Ok((request, permit)) => {
                (call_with_timeout(self.edge.server.clone(), request, self.edge.timeout).await, permit)
            }
            Err(status) => {
                let response = status.into_response();
                if let Some(target) = target {
                    tracing::debug!(code = response.status().as_u16(), "{target}: refused by the network edge");
                }
                (response, None)
            }
        };
        if !response.status().is_success() {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, lender.drain()).await;
        }
        if reads_gzip {
            response = compression::compress(response).await;
        }
        // The request is in flight, and keeps its permit, until the last byte is sent.
        if response.extensions().get::<LongRunning>().is_some() {
            return response.map(|body| ResponseBody::watch(body, request_guard, permit, self.stopped));
        }
        response.map(|body| ResponseBody::whole(body, request_guard, permit))
    }

    /// The request with its permit, or 429. Unauthenticated paths need no permit: they matter most when the server is
    /// overloaded.
    fn admit<B>(&self, request: Request<B>) -> Result<(Request<B>, Option<InFlightPermit>), Status> {
        let permit = match UNAUTHENTICATED_PATHS.contains(&request.uri().path()) {
            true => None,
            false => Some(self.edge.in_flight.admit(&request)?),
        };
        Ok((request, permit))
    }

    /// The request with its identity, or 401 or 403. The connection limits headers only roughly, so they are checked
    /// here. An identity that the request already has is replaced.
    fn identify<B>(&self, mut request: Request<B>) -> Result<Request<B>, Status> {
        let bytes: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > self.edge.max_header_bytes {
            return Err(Status::headers_too_large(self.edge.max_header_bytes));
        }
        let by_token = || authentication::by_token(request.headers(), &self.edge.token);
        let is_unauthenticated_path = UNAUTHENTICATED_PATHS.contains(&request.uri().path());
        let identity = match self.identity.clone().or_else(by_token) {
            Some(identity) if identity.has_rights() => {
                self.slot.mark_identified();
                identity
            }
            Some(identity) if is_unauthenticated_path => identity,
            Some(identity) => {
                let (verb, path) = (request.method().as_str().to_ascii_lowercase(), request.uri().path());
                return Err(Status::denied(format!(
                    "forbidden: User \"{}\" cannot {verb} path \"{path}\": only the administrator and the components of the \
                     control plane have rights on this server",
                    identity.user
                )));
            }
            None if is_unauthenticated_path => Identity::anonymous(),
            None => return Err(Status::unauthorized()),
        };
        if let Some(name) = request.headers().keys().find(|name| name.as_str().starts_with(IMPERSONATE)) {
            // If ignored, the request would run with the rights of its sender instead of the limited ones.
            return Err(Status::denied(format!(
                "forbidden: this server does not support impersonation, and the request has the header {name}"
            )));
        }
        request.headers_mut().remove(header::AUTHORIZATION);
        request.extensions_mut().insert(identity);
        Ok(request)
    }
}

/// The server's response, or a `Status` after a panic or a timeout.
async fn call_with_timeout<S, B>(mut server: S, request: Request<B>, timeout: Duration) -> Response<Body>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
{
    let (method, uri) = (request.method().clone(), request.uri().clone());
    // The request is dropped after a panic, and its shared state is behind locks that detect poisoning.
    let response = AssertUnwindSafe(async move { server.call(request).await }).catch_unwind();
    match tokio::time::timeout(timeout, response).await {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(never))) => match never {},
        Ok(Err(_)) => {
            tracing::error!("{method} {}: the request made the server panic", uri.path());
            Status::internal("the request made the server panic; see the log of the server").into_response()
        }
        Err(_) => {
            let mut response = Status::timeout("request did not complete within the allotted timeout").into_response();
            // Its body may be half read, so an HTTP/1.1 connection cannot be reused.
            response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use tower::service_fn;

    use super::*;

    fn request() -> Request<()> {
        Request::new(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_only_its_request() {
        let panics = service_fn(|_: Request<()>| async { panic!("a defect") });
        let response = call_with_timeout(panics, request(), Duration::from_secs(1)).await;
        assert_eq!(response.status(), 500);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_takes_too_long_gets_a_timeout() {
        let hangs = service_fn(|_: Request<()>| std::future::pending::<Result<Response<Body>, Infallible>>());
        let response = call_with_timeout(hangs, request(), Duration::from_secs(60)).await;
        assert_eq!(response.status(), 504);
        assert_eq!(response.headers()[header::CONNECTION], "close");
    }
}
