//! Empties namespaces that are deleted, then lets them go.
//!
//! In: the cache of namespaces; for one that is being deleted, whatever kinds the server says it has.
//! Out: deletes of everything in it, pods first; conditions that say what is left; the finalizer `kubernetes` taken off
//! `spec.finalizers`.
//! Promises: a namespace goes only when nothing was found in it after it had been closed for a while. All state is in
//! the API, so a restart resumes.
//! Never: touches a namespace that nobody deleted; takes finalizers off what is in it.

pub mod run; // the loop: a deleted namespace becomes looks at it; read this first
pub mod kinds; // which kinds live in namespaces, by discovery
pub mod content; // deletes what is in a namespace, and counts what is left
pub mod decide; // what is known of it → conditions, and what to do next

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use api::views::NamespaceView;
use runtime::{Backoff, Cache};

pub use run::run;

use crate::Metrics;

/// What the controller is made of.
pub struct NamespaceContext {
    /// The API server.
    pub client: kube::Client,
    /// All namespaces.
    pub namespaces: Cache<NamespaceView>,
    /// The time that objects carry.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub config: Config,
    /// What is counted.
    pub metrics: Metrics,
}

/// Settings of the namespace controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many namespaces are worked on side by side.
    pub workers: usize,
    /// The least time from a namespace's deletion to its end. A write that was let in just before may still be on its
    /// way; the time that objects carry has no fractions of a second.
    // Upstream: 5 s before it begins at all.
    pub min_termination: Duration,
    /// The wait between two looks at what is left.
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
