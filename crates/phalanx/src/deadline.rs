//! How long a server has to answer a command: `--request-timeout`, around a client.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, Service};

/// The server did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseTimeout {
    /// How long it had.
    pub timeout: Duration,
    /// Whether it may have done what was asked.
    pub is_write: bool,
}

impl fmt::Display for ResponseTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server did not answer within {:?}", self.timeout)
    }
}

impl std::error::Error for ResponseTimeout {}

/// The same client, whose requests fail with [`NoAnswer`] after `deadline`; `None` waits for ever.
///
/// Must be called inside a tokio runtime, which `kube::Client` needs.
pub fn with_deadline(client: Client, deadline: Option<Duration>) -> Client {
    let Some(deadline) = deadline else { return client };
    let namespace = client.default_namespace().to_owned();
    Client::new(DeadlineService { client, deadline }, namespace)
}

/// What of an answer must come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeadlineScope {
    /// All of it.
    WholeResponse,
    /// Its beginning: a watch goes on for ever, and a log may be long.
    ResponseStart,
    /// Nothing: the log of a pod that has written nothing yet begins when it does.
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
        // The client behind waits for its own service when it is called.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, within) = (self.client.clone(), self.deadline);
        let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
        Box::pin(async move {
            let extent = DeadlineScope::of(&request);
            let answer = async {
                let response = client.send(request).await?;
                if extent != DeadlineScope::WholeResponse {
                    return Ok(response);
                }
                let (parts, body) = response.into_parts();
                Ok(Response::from_parts(parts, Body::from(body.collect_bytes().await?)))
            };
            if extent == DeadlineScope::Unlimited {
                return answer.await;
            }
            let ended = tokio::time::timeout(within, answer).await;
            ended.unwrap_or_else(|_| Err(ResponseTimeout { timeout: within, is_write }.into()))
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
    use crate::command_error::CommandError;
    use crate::{api_request, cli};

    /// A server that begins its answers, or not, and never ends them.
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
    async fn a_server_that_never_answers_is_given_up_with_advice() {
        for begins in [false, true] {
            let (client, began) = (unresponsive_server(begins), Instant::now());
            let read =
                CommandError::from(api_request::get(&client, "/api/v1/pods", api_request::JSON).await.unwrap_err());
            assert_eq!(began.elapsed().as_secs(), 15);
            let write = api_request::write(&client, Method::POST, "/api/v1/pods", api_request::JSON, &json!({})).await;
            let write = CommandError::from(write.unwrap_err());
            assert_eq!((read.code, write.code), (cli::EXIT_FAILED, cli::EXIT_FAILED));
            for part in ["did not answer within 15s", "--request-timeout"] {
                assert!(read.lines[0].contains(part) && write.lines[0].contains(part), "{read:?} {write:?}");
            }
            assert!(!read.lines[0].contains("not known") && write.lines[0].contains("not known"), "{write:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_on_for_ever_only_has_to_begin() {
        let waits = Duration::from_secs(3600);
        for (path, begins, is_given_up) in [
            ("/api/v1/pods?watch=true", true, false),
            ("/api/v1/pods?limit=1&watch=true", false, true),
            ("/api/v1/namespaces/a/pods/b/log", true, false),
            ("/api/v1/namespaces/a/pods/b/log", false, true),
            ("/api/v1/namespaces/a/pods/b/log?follow=true", false, false),
        ] {
            let client = unresponsive_server(begins);
            let begun = timeout(waits, api_request::stream(&client, path, api_request::JSON)).await;
            assert_eq!(matches!(begun, Ok(Err(_))), is_given_up, "{path} {begins}");
            assert_eq!(matches!(begun, Ok(Ok(_))), begins, "{path} {begins}");
        }
    }
}
