//! Counts for PodDisruptionBudgets how many of their pods are healthy, and so how many may be evicted.
//!
//! In: the caches of budgets and pods.
//! Out: the status of each budget, and a Warning Event for one that cannot be computed.
//! Promises: a pod with an accepted eviction does not count as healthy, whatever its status; if it is not deleted within
//! two minutes, it counts again. A budget that cannot be computed allows nothing and reports why.
//! Never: evicts or deletes anything.

pub mod run; // the loop: changes to budgets, budgets to counts; read this first
pub mod decide; // the status a budget should have
mod execute; // writes it

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use api::views::{PodDisruptionBudgetView, PodView};
use runtime::{Backoff, Cache, Recorder};

pub use run::run;

use crate::Metrics;

/// How many budgets are reconciled concurrently.
const WORKERS: usize = 2;
const RETRY: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(60) };
/// How long changes of pods are batched before they are counted.
const BATCH_PERIOD: Duration = Duration::from_millis(100);

/// What the controller uses. `budgets` is indexed by namespace.
pub struct DisruptionContext {
    /// The API server.
    pub client: kube::Client,
    /// All budgets.
    pub budgets: Cache<PodDisruptionBudgetView>,
    /// All pods.
    pub pods: Cache<PodView>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Where Events go.
    pub recorder: Recorder,
    /// Metrics.
    pub metrics: Metrics,
}
