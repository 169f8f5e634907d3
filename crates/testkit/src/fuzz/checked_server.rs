//! An in-memory server that is called as the network edge calls it. Every response is checked.

use std::sync::Arc;

use api::gates::Gates;
use api::{Clock, Random, Timestamp};
use apiserver::{ApiServer, Config};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use store::{Committer, HistoryLimits, Store};
use tower::ServiceExt;

/// The media type of most bodies.
pub(super) const JSON: &str = "application/json";

/// A stopped clock, so that equal writes are equal bytes.
struct FrozenClock;

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        "2030-01-01T00:00:00Z".parse().expect("a valid time")
    }
}

/// A server whose every response is checked.
pub(super) struct CheckedServer {
    pub inner: ApiServer,
}

/// A response that passed the checks.
#[derive(Debug, PartialEq)]
pub(super) struct CheckedResponse {
    pub code: StatusCode,
    pub bytes: Bytes,
    pub value: Value,
}

impl CheckedServer {
    /// A new server with only the initial namespaces.
    pub fn new(limits: HistoryLimits) -> CheckedServer {
        let store = Store::in_memory(limits);
        let committer = Committer::in_place(store.clone());
        let random = Random::seeded(1);
        let config = Config { store, committer, clock: Arc::new(FrozenClock), random, gates: Gates::default() };
        CheckedServer { inner: ApiServer::new(config).expect("an in-memory store accepts the initial objects") }
    }

    /// Sends a request and reads the whole response.
    pub async fn request(&self, method: &str, path: &str, media_type: &str, body: impl Into<Bytes>) -> CheckedResponse {
        self.send(method, path, [(header::CONTENT_TYPE, media_type)], body.into()).await
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> CheckedResponse {
        self.send("GET", path, [], Bytes::new()).await
    }

    /// The same as a table.
    pub async fn get_table(&self, path: &str) -> CheckedResponse {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        self.send("GET", path, [(header::ACCEPT, accept)], Bytes::new()).await
    }

    async fn send<const N: usize>(
        &self,
        method: &str,
        path: &str,
        headers: [(header::HeaderName, &str); N],
        body: Bytes,
    ) -> CheckedResponse {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let response = self.inner.clone().oneshot(request).await.expect("the server always responds");
        let code = response.status();
        let bytes = response.into_body().collect().await.expect("a body in memory can be read").to_bytes();
        CheckedResponse::validate(code, bytes).unwrap_or_else(|reason| panic!("{method} {path}: {code}: {reason}"))
    }
}

impl CheckedResponse {
    /// Every response is JSON: the result, or a `Status` that states the client's error.
    fn validate(code: StatusCode, bytes: Bytes) -> Result<CheckedResponse, String> {
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| format!("not JSON: {error}"))?;
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        if code.is_server_error() || !(code.is_success() || code.is_client_error()) {
            return Err(format!("neither success nor a client error: {}", text()));
        }
        let has_reason = value["kind"] == "Status"
            && value["code"] == code.as_u16()
            && value["reason"].as_str().is_some_and(|reason| !reason.is_empty())
            && value["message"].as_str().is_some_and(|message| !message.is_empty());
        if code.is_client_error() && !has_reason {
            return Err(format!("an error without a reason: {}", text()));
        }
        Ok(CheckedResponse { code, bytes, value })
    }

    /// A string in the response; empty if it is missing.
    pub fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Panics unless the request succeeded.
    pub fn expect_success(self, what: &str) -> CheckedResponse {
        assert!(self.code.is_success(), "{what}: {} {}", self.code, self.value);
        self
    }
}

/// Encodes everything but letters and digits as `%41`, so that any text can be part of a path or a query.
pub(super) fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::{CheckedResponse, StatusCode};

    #[test]
    fn a_server_error_or_a_refusal_without_a_reason_is_a_finding() {
        for (code, body, want) in [
            (201, r#"{"kind":"Pod"}"#, true),
            (400, r#"{"kind":"Status","code":400,"reason":"BadRequest","message":"no"}"#, true),
            (400, r#"{"kind":"Status","code":422,"reason":"BadRequest","message":"no"}"#, false),
            (400, r#"{"kind":"Status","code":400,"reason":"BadRequest","message":""}"#, false),
            (400, r#"{"kind":"Pod"}"#, false),
            (500, r#"{"kind":"Status","code":500,"reason":"InternalError","message":"oh"}"#, false),
            (200, "{", false),
        ] {
            let code = StatusCode::from_u16(code).expect("a valid status code");
            assert_eq!(CheckedResponse::validate(code, body.into()).is_ok(), want, "{code} {body}");
        }
    }
}
