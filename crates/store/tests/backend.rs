//! What the store requires of its backend, and what happens when the backend fails.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::{Arc, Mutex};

use phalanx_store::{
    Backend, BackendError, CompactedError, HistoryLimits, ListQuery, LogRecord, Precondition, Store, StoreKey,
    StoredObject,
};
use types::Revision;
use world::{at, commit, create, delete, pod, pods, put};

/// Stores batches in memory that outlives the store; fails on request.
#[derive(Clone, Default)]
struct MemoryDisk(Arc<Mutex<DiskContents>>);

#[derive(Default)]
struct DiskContents {
    batches: Vec<Vec<LogRecord>>,
    broken: bool,
}

impl Backend for MemoryDisk {
    fn scan(&mut self, each: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>) -> Result<Revision, BackendError> {
        let stored = self.0.lock().unwrap();
        stored.batches.iter().flatten().cloned().for_each(|record| drop(each(record)));
        Ok(stored.batches.iter().flatten().last().map_or(Revision::ZERO, |record| record.object.revision))
    }

    fn commit(&mut self, batch: &[LogRecord], _: &dyn Fn(&StoreKey, Revision) -> bool) -> Result<(), BackendError> {
        let mut stored = self.0.lock().unwrap();
        if stored.broken {
            return Err(BackendError::fatal(std::io::Error::other("the disk is gone")));
        }
        stored.batches.push(batch.to_vec());
        Ok(())
    }
}

#[test]
fn a_batch_is_stored_at_once_without_its_refused_writes() {
    let disk = MemoryDisk::default();
    let store = Store::open(Box::new(disk.clone()), HistoryLimits::default()).unwrap();
    let writes = ["a", "a", "b"].map(|name| put(pod(name), Precondition::Absent, 0)).into();
    store.commit(writes, at(0)).unwrap();
    let stored: Vec<Vec<String>> = disk.0.lock().unwrap().batches.iter().map(|batch| names(batch)).collect();
    assert_eq!(stored, [["a", "b"]]);
}

fn names(batch: &[LogRecord]) -> Vec<String> {
    batch.iter().map(|record| record.object.key.name.clone()).collect()
}

#[test]
fn a_reopened_store_has_the_objects_but_not_the_history() {
    let disk = MemoryDisk::default();
    let store = Store::open(Box::new(disk.clone()), HistoryLimits::default()).unwrap();
    let a = create(&store, "a");
    create(&store, "b");
    commit(&store, delete(pod("a"), Precondition::At(a), 0)).unwrap();

    let store = Store::open(Box::new(disk), HistoryLimits::default()).unwrap();
    let listed = store.list(&ListQuery::all(&pods()), &mut |_| true).unwrap();
    assert_eq!((listed.revision, listed.items.len()), (Revision(3), 1));
    assert_eq!(*listed.items[0].key, pod("b"));
    for resource in [pods(), Arc::from("nodes")] {
        assert_eq!(
            store.watch(&resource, Revision(2)).err(),
            Some(CompactedError { oldest: Revision(3) }),
            "{resource}"
        );
        assert!(store.watch(&resource, Revision(3)).is_ok(), "{resource}");
    }
    assert_eq!(create(&store, "a"), Revision(4));
}

#[test]
fn a_failed_commit_publishes_nothing_and_ends_writing_for_good() {
    let disk = MemoryDisk::default();
    let store = Store::open(Box::new(disk.clone()), HistoryLimits::default()).unwrap();
    create(&store, "a");
    disk.0.lock().unwrap().broken = true;
    let write = || vec![put(pod("b"), Precondition::Absent, 0)];
    assert!(store.commit(write(), at(0)).is_err());
    disk.0.lock().unwrap().broken = false;
    assert!(store.commit(write(), at(0)).is_err(), "it is unknown what was stored");
    assert_eq!((store.revision(), store.get(&pod("b"))), (Revision(1), None));
    assert!(store.get(&pod("a")).is_some(), "reads continue");
}
