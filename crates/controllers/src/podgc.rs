//! Deletes pods that no other controller deletes: their node is gone or out of service, or too many have ended.
//!
//! In: the caches of pods and nodes.
//! Out: pods that have not ended are marked Failed, then all are deleted without grace.
//! Promises: a pod is lost only if its node was missing for a whole quarantine and the server does not have it either.
//! A pod's end is written before the pod is deleted, so that its Job counts it.
//! Never: removes finalizers; polls: it works when nodes and pods change.

pub mod run; // the loop: changes become tasks, tasks delete pods; read this first
pub mod decide; // which pods are deleted, and why
mod execute; // ends one pod

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use api::views::{NodeView, PodView};
use runtime::{Backoff, Cache};

pub use run::run;

use crate::Metrics;

/// What the pod garbage collector uses. `pods` is indexed by node.
pub struct PodGcContext {
    /// The API server.
    pub client: kube::Client,
    /// All pods.
    pub pods: Cache<PodView>,
    /// All nodes.
    pub nodes: Cache<NodeView>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub config: Config,
    /// Metrics.
    pub metrics: Metrics,
}

/// Settings of the pod garbage collector.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many ended pods are kept; zero or less: all.
    pub terminated_pod_threshold: i64,
    /// How long a node must be missing before its pods are lost.
    pub quarantine: Duration,
    /// How long ended pods are batched before they are counted.
    pub gc_period: Duration,
    /// Back-off after an error of the API server.
    pub retry: Backoff,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            terminated_pod_threshold: 12_500,
            quarantine: Duration::from_secs(40),
            gc_period: Duration::from_secs(20),
            retry: Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(60) },
        }
    }
}
