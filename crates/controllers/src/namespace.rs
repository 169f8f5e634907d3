//! The namespace controller: deletes the content of deleted namespaces, then finalizes them.
//!
//! In: the cache of namespaces; for one that is being deleted, all namespaced kinds of the server.
//! Out: deletes of everything in it, pods first; conditions that report what remains; the finalizer `kubernetes` removed
//! from `spec.finalizers`.
//! Promises: a namespace is finalized only if nothing is in it some time after its deletion started. All state is in the
//! API, so a restart resumes.
//! Never: writes a namespace that is not being deleted; removes finalizers of objects in it.

pub mod run; // the loop: a deleted namespace is reconciled until it is empty; read this first
pub mod kinds; // the namespaced kinds, by discovery
pub mod content; // deletes the objects in a namespace, and counts what remains
pub mod decide; // the conditions it should have, and what to do next

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use api::views::NamespaceView;
use runtime::{Backoff, Cache};

pub use run::run;

use crate::Metrics;

/// What the controller uses.
pub struct NamespaceContext {
    /// The API server.
    pub client: kube::Client,
    /// All namespaces.
    pub namespaces: Cache<NamespaceView>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub config: Config,
    /// Metrics.
    pub metrics: Metrics,
}

/// Settings of the namespace controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many namespaces are reconciled concurrently.
    pub workers: usize,
    /// The least time from a namespace's deletion to its finalization. A create that was admitted just before may still be
    /// in flight, and timestamps have whole seconds.
    // Upstream: waits 5 s before it starts to delete.
    pub min_termination: Duration,
    /// The wait between two reconciles while objects remain.
    pub recheck: Backoff,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            workers: 10,
            min_termination: Duration::from_secs(2),
            recheck: Backoff { initial: Duration::from_millis(250), max: Duration::from_secs(5) },
        }
    }
}
