//! What every control loop stands on: caches, queues, back-off, requests, events.
//!
//! In: a `kube::Client`, a clock, a generator of randomness.
//! Out: ordered caches with change logs, keys to work on in order, answers to writes, Events.
//! Promises: same input, same order. A cache that has reached a revision shows every write up to it.
//! Never: knows a kind, spawns a task, reads the system's clock.

pub mod informer; // the shared cache of one kind, and cursors into its changes; read this first
pub mod list_watch; // keeps a cache up to date: list, watch, fold
pub mod reachability; // whether the server answers, told once
mod reconnect; // a client that can leave dead connections
pub mod discovery; // what a server says it serves
pub mod capabilities; // which kinds the server has
mod line_splitter; // cuts a watch's bytes into lines
pub mod queue; // which key to work on next
pub mod queue_metrics; // what queues count
pub mod reconcile_span; // reconciles in the log
pub mod backoff; // how long to wait after a failure
pub mod request; // writes whose answers are read for metadata only
pub mod failure; // what an error of the API server asks of its caller
pub mod recorder; // Events, written behind everything else
pub mod election; // which of several alike processes does the work
pub mod clock; // wall time on tokio's clock

pub use backoff::Backoff;
pub use capabilities::{Capabilities, ServedKinds};
pub use clock::{TokioClock, wait_for_clock_step};
pub use failure::{
    is_already_exists, is_conflict, is_expired, is_namespace_terminating, is_not_found, is_retriable, is_uncertain,
};
pub use informer::{Cache, CacheChange, Cursor};
pub use list_watch::{ListWatchConfig, list_and_watch};
pub use queue::{WorkQueue, WorkResult};
pub use queue_metrics::{QueueCounts, QueueMetrics};
pub use reachability::Reachability;
pub use reconcile_span::{is_lost_race, log_retry, reconcile_span};
pub use reconnect::reconnecting;
pub use recorder::{EventKind, ObjectRef, Pace, Recorder};
pub use request::{PatchKind, WriteResponse};
