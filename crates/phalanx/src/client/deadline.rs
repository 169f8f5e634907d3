//! `--request-timeout`: a client whose requests have a deadline.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, Service};

/// The server did not respond in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseTimeout {
    /// The time limit.
    pub timeout: Duration,
    /// Whether the request was a write, whose result is then unknown.
    pub is_write: bool,
}

impl fmt::Display for ResponseTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server did not respond within {:?}", self.timeout)
    }
}

impl std::error::Error for ResponseTimeout {}

/// The same client, whose requests fail with [`ResponseTimeout`] after `deadline`; `None` means no deadline.
///
/// Must be called inside a tokio runtime, which `kube::Client` needs.
pub fn with_deadline(client: Client, deadline: Option<Duration>) -> Client {
    let Some(deadline) = deadline else { return client };
    let namespace = client.default_namespace().to_owned();
    Client::new(DeadlineService { client, deadline }, namespace)
}

/// Which part of a response must arrive before the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeadlineScope {
    /// All of it.
    WholeResponse,
    /// Its start: a watch has no end, and a log may be long.
    ResponseStart,
    /// None: the response with the log of a pod starts with its first output.
    Unlimited,
}

impl DeadlineScope {
    fn of(request: &Request<Body>) -> DeadlineScope {
        let mut options = request.uri().query().unwrap_or_default().split('&');
        let is_log = request.uri().path().ends_with("/log");
        match options.find(|option| matches!(*option, "watch=true" | "follow=true")) {
            Some("follow=true") => DeadlineScope::Unlimited,
            Some(_) => DeadlineScope::ResponseStart,
            None if is_log => DeadlineScope::ResponseStart,
            None => DeadlineScope::WholeResponse,
        }
    }
}

/// A client's service with a deadline for each request.
struct DeadlineService {
    client: Client,
    deadline: Duration,
}

impl Service<Request<Body>> for DeadlineService {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The inner client waits for its own service when it is called.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, timeout) = (self.client.clone(), self.deadline);
        let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
        Box::pin(async move {
            let scope = DeadlineScope::of(&request);
            let response = async {
                let response = client.send(request).await?;
                if scope != DeadlineScope::WholeResponse {
                    return Ok(response);
                }
                let (parts, body) = response.into_parts();
                Ok(Response::from_parts(parts, Body::from(body.collect_bytes().await?)))
            };
            if scope == DeadlineScope::Unlimited {
                return response.await;
            }
            let ended = tokio::time::timeout(timeout, response).await;
            ended.unwrap_or_else(|_| Err(ResponseTimeout { timeout, is_write }.into()))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use serde_json::json;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::cli;
    use crate::client::api_request;
    use crate::command_error::CommandError;

    /// A server that starts its responses, or not, and never ends them.
    fn unresponsive_server(begins: bool) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            if !begins {
                std::future::pending::<()>().await;
            }
            let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
            Ok::<_, Infallible>(Response::new(body))
        });
        with_deadline(Client::new(service, "default"), Some(runtime::request::DEADLINE))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_respond_is_an_error_with_a_hint() {
        for begins in [false, true] {
            let (client, began) = (unresponsive_server(begins), Instant::now());
            let read =
                CommandError::from(api_request::get(&client, "/api/v1/pods", api_request::JSON).await.unwrap_err());
            assert_eq!(began.elapsed().as_secs(), 15);
            let write = api_request::write(&client, Method::POST, "/api/v1/pods", api_request::JSON, &json!({})).await;
            let write = CommandError::from(write.unwrap_err());
            assert_eq!((read.code, write.code), (cli::EXIT_FAILED, cli::EXIT_FAILED));
            for part in ["did not respond within 15s", "--request-timeout"] {
                assert!(read.lines[0].contains(part) && write.lines[0].contains(part), "{read:?} {write:?}");
            }
            assert!(!read.lines[0].contains("not known") && write.lines[0].contains("not known"), "{write:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_start_of_an_endless_response_has_a_deadline() {
        let waits = Duration::from_secs(3600);
        for (path, begins, times_out) in [
            ("/api/v1/pods?watch=true", true, false),
            ("/api/v1/pods?limit=1&watch=true", false, true),
            ("/api/v1/namespaces/a/pods/b/log", true, false),
            ("/api/v1/namespaces/a/pods/b/log", false, true),
            ("/api/v1/namespaces/a/pods/b/log?follow=true", false, false),
        ] {
            let client = unresponsive_server(begins);
            let begun = timeout(waits, api_request::stream(&client, path, api_request::JSON)).await;
            assert_eq!(matches!(begun, Ok(Err(_))), times_out, "{path} {begins}");
            assert_eq!(matches!(begun, Ok(Ok(_))), begins, "{path} {begins}");
        }
    }
}
