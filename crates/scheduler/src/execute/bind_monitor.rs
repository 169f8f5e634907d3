//! How long the oldest bind has been in flight, for health checks of the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Written by the scheduler, read by health checks. Clones share the value.
#[derive(Clone, Debug, Default)]
pub struct BindMonitor(Arc<Mutex<Option<Instant>>>);

impl BindMonitor {
    /// How long the oldest bind has been without a result; `None` while none is in flight.
    pub fn oldest(&self) -> Option<Duration> {
        self.lock().map(|since| since.elapsed())
    }

    /// The scheduler has ended, and its binds with it.
    pub fn clear(&self) {
        self.set(None);
    }

    pub(crate) fn set(&self, since: Option<Instant>) {
        *self.lock() = since;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
