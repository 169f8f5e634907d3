//! The seam to the core.
//!
//! The core is called in place: in simulation nothing may wait for another thread (design: section 2). Nothing outside
//! this file holds a `Core`, so that it can move to a thread of its own where that pays.

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use scheduler_core::{Change, Config, Core, Decision, Outcome};

/// The core and the clock that tells it the time.
pub(crate) struct Decide {
    core: Core,
    clock: Arc<dyn Clock>,
}

impl Decide {
    pub(crate) fn new(config: Config, clock: Arc<dyn Clock>) -> Decide {
        Decide { core: Core::new(config), clock }
    }

    /// Tells the core what has changed.
    pub(crate) fn observe(&mut self, change: Change) {
        self.core.observe(change);
    }

    /// Tells the core what became of a bind.
    pub(crate) fn settled(&mut self, outcome: Outcome) {
        self.core.settled(outcome, self.clock.now());
    }

    /// The next decision, if there is one to make now.
    pub(crate) fn next(&mut self) -> Option<Decision> {
        self.core.next(self.clock.now())
    }

    /// How long until there may be one without a change.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let at = self.core.next_at()?;
        Some(Duration::try_from(at.duration_since(self.clock.now())).unwrap_or(Duration::ZERO))
    }
}
