//! How long the oldest bind has been under way, for those who look after the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Told by the scheduler, read by others. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct BindMonitor(Arc<Mutex<Option<Instant>>>);

impl BindMonitor {
    /// How long the server has owed a clear word about the oldest bind; `None` while none is under way.
    pub fn oldest(&self) -> Option<Duration> {
        self.lock().map(|since| since.elapsed())
    }

    /// The scheduler was ended, and its binds with it.
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
