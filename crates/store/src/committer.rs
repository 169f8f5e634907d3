//! How writes reach the store: by a plain call, or by one thread that commits for everybody.
//!
//! While the writer waits for the disk, requests queue up; whatever has queued up then goes to the disk in one go. So
//! the number of clients raises the size of a batch, not the number of times the disk is waited for.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use types::Timestamp;

use crate::backend::BackendError;
use crate::commit::{ObjectWrite, WriteRefusal};
use crate::object::StoredObject;
use crate::store::Store;

/// What became of each write of a request, in order.
pub type WriteResults = Vec<Result<Arc<StoredObject>, WriteRefusal>>;

/// Requests that wait for the writer before a caller has to wait for room in the queue.
const QUEUE_LENGTH: usize = 1024;

/// A batch ends with the write that brings it to this size. It bounds what one commit asks of the disk, and so how much
/// room must be kept free for it.
const BATCH_BYTES: usize = 4 << 20;

/// Hands writes to a store; clones hand them to the same one.
#[derive(Clone)]
pub struct Committer(CommitMode);

#[derive(Clone)]
enum CommitMode {
    InPlace(Store),
    OnThread(mpsc::Sender<WriterMessage>),
}

enum WriterMessage {
    Commit(CommitRequest),
    /// Commit what was sent before this, then end.
    Stop,
}

struct CommitRequest {
    writes: Vec<ObjectWrite>,
    now: Timestamp,
    reply: oneshot::Sender<Result<WriteResults, BackendError>>,
}

impl Committer {
    /// Commits in the caller's own time: nothing is awaited, so a simulation stays in step.
    pub fn in_place(store: Store) -> Committer {
        Committer(CommitMode::InPlace(store))
    }

    /// Commits on a thread of its own, everything that is waiting in one go.
    ///
    /// When the backend fails, `on_fatal` is called before any of the writes at hand is answered: the process may end
    /// there. If it goes on, this and all later writes are answered with the error.
    pub fn on_thread(store: Store, on_fatal: impl FnOnce(&BackendError) + Send + 'static) -> (Committer, WriterThread) {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        let writer = WriterLoop { store, queue: receiver, on_fatal: Some(Box::new(on_fatal)) };
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer.run());
        let thread = thread.expect("the system has room for one more thread");
        (Committer(CommitMode::OnThread(sender.clone())), WriterThread { stop: sender, thread })
    }

    /// Has `writes` judged and kept; answers when they outlive the process. See [`Store::commit`].
    ///
    /// Dropping the future does not take the writes back.
    pub async fn commit(&self, writes: Vec<ObjectWrite>, now: Timestamp) -> Result<WriteResults, BackendError> {
        match &self.0 {
            CommitMode::InPlace(store) => store.commit(writes, now),
            CommitMode::OnThread(queue) => {
                let (answer, answered) = oneshot::channel();
                let request = WriterMessage::Commit(CommitRequest { writes, now, reply: answer });
                queue.send(request).await.map_err(|_| BackendError::Stopped)?;
                answered.await.unwrap_or(Err(BackendError::Stopped))
            }
        }
    }
}

/// The thread behind [`Committer::on_thread`]. It ends with [`WriterThread::join`]; dropped, with its last
/// committer.
#[must_use = "a writer that is not joined may be cut short by the end of the process"]
pub struct WriterThread {
    stop: mpsc::Sender<WriterMessage>,
    thread: JoinHandle<()>,
}

impl WriterThread {
    /// Commits what was sent so far, then ends. Later writes are answered with [`BackendError::Stopped`].
    pub fn join(self) {
        let mut stop = WriterMessage::Stop;
        // Not `blocking_send`, which may not be called on a runtime's thread. The queue empties without the caller's
        // help, so this ends.
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

    /// The first request and whatever is waiting behind it.
    fn collect_batch(&mut self, first: WriterMessage) -> Vec<CommitRequest> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                WriterMessage::Commit(request) => {
                    bytes += request.writes.iter().map(|write| write.document.size()).sum::<usize>();
                    batch.push(request);
                }
                // What was sent before is still received; what is sent from now on is not.
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
        let answers = self.store.commit(writes, now);
        if let Err(error) = &answers
            && let Some(on_fatal) = self.on_fatal.take()
        {
            on_fatal(error);
        }
        let mut answers = answers.map(Vec::into_iter);
        for (count, waiter) in waiting {
            let answer = answers.as_mut().map(|answers| answers.take(count).collect()).map_err(|error| error.clone());
            // Whoever no longer waits does not need the answer.
            let _ = waiter.send(answer);
        }
    }
}
