//! A layer between a client and its server that applies the rules to every request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use apiserver::request::Verb;
use bytes::Bytes;
use controlplane::ClientWrapper;
use http::request::Parts;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tower::{BoxError, Service};

use super::decide::{FaultRules, RuleCounts, RuleId};
use super::declared_rights::undeclared;
use super::events;
use super::observed_request::ObservedRequest;
use super::rule::{EventFault, Fault, FaultRule};

/// The current rules, shared by all clients that are wrapped with them. Clones share the same rules.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<SharedRules>);

#[derive(Debug, Default)]
struct SharedRules {
    rules: Mutex<FaultRules>,
    /// Notified after every decision.
    rules_consulted: Notify,
}

/// The body of a response.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

impl Faults {
    /// Adds a rule.
    pub fn add(&self, rule: FaultRule) -> RuleId {
        self.rules().add(rule)
    }

    /// Removes a rule. A fault that has begun, such as a delay, still ends.
    pub fn remove(&self, rule: RuleId) {
        self.rules().remove(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// How often the rule was matched and applied so far.
    pub fn counts(&self, rule: RuleId) -> RuleCounts {
        self.rules().counts(rule)
    }

    /// Returns once the rule was applied for the first time. Its fault may still be in progress.
    pub async fn wait_until_applied(&self, rule: RuleId) {
        loop {
            // Registered before the check, so that no notification is missed between the two.
            let mut decided = std::pin::pin!(self.0.rules_consulted.notified());
            decided.as_mut().enable();
            if self.counts(rule).applied > 0 {
                return;
            }
            decided.await;
        }
    }

    /// The same client for `user`, with the faults of the rules.
    ///
    /// Must be called inside a tokio runtime, which `kube::Client` needs.
    pub fn wrap(&self, user: &str, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(FaultService { faults: self.clone(), user: user.into(), client }, namespace)
    }

    /// For `controlplane::Config::client_wrapper`: the client of every component goes through these rules as the
    /// component's user. These rules are outside of the wrapper `inner`.
    pub fn client_wrapper(&self, inner: Option<ClientWrapper>) -> ClientWrapper {
        let faults = self.clone();
        Arc::new(move |identity, client| {
            let client = inner.iter().fold(client, |client, wrap| wrap(identity, client));
            faults.wrap(&identity.user, client)
        })
    }

    pub(super) fn decide_event(&self, request: &ObservedRequest) -> EventFault {
        let fault = self.rules().decide_event(request);
        self.0.rules_consulted.notify_waiters();
        fault
    }

    fn rules(&self) -> MutexGuard<'_, FaultRules> {
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request from the caller to the server and back. `observed` is what the rules match; `None` means no fault.
    pub(super) async fn forward_with_faults(
        &self,
        client: &Client,
        observed: Option<ObservedRequest>,
        request: Request<Bytes>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let forward = || forward(client, &parts, &body);
        let Some(observed) = observed else { return forward().await };
        let fault = self.rules().decide(&observed);
        self.0.rules_consulted.notify_waiters();
        let response = match fault {
            Fault::Count => forward().await?,
            Fault::Delay(delay) => {
                tokio::time::sleep(delay).await;
                forward().await?
            }
            Fault::DelayResponse(delay) => {
                let response = forward().await;
                tokio::time::sleep(delay).await;
                response?
            }
            Fault::Cut => return Err(connection_cut()),
            Fault::CutResponse => {
                forward().await?;
                return Err(connection_cut());
            }
            Fault::BlackHole => std::future::pending().await,
            Fault::BlackHoleResponse => {
                forward().await?;
                std::future::pending().await
            }
            Fault::Repeat => {
                forward().await?;
                forward().await?
            }
            Fault::Respond(status) => status.response(&observed).map(full_body),
            Fault::RespondAfter(status) => {
                forward().await?;
                status.response(&observed).map(full_body)
            }
        };
        // Only JSON watches consist of lines; other media types are passed through.
        let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if observed.verb == Verb::Watch && response.status().is_success() && is_json {
            let faults = self.clone();
            return Ok(response.map(|body| events::with_event_faults(faults, observed, body)));
        }
        Ok(response)
    }
}

async fn forward(client: &Client, parts: &Parts, body: &Bytes) -> Result<Response<ResponseBody>, BoxError> {
    let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
    Ok(client.send(request).await?.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

fn full_body(bytes: Bytes) -> ResponseBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The error of a broken connection.
pub(super) fn connection_cut() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection was cut (injected)").into()
}

/// A client's service with faults in front of it.
struct FaultService {
    faults: Faults,
    user: Arc<str>,
    client: Client,
}

impl Service<Request<Body>> for FaultService {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The client behind waits for its own service when it is called.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (faults, user, client) = (self.faults.clone(), Arc::clone(&self.user), self.client.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            // Not in the proxy: a process has one user for all of its control loops, and the server checks its rights.
            let observed = ObservedRequest::read(&user, &parts.method, &parts.uri, &body);
            if let Some(reason) = observed.as_ref().and_then(undeclared) {
                // The control loop makes no progress, and the reason is in the output of the test.
                panic!("{reason}");
            }
            faults.forward_with_faults(&client, observed, Request::from_parts(parts, body)).await
        })
    }
}
