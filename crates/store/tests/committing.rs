//! The writer thread: queued writes are committed in one batch, a failure is reported first, a stop loses nothing.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use phalanx_store::{
    Backend, BackendError, Committer, HistoryLimits, LogRecord, ObjectWrite, Precondition, Store, StoreKey,
    StoredObject, WriteRefusal,
};
use types::Revision;
use world::{at, pod, put};

/// Reports when a commit has started, and ends it with the result that the test sends.
struct GatedBackend {
    begun: Sender<usize>,
    end: Receiver<Result<(), BackendError>>,
}

impl Backend for GatedBackend {
    fn scan(&mut self, _: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>) -> Result<Revision, BackendError> {
        Ok(Revision::ZERO)
    }

    fn commit(&mut self, batch: &[LogRecord], _: &dyn Fn(&StoreKey, Revision) -> bool) -> Result<(), BackendError> {
        self.begun.send(batch.len()).unwrap();
        self.end.recv().unwrap()
    }
}

fn gated_store() -> (Store, Receiver<usize>, Sender<Result<(), BackendError>>) {
    let ((begun, sizes), (ends, end)) = (channel(), channel());
    (Store::open(Box::new(GatedBackend { begun, end }), HistoryLimits::default()).unwrap(), sizes, ends)
}

fn create(name: &str) -> Vec<ObjectWrite> {
    vec![put(pod(name), Precondition::Absent, 0)]
}

#[tokio::test]
async fn writes_that_wait_for_the_disk_are_committed_in_one_batch() {
    let (store, sizes, ends) = gated_store();
    let (committer, writer) = Committer::on_thread(store.clone(), |_| {});
    let mut first = Box::pin(committer.commit(create("first"), at(0)));
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(sizes.recv().unwrap(), 1);

    // The last one creates a name that another write of the same batch takes first.
    let names = ["a", "b", "c", "d", "a"];
    let mut queued = Box::pin(join_all(names.map(|name| committer.commit(create(name), at(0)))));
    assert!(futures::poll!(&mut queued).is_pending());
    assert_eq!(store.revision(), Revision::ZERO, "nothing is visible before it is stored");
    ends.send(Ok(())).unwrap();
    assert_eq!(sizes.recv().unwrap(), 4);
    ends.send(Ok(())).unwrap();
    assert_eq!(first.await.unwrap()[0].as_ref().unwrap().revision, Revision(1));
    let results: Vec<Result<Revision, bool>> = queued
        .await
        .into_iter()
        .map(|result| result.unwrap().remove(0))
        .map(|result| {
            result.map(|object| object.revision).map_err(|refused| matches!(refused, WriteRefusal::Exists(_)))
        })
        .collect();
    assert_eq!(results, [Ok(Revision(2)), Ok(Revision(3)), Ok(Revision(4)), Ok(Revision(5)), Err(true)]);
    writer.join();
}

#[tokio::test]
async fn a_failure_is_reported_once_and_before_any_result() {
    let (store, sizes, ends) = gated_store();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let report = Arc::clone(&reported);
    let (committer, writer) = Committer::on_thread(store, move |error| report.lock().unwrap().push(error.to_string()));
    ends.send(Err(BackendError::fatal(std::io::Error::other("the disk is gone")))).unwrap();
    assert!(committer.commit(create("a"), at(0)).await.is_err());
    assert_eq!(sizes.recv().unwrap(), 1);
    assert_eq!(*reported.lock().unwrap(), ["the store's backend failed"]);
    assert!(committer.commit(create("b"), at(0)).await.is_err());
    assert_eq!(reported.lock().unwrap().len(), 1);
    writer.join();
}

#[tokio::test]
async fn a_stop_commits_what_was_sent_and_nothing_after() {
    let (store, _sizes, ends) = gated_store();
    let (committer, writer) = Committer::on_thread(store.clone(), |_| {});
    let mut sent = Box::pin(committer.commit(create("a"), at(0)));
    assert!(futures::poll!(&mut sent).is_pending());
    ends.send(Ok(())).unwrap();
    writer.join();
    assert!(sent.await.unwrap()[0].is_ok());
    assert!(matches!(committer.commit(create("b"), at(0)).await, Err(BackendError::Stopped)));
    assert_eq!(store.revision(), Revision(1));
}
