//! A planted defect: a backend that acknowledges a batch before it is durable. For the check that must detect such a loss.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use api::Revision;
use store::{Backend, BackendError, LogRecord, StoreKey, StoredObject};

/// Hands every batch to a thread and does not wait for it.
pub(crate) struct EarlyAckBackend {
    backend: Arc<Mutex<Box<dyn Backend>>>,
    batches: Sender<Vec<LogRecord>>,
}

impl EarlyAckBackend {
    /// Writes to `backend`, later.
    pub(crate) fn new(backend: Box<dyn Backend>) -> EarlyAckBackend {
        let backend = Arc::new(Mutex::new(backend));
        let (batches, queue) = channel::<Vec<LogRecord>>();
        let disk = backend.clone();
        std::thread::spawn(move || {
            for batch in queue {
                let mut backend = disk.lock().unwrap_or_else(PoisonError::into_inner);
                // It is not known here which records are current. Storing too many is correct too.
                if let Err(error) = backend.commit(&batch, &|_, _| true) {
                    tracing::error!("a write that was acknowledged early is lost: {error}");
                }
            }
        });
        EarlyAckBackend { backend, batches }
    }
}

impl Backend for EarlyAckBackend {
    fn scan(&mut self, each: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>) -> Result<Revision, BackendError> {
        self.backend.lock().unwrap_or_else(PoisonError::into_inner).scan(each)
    }

    fn commit(&mut self, batch: &[LogRecord], _: &dyn Fn(&StoreKey, Revision) -> bool) -> Result<(), BackendError> {
        self.batches.send(batch.to_vec()).map_err(|_| BackendError::Stopped)
    }
}
