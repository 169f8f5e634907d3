//! Failed requests of the query API, with a code for programs.

use serde::{Deserialize, Serialize};

/// Response to a request that failed: a Kubernetes `Status`, so that kubectl and client libraries show the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorResponse {
    /// `v1`.
    pub api_version: String,
    /// `Status`.
    pub kind: String,
    /// `Failure`.
    pub status: String,
    /// What is wrong, for people.
    pub message: String,
    /// What is wrong, for programs.
    pub reason: QueryErrorCode,
    /// The HTTP status code.
    pub code: u16,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryErrorCode {
    /// A parameter is missing or not valid.
    InvalidRequest,
    /// The scheduler does not know the object, or no unit of it.
    UnitNotFound,
    /// No scheduler runs in this process now; another process may hold the Lease.
    NoScheduler,
}

impl QueryErrorCode {
    /// All codes.
    pub const ALL: [QueryErrorCode; 3] =
        [QueryErrorCode::InvalidRequest, QueryErrorCode::UnitNotFound, QueryErrorCode::NoScheduler];

    /// The code with this name, which is the `reason` of a `Status`.
    pub fn from_reason(reason: &str) -> Option<QueryErrorCode> {
        QueryErrorCode::ALL.into_iter().find(|code| code.name() == reason)
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            QueryErrorCode::InvalidRequest => "InvalidRequest",
            QueryErrorCode::UnitNotFound => "UnitNotFound",
            QueryErrorCode::NoScheduler => "NoScheduler",
        }
    }

    /// The HTTP status code.
    pub fn http_status(self) -> u16 {
        match self {
            QueryErrorCode::InvalidRequest => 400,
            QueryErrorCode::UnitNotFound => 404,
            QueryErrorCode::NoScheduler => 503,
        }
    }
}

impl ErrorResponse {
    /// The response for `reason`.
    pub fn new(reason: QueryErrorCode, message: impl Into<String>) -> ErrorResponse {
        ErrorResponse {
            api_version: "v1".to_owned(),
            kind: "Status".to_owned(),
            status: "Failure".to_owned(),
            message: message.into(),
            reason,
            code: reason.http_status(),
        }
    }
}
