//! Asks one server and reads its answer.

use ::kube::Client;
use ::kube::client::Body;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use serde_json::{Value, json};

use super::cases::{ApiCase, WriteVerb};
use super::document_path::render;

/// What a server said to one write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerResponse {
    pub code: u16,
    /// Why it was refused: `Invalid`, `Forbidden`, …; empty when it was not.
    pub reason: String,
    pub message: String,
    /// In the server's order.
    pub causes: Vec<ResponseCause>,
    /// What it became, where it was accepted.
    pub object: Option<Value>,
    pub warnings: Vec<String>,
}

/// One field's fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResponseCause {
    pub field: String,
    pub reason: String,
    pub message: String,
}

impl ServerResponse {
    /// Whether the write was done.
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The refusal of a nameless object without the end that this server drew for its name.
    fn mask_generated_name(mut self, sent: &Value) -> ServerResponse {
        let prefix = sent["metadata"]["generateName"].as_str().unwrap_or_default();
        if prefix.is_empty() || sent["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty()) {
            return self;
        }
        self.message = mask_suffix(&self.message, prefix);
        for cause in &mut self.causes {
            cause.message = mask_suffix(&cause.message, prefix);
        }
        self
    }
}

/// What a server draws from when it completes a name, and how much of it.
const SUFFIX_ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// The text with `DRAWN` for what was drawn behind `prefix`.
fn mask_suffix(text: &str, prefix: &str) -> String {
    let (mut masked, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(prefix) {
        let (head, tail) = rest.split_at(at + prefix.len());
        masked.push_str(head);
        let drawn =
            tail.chars().take(SUFFIX_LENGTH).filter(|char| SUFFIX_ALPHABET.contains(*char)).count() == SUFFIX_LENGTH;
        rest = if drawn { &tail[SUFFIX_LENGTH..] } else { tail };
        masked.push_str(if drawn { "DRAWN" } else { "" });
    }
    masked + rest
}

/// A cached list of PriorityClasses may be a moment behind the last deletion; so often is asked again.
const MAX_STALE_RETRIES: usize = 40;

/// Takes the steps of a case. The last answer is the one to judge; fewer answers than steps mean that one was refused.
pub async fn run_case(client: &Client, case: &ApiCase) -> anyhow::Result<Vec<ServerResponse>> {
    let collection = case.kind.path();
    let query = case.field_validation.query();
    let mut object = case.base.object.clone();
    object["metadata"]["name"] = case.name.clone().into();
    if case.verb == WriteVerb::Create {
        apply_mutation(&mut object, case);
        let answer = send_with_retry(client, &format!("{collection}{query}"), &object, case).await?;
        let answer = answer.mask_generated_name(&object);
        let made = answer.object.as_ref().and_then(|object| object["metadata"]["name"].as_str().map(str::to_owned));
        if let Some(name) = made {
            clean_up(client, case, &name).await?;
        }
        return Ok(vec![answer]);
    }
    let mut answers = vec![send_with_retry(client, &collection, &object, case).await?];
    let path = format!("{collection}/{}", case.name);
    if let (Some(from), Some(mut object)) = (case.initial_status, last_object(&answers)) {
        object["status"] = case.base.statuses[from].clone();
        answers.push(send(client, Method::PUT, &format!("{path}/status"), render(&object)).await?);
    }
    if let Some(mut object) = last_object(&answers) {
        apply_mutation(&mut object, case);
        let target =
            if case.verb == WriteVerb::Status { format!("{path}/status{query}") } else { format!("{path}{query}") };
        answers.push(send(client, Method::PUT, &target, render(&object)).await?);
    }
    clean_up(client, case, &case.name).await?;
    Ok(answers)
}

fn last_object(answers: &[ServerResponse]) -> Option<Value> {
    answers.last().and_then(|answer| answer.object.clone())
}

fn apply_mutation(object: &mut Value, case: &ApiCase) {
    for (place, value) in &case.mutation.edits {
        place.set(object, value.clone());
    }
}

async fn send_with_retry(
    client: &Client,
    path: &str,
    object: &Value,
    case: &ApiCase,
) -> anyhow::Result<ServerResponse> {
    let mut answer = send(client, Method::POST, path, render(object)).await?;
    for _ in 0..MAX_STALE_RETRIES {
        if !case.kind.sequential || !answer.message.contains("is already marked as default") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        answer = send(client, Method::POST, path, render(object)).await?;
    }
    Ok(answer)
}

/// Objects of a namespace bear names of their own and may stay; what the whole cluster sees may not.
async fn clean_up(client: &Client, case: &ApiCase, name: &str) -> anyhow::Result<()> {
    if case.kind.sequential {
        send(client, Method::DELETE, &format!("{}/{name}", case.kind.path()), b"{}".to_vec()).await?;
    }
    Ok(())
}

/// Sends one request. An answer of any code is an answer. A connection that breaks twice over the same request is one,
/// too: a server that panics over an object says no more.
pub async fn send(client: &Client, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<ServerResponse> {
    send_accepting(client, method, path, body, "application/json").await
}

/// The same, for an answer in the form `accept`.
pub async fn send_accepting(
    client: &Client,
    method: Method,
    path: &str,
    body: Vec<u8>,
    accept: &str,
) -> anyhow::Result<ServerResponse> {
    let mut broken = 0;
    loop {
        match send_once(client, method.clone(), path, body.clone(), accept).await {
            Err(error) if broken > 0 => {
                let message = format!("the connection broke: {error:#}");
                return Ok(ServerResponse { message, ..ServerResponse::default() });
            }
            Err(_) => broken += 1,
            answer => return answer,
        }
    }
}

async fn send_once(
    client: &Client,
    method: Method,
    path: &str,
    body: Vec<u8>,
    accept: &str,
) -> anyhow::Result<ServerResponse> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, accept);
    let response = client.send(request.body(Body::from(body))?).await?;
    let code = response.status().as_u16();
    let warnings = response.headers().get_all(http::header::WARNING).iter();
    let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    let bytes = response.into_body().collect_bytes().await?;
    let document: Value =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| json!({"message": String::from_utf8_lossy(&bytes)}));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if (200..300).contains(&code) {
        return Ok(ServerResponse { code, object: Some(document), warnings, ..ServerResponse::default() });
    }
    let causes = document["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(ServerResponse {
        code,
        reason: text(&document["reason"]),
        message: text(&document["message"]),
        causes: causes
            .iter()
            .map(|cause| ResponseCause {
                field: text(&cause["field"]),
                reason: text(&cause["reason"]),
                message: text(&cause["message"]),
            })
            .collect(),
        object: None,
        warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::mask_suffix;

    #[test]
    fn the_end_that_a_server_drew_is_masked_and_no_other() {
        assert_eq!(
            mask_suffix("job \"Made_wc6xk\": \"Made_wc6xk\" no", "Made_"),
            "job \"Made_DRAWN\": \"Made_DRAWN\" no"
        );
        assert_eq!(mask_suffix("\"Made_\": no", "Made_"), "\"Made_\": no");
    }
}
