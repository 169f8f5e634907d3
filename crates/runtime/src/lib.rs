//! What every control loop uses: caches, queues, backoff, requests, Events.
//!
//! In: a `kube::Client`, a clock, a random generator.
//! Out: ordered caches with change logs, keys to work on in order, results of writes, Events.
//! Promises: same input, same order. A cache that has reached a revision contains every write up to it.
//! Never: knows a kind but Leases and Events, spawns a task, reads the system clock.

pub mod informer; // the shared cache of one kind, and cursors into its changes; read this first
pub mod list_watch; // keeps a cache up to date: list, watch, apply
pub mod reachability; // whether the server responds
mod reconnect; // a client that can abandon dead connections
pub mod discovery; // discovery documents of a server
pub mod capabilities; // which kinds the server has
pub mod queue; // which key to work on next
pub mod reconcile_span; // reconciles in the log
pub mod backoff; // how long to wait after a failure
pub mod request; // writes of whose responses only the metadata is read
pub mod failure; // what the caller must do about an error of the API server
pub mod recorder; // Events, written after all other requests
pub mod election; // leader election
pub mod clock; // wall time on tokio's clock

pub use backoff::Backoff;
pub use capabilities::{Capabilities, ServedKinds};
pub use clock::{TokioClock, wait_for_clock_step};
pub use failure::{
    is_already_exists, is_conflict, is_expired, is_namespace_terminating, is_not_found, is_retriable, is_uncertain,
};
pub use informer::{Cache, CacheChange, Cursor};
pub use list_watch::{ListWatchConfig, list_and_watch};
pub use queue::metrics::{QueueCounts, QueueMetrics};
pub use queue::{WorkQueue, WorkResult};
pub use reachability::Reachability;
pub use reconcile_span::{is_lost_race, log_retry, reconcile_span, record_observed, record_revision};
pub use reconnect::reconnecting;
pub use recorder::{EventKind, ObjectRef, Pace, Recorder};
pub use request::{PatchKind, WriteResponse};
