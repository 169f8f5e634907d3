//! How writes reach the store: by a plain call, or through one writer thread.
//!
//! While the writer waits for the disk, requests queue up; all of them go to disk in the next commit. So more clients
//! make batches larger, not more numerous.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use types::Timestamp;

use crate::backend::BackendError;
use crate::commit::{ObjectWrite, WriteRefusal};
use crate::object::StoredObject;
use crate::store::Store;

/// The result of each write of a request, in order.
pub type WriteResults = Vec<Result<Arc<StoredObject>, WriteRefusal>>;

/// Requests in the writer's queue before callers have to wait.
const QUEUE_LENGTH: usize = 1024;

/// A batch ends with the write that brings it to this size. This limits what one commit writes to disk, and so the
/// space that must stay free for it.
const BATCH_BYTES: usize = 4 << 20;

/// Passes writes to a store; clones use the same store.
#[derive(Clone)]
pub struct Committer(CommitMode);

#[derive(Clone)]
enum CommitMode {
    InPlace(Store),
    OnThread(mpsc::Sender<WriterMessage>),
}

enum WriterMessage {
    Commit(CommitRequest),
    /// Commit everything sent before this message, then end.
    Stop,
}

struct CommitRequest {
    writes: Vec<ObjectWrite>,
    now: Timestamp,
    reply: oneshot::Sender<Result<WriteResults, BackendError>>,
}

impl Committer {
    /// Commits on the caller's task without awaiting anything, so a simulation stays deterministic.
    pub fn in_place(store: Store) -> Committer {
        Committer(CommitMode::InPlace(store))
    }

    /// Commits on its own thread, everything that is queued in one batch.
    ///
    /// When the backend fails, `on_fatal` is called before any write of the batch gets its result: the process can
    /// exit there. If it continues, this and all later writes get the error.
    pub fn on_thread(store: Store, on_fatal: impl FnOnce(&BackendError) + Send + 'static) -> (Committer, WriterThread) {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        let writer = WriterLoop { store, queue: receiver, on_fatal: Some(Box::new(on_fatal)) };
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer.run());
        let thread = thread.expect("the system can start a thread");
        (Committer(CommitMode::OnThread(sender.clone())), WriterThread { stop: sender, thread })
    }

    /// Validates and stores `writes`; returns when they survive a crash. See [`Store::commit`].
    ///
    /// Dropping the future does not cancel the writes.
    pub async fn commit(&self, writes: Vec<ObjectWrite>, now: Timestamp) -> Result<WriteResults, BackendError> {
        match &self.0 {
            CommitMode::InPlace(store) => store.commit(writes, now),
            CommitMode::OnThread(queue) => {
                let (reply, received) = oneshot::channel();
                let request = WriterMessage::Commit(CommitRequest { writes, now, reply });
                queue.send(request).await.map_err(|_| BackendError::Stopped)?;
                received.await.unwrap_or(Err(BackendError::Stopped))
            }
        }
    }
}

/// The thread of [`Committer::on_thread`]. It ends with [`WriterThread::join`], or when its last committer is dropped.
#[must_use = "a writer that is not joined may be cut short by the end of the process"]
pub struct WriterThread {
    stop: mpsc::Sender<WriterMessage>,
    thread: JoinHandle<()>,
}

impl WriterThread {
    /// Commits what was sent so far, then ends. Later writes get [`BackendError::Stopped`].
    pub fn join(self) {
        let mut stop = WriterMessage::Stop;
        // Not `blocking_send`, which must not be called on a runtime's thread. The writer empties the queue on its
        // own, so this loop ends.
        while let Err(mpsc::error::TrySendError::Full(again)) = self.stop.try_send(stop) {
            stop = again;
            std::thread::yield_now();
        }
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

type OnFatal = Box<dyn FnOnce(&BackendError) + Send>;

struct WriterLoop {
    store: Store,
    queue: mpsc::Receiver<WriterMessage>,
    /// Called once.
    on_fatal: Option<OnFatal>,
}

impl WriterLoop {
    fn run(mut self) {
        while let Some(message) = self.queue.blocking_recv() {
            let batch = self.collect_batch(message);
            self.commit(batch);
        }
    }

    /// The first request and all that are queued behind it.
    fn collect_batch(&mut self, first: WriterMessage) -> Vec<CommitRequest> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                WriterMessage::Commit(request) => {
                    bytes += request.writes.iter().map(|write| write.document.size()).sum::<usize>();
                    batch.push(request);
                }
                // Messages sent before are still received, later ones are not.
                WriterMessage::Stop => self.queue.close(),
            }
            next = if bytes < BATCH_BYTES { self.queue.try_recv().ok() } else { None };
        }
        batch
    }

    fn commit(&mut self, batch: Vec<CommitRequest>) {
        let Some(now) = batch.iter().map(|request| request.now).max() else { return };
        let mut writes = Vec::with_capacity(batch.iter().map(|request| request.writes.len()).sum());
        let mut waiting = Vec::with_capacity(batch.len());
        for request in batch {
            waiting.push((request.writes.len(), request.reply));
            writes.extend(request.writes);
        }
        let results = self.store.commit(writes, now);
        if let Err(error) = &results
            && let Some(on_fatal) = self.on_fatal.take()
        {
            on_fatal(error);
        }
        let mut results = results.map(Vec::into_iter);
        for (count, waiter) in waiting {
            let reply = results.as_mut().map(|results| results.take(count).collect()).map_err(|error| error.clone());
            // A caller that no longer waits does not need the result.
            let _ = waiter.send(reply);
        }
    }
}
