//! A record of every request that writes, for whoever wants to keep it.

use std::sync::Arc;

use api::Timestamp;
use serde::Serialize;

/// One request that writes, after it was answered.
#[derive(Debug, Serialize)]
pub struct AuditEntry<'a> {
    /// When it was answered.
    pub time: Timestamp,
    /// Who asked.
    pub user: &'a str,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'a str,
    /// The path, without its query.
    pub path: &'a str,
    /// The status code of the answer.
    pub code: u16,
}

/// Who is told. It is called on the request's own task, so it must be quick.
pub type AuditSink = Arc<dyn Fn(&AuditEntry<'_>) + Send + Sync>;
