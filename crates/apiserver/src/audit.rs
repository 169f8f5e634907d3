//! The audit log: a record of every request that writes.

use std::sync::Arc;

use api::Timestamp;
use serde::Serialize;

/// One request that writes, with its result.
#[derive(Debug, Serialize)]
pub struct AuditEntry<'a> {
    /// When the response was ready.
    pub time: Timestamp,
    /// The user.
    pub user: &'a str,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'a str,
    /// The path, without its query.
    pub path: &'a str,
    /// The status code of the response.
    pub code: u16,
}

/// Receives the entries. It is called on the request's own task, so it must be quick.
pub type AuditSink = Arc<dyn Fn(&AuditEntry<'_>) + Send + Sync>;
