//! The writer thread: what waits is committed in one go, a failure is told first, a stop loses nothing.
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

/// Says when a commit has begun, and ends it when told how.
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
async fn what_waits_for_the_disk_is_committed_in_one_go() {
    let (store, sizes, ends) = gated_store();
    let (committer, writer) = Committer::on_thread(store.clone(), |_| {});
    let mut first = Box::pin(committer.commit(create("first"), at(0)));
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(sizes.recv().unwrap(), 1);

    // The last one asks for a name that another one of the same batch takes first.
    let names = ["a", "b", "c", "d", "a"];
    let mut others = Box::pin(join_all(names.map(|name| committer.commit(create(name), at(0)))));
    assert!(futures::poll!(&mut others).is_pending());
    assert_eq!(store.revision(), Revision::ZERO, "nothing is shown before it is kept");
    ends.send(Ok(())).unwrap();
    assert_eq!(sizes.recv().unwrap(), 4);
    ends.send(Ok(())).unwrap();
    assert_eq!(first.await.unwrap()[0].as_ref().unwrap().revision, Revision(1));
    let answers: Vec<Result<Revision, bool>> = others
        .await
        .into_iter()
        .map(|answer| answer.unwrap().remove(0))
        .map(|answer| {
            answer.map(|object| object.revision).map_err(|refused| matches!(refused, WriteRefusal::Exists(_)))
        })
        .collect();
    assert_eq!(answers, [Ok(Revision(2)), Ok(Revision(3)), Ok(Revision(4)), Ok(Revision(5)), Err(true)]);
    writer.join();
}

#[tokio::test]
async fn a_failure_is_told_once_and_before_anyone_is_answered() {
    let (store, sizes, ends) = gated_store();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let (committer, writer) = Committer::on_thread(store, move |error| tell.lock().unwrap().push(error.to_string()));
    ends.send(Err(BackendError::fatal(std::io::Error::other("the disk is gone")))).unwrap();
    assert!(committer.commit(create("a"), at(0)).await.is_err());
    assert_eq!(sizes.recv().unwrap(), 1);
    assert_eq!(*told.lock().unwrap(), ["the store's backend failed"]);
    assert!(committer.commit(create("b"), at(0)).await.is_err());
    assert_eq!(told.lock().unwrap().len(), 1);
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
