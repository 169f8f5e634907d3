//! Between a client and its server: asks the rules about every request and does what they say.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use apiserver::request::Verb;
use bytes::Bytes;
use controlplane::Wrap;
use http::request::Parts;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tower::{BoxError, Service};

use super::asked::Asked;
use super::decide::{Counts, RuleId, Rules};
use super::events;
use super::rule::{EventFault, Fault, Rule};

/// Rules that are in force, shared by all clients that were wrapped with them. Clones are the same rules.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    rules: Mutex<Rules>,
    /// Told whenever the rules were asked.
    asked: Notify,
}

/// What an answer is made of.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

impl Faults {
    /// From now on this rule holds too.
    pub fn add(&self, rule: Rule) -> RuleId {
        self.rules().add(rule)
    }

    /// From now on this rule holds no more. What it has begun, such as a delay, it ends.
    pub fn remove(&self, rule: RuleId) {
        self.rules().remove(rule);
    }

    /// From now on nothing goes wrong.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// What the rule has seen and done so far.
    pub fn counts(&self, rule: RuleId) -> Counts {
        self.rules().counts(rule)
    }

    /// Returns once the rule was done for the first time. What it does may be under way still.
    pub async fn happened(&self, rule: RuleId) {
        loop {
            // Before the look, so that nothing is missed between the two.
            let mut asked = std::pin::pin!(self.0.asked.notified());
            asked.as_mut().enable();
            if self.counts(rule).done > 0 {
                return;
            }
            asked.await;
        }
    }

    /// The same client for `user`, with everything between it and its server that the rules ask for.
    ///
    /// Must be called inside a tokio runtime, which `kube::Client` needs.
    pub fn wrap(&self, user: &str, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(Layer { faults: self.clone(), user: user.into(), client }, namespace)
    }

    /// For `controlplane::Config::wrap`: every part's client goes through these rules under the part's own name, outside
    /// of what `inner` puts around it.
    pub fn around(&self, inner: Option<Wrap>) -> Wrap {
        let faults = self.clone();
        Arc::new(move |who, client| {
            let client = inner.iter().fold(client, |client, wrap| wrap(who, client));
            faults.wrap(&who.user, client)
        })
    }

    pub(super) fn decide_event(&self, asked: &Asked) -> EventFault {
        let fault = self.rules().decide_event(asked);
        self.0.asked.notify_waiters();
        fault
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request from the caller to the server and back.
    pub(super) async fn pass(
        &self,
        user: &str,
        client: &Client,
        request: Request<Bytes>,
    ) -> Result<Response<AnswerBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let forward = || forward(client, &parts, &body);
        let Some(asked) = Asked::read(user, &parts.method, &parts.uri, &body) else { return forward().await };
        let fault = self.rules().decide(&asked);
        self.0.asked.notify_waiters();
        let response = match fault {
            Fault::Count => forward().await?,
            Fault::Delay(delay) => {
                tokio::time::sleep(delay).await;
                forward().await?
            }
            Fault::DelayAnswer(delay) => {
                let response = forward().await;
                tokio::time::sleep(delay).await;
                response?
            }
            Fault::Cut => return Err(cut()),
            Fault::CutAnswer => {
                forward().await?;
                return Err(cut());
            }
            Fault::BlackHole => std::future::pending().await,
            Fault::BlackHoleAnswer => {
                forward().await?;
                std::future::pending().await
            }
            Fault::Repeat => {
                forward().await?;
                forward().await?
            }
            Fault::Answer(refusal) => refusal.response(&asked).map(whole),
            Fault::AnswerAfter(refusal) => {
                forward().await?;
                refusal.response(&asked).map(whole)
            }
        };
        // Only JSON comes in lines; a watch in another form passes as it is.
        let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if asked.verb == Verb::Watch && response.status().is_success() && is_json {
            let faults = self.clone();
            return Ok(response.map(|body| events::through(faults, asked, body)));
        }
        Ok(response)
    }
}

async fn forward(client: &Client, parts: &Parts, body: &Bytes) -> Result<Response<AnswerBody>, BoxError> {
    let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
    Ok(client.send(request).await?.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// What a caller sees of a connection that broke.
pub(super) fn cut() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection was cut (injected)").into()
}

/// A client's service with faults in front of it.
struct Layer {
    faults: Faults,
    user: Arc<str>,
    client: Client,
}

impl Service<Request<Body>> for Layer {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The client behind waits for its own service when it is called.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (faults, user, client) = (self.faults.clone(), Arc::clone(&self.user), self.client.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            faults.pass(&user, &client, Request::from_parts(parts, body)).await
        })
    }
}
