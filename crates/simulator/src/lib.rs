//! The control plane on virtual time.
//!
//! In: a seed, a configuration and what to do. Out: what it returns, after as much virtual time as it takes.
//! Promises: same seed, same binary, same bytes; virtual time passes only when nothing is left to do.
//! Never: a model of Phalanx; it is Phalanx.

use std::future::Future;
use std::sync::Arc;

use api::{Clock, Random, Timestamp};
use controlplane::ControlPlaneEnvironment;
use runtime::TokioClock;
use store::{Committer, HistoryLimits, Store};

/// Runs `scenario` to its end on a clock that jumps whenever nothing is left to do.
pub fn on_virtual_time<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a current-thread runtime needs nothing from the system").block_on(scenario)
}

/// A world that follows from `seed` and begins at `origin`. Call it inside [`on_virtual_time`].
pub fn world(seed: u64, origin: Timestamp, limits: HistoryLimits) -> ControlPlaneEnvironment {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(origin));
    let store = Store::in_memory(limits);
    ControlPlaneEnvironment {
        clock,
        random: Random::seeded(seed),
        committer: Committer::in_place(store.clone()),
        store,
    }
}
