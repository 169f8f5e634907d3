//! Wall time on tokio's clock.

use api::{Clock, Timestamp};
use tokio::time::Instant;

/// Tells the time as an origin plus what tokio's clock has counted since, so that objects' times and sleeps agree:
/// on the paused clock both jump together.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Timestamp,
    started: Instant,
}

impl TokioClock {
    /// A clock that shows `origin` now. Needs a tokio runtime.
    pub fn starting_at(origin: Timestamp) -> TokioClock {
        TokioClock { origin, started: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.origin + self.started.elapsed()
    }
}
