//! Sends requests to one server and reads its responses.

use ::kube::Client;
use ::kube::client::Body;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use serde_json::{Value, json};

use super::cases::{ApiCase, WriteVerb};
use super::document_path::render;

/// The response to one write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerResponse {
    pub code: u16,
    /// Why it was refused: `Invalid`, `Forbidden`, …; empty if it was accepted.
    pub reason: String,
    pub message: String,
    /// In the server's order.
    pub causes: Vec<ResponseCause>,
    /// The resulting object, if it was accepted.
    pub object: Option<Value>,
    pub warnings: Vec<String>,
}

/// One field error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResponseCause {
    pub field: String,
    pub reason: String,
    pub message: String,
}

impl ServerResponse {
    /// Whether the write was accepted.
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The refusal of an object without a name, without the suffix that the server generated.
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

/// The alphabet and length of generated suffixes.
const SUFFIX_ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// The text with `DRAWN` for the generated suffix after `prefix`.
fn mask_suffix(text: &str, prefix: &str) -> String {
    let (mut masked, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(prefix) {
        let (head, tail) = rest.split_at(at + prefix.len());
        masked.push_str(head);
        let is_generated =
            tail.chars().take(SUFFIX_LENGTH).filter(|char| SUFFIX_ALPHABET.contains(*char)).count() == SUFFIX_LENGTH;
        rest = if is_generated { &tail[SUFFIX_LENGTH..] } else { tail };
        masked.push_str(if is_generated { "DRAWN" } else { "" });
    }
    masked + rest
}

/// A cached list of PriorityClasses may be slightly behind the last delete; the request is repeated this often.
const MAX_STALE_RETRIES: usize = 40;

/// Runs the steps of a case. The last response is compared. Fewer responses than steps mean that one was refused.
pub async fn run_case(client: &Client, case: &ApiCase) -> anyhow::Result<Vec<ServerResponse>> {
    let collection = case.kind.path();
    let query = case.field_validation.query();
    let mut object = case.base.object.clone();
    object["metadata"]["name"] = case.name.clone().into();
    if case.verb == WriteVerb::Create {
        apply_mutation(&mut object, case);
        let response = send_with_retry(client, &format!("{collection}{query}"), &object, case).await?;
        let response = response.mask_generated_name(&object);
        let made = response.object.as_ref().and_then(|object| object["metadata"]["name"].as_str().map(str::to_owned));
        if let Some(name) = made {
            clean_up(client, case, &name).await?;
        }
        return Ok(vec![response]);
    }
    let mut responses = vec![send_with_retry(client, &collection, &object, case).await?];
    let path = format!("{collection}/{}", case.name);
    if let (Some(from), Some(mut object)) = (case.initial_status, last_object(&responses)) {
        object["status"] = case.base.statuses[from].clone();
        responses.push(send(client, Method::PUT, &format!("{path}/status"), render(&object)).await?);
    }
    if let Some(mut object) = last_object(&responses) {
        apply_mutation(&mut object, case);
        let target =
            if case.verb == WriteVerb::Status { format!("{path}/status{query}") } else { format!("{path}{query}") };
        responses.push(send(client, Method::PUT, &target, render(&object)).await?);
    }
    clean_up(client, case, &case.name).await?;
    Ok(responses)
}

fn last_object(responses: &[ServerResponse]) -> Option<Value> {
    responses.last().and_then(|response| response.object.clone())
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
    let mut response = send(client, Method::POST, path, render(object)).await?;
    for _ in 0..MAX_STALE_RETRIES {
        if !case.kind.sequential || !response.message.contains("is already marked as default") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        response = send(client, Method::POST, path, render(object)).await?;
    }
    Ok(response)
}

/// Namespaced objects have unique names and may stay. Cluster-scoped ones are deleted.
async fn clean_up(client: &Client, case: &ApiCase, name: &str) -> anyhow::Result<()> {
    if case.kind.sequential {
        send(client, Method::DELETE, &format!("{}/{name}", case.kind.path()), b"{}".to_vec()).await?;
    }
    Ok(())
}

/// Sends one request. A response of any code is a result. So is a connection that breaks twice at the same request: a
/// server that panics sends nothing else.
pub async fn send(client: &Client, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<ServerResponse> {
    send_accepting(client, method, path, body, "application/json").await
}

/// The same, with an `Accept` header.
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
                let message = format!("the connection was closed: {error:#}");
                return Ok(ServerResponse { message, ..ServerResponse::default() });
            }
            Err(_) => broken += 1,
            response => return response,
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
    fn only_a_generated_suffix_is_masked() {
        assert_eq!(
            mask_suffix("job \"Made_wc6xk\": \"Made_wc6xk\" no", "Made_"),
            "job \"Made_DRAWN\": \"Made_DRAWN\" no"
        );
        assert_eq!(mask_suffix("\"Made_\": no", "Made_"), "\"Made_\": no");
    }
}
