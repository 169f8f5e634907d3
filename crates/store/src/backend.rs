//! The interface to the disk: only what the store needs. A backend is opened by its own constructor, read once from
//! start to end, and then only appended to.

use std::error::Error;
use std::sync::Arc;

use types::Revision;

use crate::object::{Op, StoreKey, StoredObject};

/// One accepted write, as stored.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// Whether the key has an object afterwards.
    pub op: Op,
    /// The new state, or the last one for a delete. A delete that is read back has only key and revision.
    pub object: Arc<StoredObject>,
    /// The version it replaces; unset for a create, and for a record that is read back.
    pub previous: Option<Arc<StoredObject>>,
}

/// The free space of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free bytes.
    pub free_bytes: u64,
    /// Bytes that have to stay free, because deletes and checkpoints need space too.
    pub reserve_bytes: u64,
}

impl FreeSpace {
    /// No limit.
    pub const UNLIMITED: FreeSpace = FreeSpace { free_bytes: u64::MAX, reserve_bytes: 0 };

    /// Whether only the reserve is left.
    pub fn is_low(self) -> bool {
        self.free_bytes < self.reserve_bytes
    }
}

/// Stores records for the next start.
pub trait Backend: Send {
    /// Passes every stored record to `each` in order of revision. `each` returns the version that the record replaces.
    /// Returns the last committed revision, which may be larger than that of any record left.
    fn scan(&mut self, each: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>) -> Result<Revision, BackendError>;

    /// The free space. Called before every batch.
    fn free_space(&mut self) -> Result<FreeSpace, BackendError> {
        Ok(FreeSpace::UNLIMITED)
    }

    /// Stores `batch` entirely or not at all. When this returns, the records survive a crash.
    ///
    /// Records are in order of revision and follow the previous batch without a gap. `is_current` returns whether a
    /// key has exactly this version, apart from the batch. Records of other versions may be dropped.
    fn commit(
        &mut self,
        batch: &[LogRecord],
        is_current: &dyn Fn(&StoreKey, Revision) -> bool,
    ) -> Result<(), BackendError>;
}

/// A batch was not stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackendError {
    /// The backend failed. It is unknown whether the batch was stored, so a store accepts no write after this, and a
    /// server process exits: the next start reads what is on disk.
    #[error("the store's backend failed")]
    Fatal(#[source] Arc<dyn Error + Send + Sync>),
    /// There was no space for the batch. Nothing of it was stored; a later one may be.
    #[error("the store's backend has no space: {} bytes are free", .0.free_bytes)]
    Full(FreeSpace),
    /// The writer was stopped.
    #[error("the store is stopped")]
    Stopped,
}

impl BackendError {
    /// Wraps the cause.
    pub fn fatal(source: impl Error + Send + Sync + 'static) -> BackendError {
        BackendError::Fatal(Arc::new(source))
    }
}

/// Stores nothing beyond the process.
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
