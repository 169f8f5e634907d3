//! Error responses in place of the server's, each with its `Status`. They do not depend on the content of the request.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::observed_request::ObservedRequest;

/// An error that does not depend on the content of the request: the same request may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedStatus {
    /// 403: the user lacks the permission.
    Forbidden,
    /// 409: another client was faster.
    Conflict,
    /// 410: the revision is compacted. The client must list again.
    Expired,
    /// 429: the server is busy.
    TooManyRequests {
        /// The value of `Retry-After`.
        retry_after_seconds: u32,
    },
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 504: the request timed out; it may have been applied.
    Timeout,
}

impl InjectedStatus {
    /// The whole response to `request`.
    pub(super) fn response(self, request: &ObservedRequest) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.status(request).to_string()));
        *response.status_mut() = self.code();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let InjectedStatus::TooManyRequests { retry_after_seconds } = self {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
        }
        response
    }

    /// The `Status` object.
    pub(super) fn status(self, request: &ObservedRequest) -> Value {
        let (group, plural) = request.resource.split_once('/').unwrap_or(("", &request.resource));
        let mut details = json!({"name": request.name, "group": group, "kind": plural});
        if let InjectedStatus::TooManyRequests { retry_after_seconds } = self {
            details["retryAfterSeconds"] = retry_after_seconds.into();
        }
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message(plural, &request.name), "reason": self.reason(),
            "details": details, "code": self.code().as_u16(),
        })
    }

    fn code(self) -> StatusCode {
        match self {
            InjectedStatus::Forbidden => StatusCode::FORBIDDEN,
            InjectedStatus::Conflict => StatusCode::CONFLICT,
            InjectedStatus::Expired => StatusCode::GONE,
            InjectedStatus::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            InjectedStatus::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            InjectedStatus::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            InjectedStatus::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            InjectedStatus::Forbidden => "Forbidden",
            InjectedStatus::Conflict => "Conflict",
            InjectedStatus::Expired => "Expired",
            InjectedStatus::TooManyRequests { .. } => "TooManyRequests",
            InjectedStatus::InternalError => "InternalError",
            InjectedStatus::Unavailable => "ServiceUnavailable",
            InjectedStatus::Timeout => "Timeout",
        }
    }

    /// Ends in `(injected)`, so that a reader of a log does not look for the fault in the server.
    fn message(self, plural: &str, name: &str) -> String {
        match self {
            InjectedStatus::Forbidden => format!("{plural} \"{name}\" is forbidden (injected)"),
            InjectedStatus::Conflict => {
                format!("Operation cannot be fulfilled on {plural} \"{name}\": the object has been modified (injected)")
            }
            InjectedStatus::Expired => "too old resource version (injected)".to_owned(),
            InjectedStatus::TooManyRequests { .. } => "too many requests, please try again later (injected)".to_owned(),
            InjectedStatus::InternalError => "internal error (injected)".to_owned(),
            InjectedStatus::Unavailable => "the server is currently unable to handle the request (injected)".to_owned(),
            InjectedStatus::Timeout => "request did not complete within the allotted timeout (injected)".to_owned(),
        }
    }
}
