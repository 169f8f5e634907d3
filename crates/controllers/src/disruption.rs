//! Counts for PodDisruptionBudgets how many of their pods are healthy, and so how many may be evicted.
//!
//! In: the caches of budgets and pods.
//! Out: the status of each budget, and a Warning Event for one that cannot be computed.
//! Promises: a pod whose eviction the server has taken in does not count as healthy, however it looks; a pod that was to
//! go and is still there after two minutes counts again. A budget that cannot be counted for allows nothing and says why.
//! Never: evicts or deletes anything.

pub mod run; // the loop: changes to budgets, budgets to counts; read this first
pub mod decide; // how a budget stands, from its pods
mod execute; // writes it down

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use api::views::{PodDisruptionBudgetView, PodView};
use runtime::{Backoff, Cache, Recorder};

pub use run::run;

use crate::Metrics;

/// How many budgets are worked on side by side.
const WORKERS: usize = 2;
const RETRY: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(60) };
/// How long changes of pods gather before they are counted.
const BATCH_PERIOD: Duration = Duration::from_millis(100);

/// What the controller is made of. `budgets` is indexed by namespace.
pub struct DisruptionContext {
    /// The API server.
    pub client: kube::Client,
    /// All budgets.
    pub budgets: Cache<PodDisruptionBudgetView>,
    /// All pods.
    pub pods: Cache<PodView>,
    /// The time that objects carry.
    pub clock: Arc<dyn Clock>,
    /// Takes Events.
    pub recorder: Recorder,
    /// What is counted.
    pub metrics: Metrics,
}
