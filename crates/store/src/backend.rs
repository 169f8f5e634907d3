//! The seam to the disk: what a store needs from it, and nothing more. A backend is opened by its own constructor,
//! read once from end to end, and from then on only written.

use std::error::Error;
use std::sync::Arc;

use api::Revision;

use crate::object::{Op, Stored};

/// One accepted write, as it is kept.
#[derive(Clone, Debug)]
pub struct Record {
    /// Whether the key has an object afterwards.
    pub op: Op,
    /// The new state, or the last one for a delete.
    pub object: Arc<Stored>,
}

/// Keeps records for the next start.
pub trait Backend: Send {
    /// Hands every kept record to `each` in order of revision, and returns the last revision ever committed, which
    /// may be larger than that of any record left.
    fn scan(&mut self, each: &mut dyn FnMut(Record)) -> Result<Revision, BackendError>;

    /// Keeps `batch`, all of it or nothing. When this returns the records outlive the process.
    ///
    /// Records are in order of revision and follow those of the batch before without a gap.
    fn commit(&mut self, batch: &[Record]) -> Result<(), BackendError>;
}

/// The backend failed. Whether the batch at hand was kept is unknown, so a store takes no write after this.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the store's backend failed")]
pub struct BackendError(#[source] pub Arc<dyn Error + Send + Sync>);

impl BackendError {
    /// Wraps what went wrong.
    pub fn new(source: impl Error + Send + Sync + 'static) -> BackendError {
        BackendError(Arc::new(source))
    }
}

/// Keeps nothing beyond the process.
pub(crate) struct Memory;

impl Backend for Memory {
    fn scan(&mut self, _each: &mut dyn FnMut(Record)) -> Result<Revision, BackendError> {
        Ok(Revision::ZERO)
    }

    fn commit(&mut self, _batch: &[Record]) -> Result<(), BackendError> {
        Ok(())
    }
}
