//! Reconciles in the log: a tracing span with the ids of the object, and one form for failures that are retried.

use std::fmt::Display;

use kube::Error;
use tracing::Span;
use tracing::field::{self, Empty};
use types::views::MetaView;

use crate::failure::{is_already_exists, is_conflict, is_not_found, message};

/// The span of one reconcile, at debug level. `object` is `namespace/name`, or what else identifies the work of the
/// controller; `uid` is known where the key of the queue has it. [`record_observed`] or [`record_revision`] adds the
/// rest, once in each reconcile.
pub fn reconcile_span(controller: &str, kind: &str, object: impl Display, uid: Option<&str>) -> Span {
    tracing::debug_span!("reconcile", controller, kind, %object, uid, revision = Empty)
}

/// Adds uid and revision of the observed object to the span of the current reconcile.
pub fn record_observed(meta: &MetaView) {
    Span::current().record("uid", meta.uid.as_str());
    record_revision(meta);
}

/// The same for a reconcile whose span has the uid.
pub fn record_revision(meta: &MetaView) {
    Span::current().record("revision", field::display(meta.resource_version));
}

/// Logs a failed reconcile that is retried. A lost race is expected and logged at debug level.
pub fn log_retry(controller: &str, object: impl Display, error: &Error) {
    let cause = message(error);
    if is_lost_race(error) {
        tracing::debug!(controller, %object, cause, "lost a race; retrying");
    } else {
        tracing::warn!(controller, %object, cause, "reconcile failed; retrying");
    }
}

/// Whether another write came first: the object has changed or is gone, or its name is taken. The next attempt starts
/// from newer state.
pub fn is_lost_race(error: &Error) -> bool {
    is_conflict(error) || is_already_exists(error) || is_not_found(error)
}
