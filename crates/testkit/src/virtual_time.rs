//! The control plane on virtual time: a paused clock and an environment that follows from a seed.
//!
//! It runs Phalanx itself, not a model of it. The same seed and the same binary give the same bytes.

use std::future::Future;
use std::sync::Arc;

use api::{Clock, Random, Timestamp};
use controlplane::ControlPlaneEnvironment;
use runtime::TokioClock;
use store::{Committer, HistoryLimits, Store};

/// Runs `scenario` to its end on a paused clock, which advances only when every task is idle.
pub fn on_paused_clock<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a current-thread runtime needs no system resources").block_on(scenario)
}

/// Clock, randomness and an in-memory store. The clock starts at `origin`, and all randomness comes from `seed`. Call
/// it inside [`on_paused_clock`].
pub fn environment(seed: u64, origin: Timestamp, limits: HistoryLimits) -> ControlPlaneEnvironment {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(origin));
    let store = Store::in_memory(limits);
    ControlPlaneEnvironment {
        clock,
        random: Random::seeded(seed),
        committer: Committer::in_place(store.clone()),
        store,
    }
}
