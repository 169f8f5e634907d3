//! The seam to the disk: what a store needs from it, and nothing more. A backend is opened by its own constructor,
//! read once from end to end, and from then on only written.

use std::error::Error;
use std::sync::Arc;

use types::Revision;

use crate::object::{Op, StoreKey, StoredObject};

/// One accepted write, as it is kept.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// Whether the key has an object afterwards.
    pub op: Op,
    /// The new state, or the last one for a delete. Of a delete that is read back only key and revision are left.
    pub object: Arc<StoredObject>,
    /// What it replaces; unset when nothing, and when it is read back.
    pub previous: Option<Arc<StoredObject>>,
}

/// How much room a backend has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// What is free.
    pub free_bytes: u64,
    /// What has to stay free: deleting and tidying up need room too.
    pub reserve_bytes: u64,
}

impl FreeSpace {
    /// No end in sight.
    pub const UNLIMITED: FreeSpace = FreeSpace { free_bytes: u64::MAX, reserve_bytes: 0 };

    /// Whether only the reserve is left.
    pub fn is_low(self) -> bool {
        self.free_bytes < self.reserve_bytes
    }
}

/// Keeps records for the next start.
pub trait Backend: Send {
    /// Hands every kept record to `each` in order of revision, which returns what the record replaces, and returns
    /// the last revision ever committed, which may be larger than that of any record left.
    fn scan(&mut self, each: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>) -> Result<Revision, BackendError>;

    /// How much room there is. Asked before every batch.
    fn free_space(&mut self) -> Result<FreeSpace, BackendError> {
        Ok(FreeSpace::UNLIMITED)
    }

    /// Keeps `batch`, all of it or nothing. When this returns the records outlive the process.
    ///
    /// Records are in order of revision and follow those of the batch before without a gap. `is_current` tells whether
    /// a key has exactly this version, the batch aside: whatever has not may be forgotten.
    fn commit(
        &mut self,
        batch: &[LogRecord],
        is_current: &dyn Fn(&StoreKey, Revision) -> bool,
    ) -> Result<(), BackendError>;
}

/// A batch was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackendError {
    /// The backend failed. Whether the batch at hand was kept is unknown, so a store takes no write after this, and a
    /// process that serves others ends: the next start reads what is really there.
    #[error("the store's backend failed")]
    Fatal(#[source] Arc<dyn Error + Send + Sync>),
    /// There was no room for the batch. Nothing of it was kept, and a later one may be.
    #[error("the store's backend has no room: {} bytes are free", .0.free_bytes)]
    Full(FreeSpace),
    /// The writer has ended in good order.
    #[error("the store is stopped")]
    Stopped,
}

impl BackendError {
    /// Wraps what went wrong.
    pub fn fatal(source: impl Error + Send + Sync + 'static) -> BackendError {
        BackendError::Fatal(Arc::new(source))
    }
}

/// Keeps nothing beyond the process.
pub(crate) struct MemoryBackend;

impl Backend for MemoryBackend {
    fn scan(
        &mut self,
        _each: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>,
    ) -> Result<Revision, BackendError> {
        Ok(Revision::ZERO)
    }

    fn commit(&mut self, _: &[LogRecord], _: &dyn Fn(&StoreKey, Revision) -> bool) -> Result<(), BackendError> {
        Ok(())
    }
}
