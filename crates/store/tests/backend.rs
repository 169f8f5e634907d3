//! What the store asks of its backend, and what becomes of it when the backend fails.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::{Arc, Mutex};

use api::Revision;
use store::{Backend, BackendError, Expect, Gone, Key, Limits, List, Record, Store, Stored};
use world::{at, commit, create, delete, pod, pods, put};

/// Keeps batches in memory that outlives the store; fails when told to.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    batches: Vec<Vec<Record>>,
    broken: bool,
}

impl Backend for Disk {
    fn scan(&mut self, each: &mut dyn FnMut(Record) -> Option<Arc<Stored>>) -> Result<Revision, BackendError> {
        let kept = self.0.lock().unwrap();
        kept.batches.iter().flatten().cloned().for_each(|record| drop(each(record)));
        Ok(kept.batches.iter().flatten().last().map_or(Revision::ZERO, |record| record.object.revision))
    }

    fn commit(&mut self, batch: &[Record], _: &dyn Fn(&Key, Revision) -> bool) -> Result<(), BackendError> {
        let mut kept = self.0.lock().unwrap();
        if kept.broken {
            return Err(BackendError::fatal(std::io::Error::other("the disk is gone")));
        }
        kept.batches.push(batch.to_vec());
        Ok(())
    }
}

#[test]
fn a_batch_is_kept_in_one_go_without_what_was_refused() {
    let disk = Disk::default();
    let store = Store::open(Box::new(disk.clone()), Limits::default()).unwrap();
    let writes = ["a", "a", "b"].map(|name| put(pod(name), Expect::Absent, 0)).into();
    store.commit(writes, at(0)).unwrap();
    let kept: Vec<Vec<String>> = disk.0.lock().unwrap().batches.iter().map(|batch| names(batch)).collect();
    assert_eq!(kept, [["a", "b"]]);
}

fn names(batch: &[Record]) -> Vec<String> {
    batch.iter().map(|record| record.object.key.name.clone()).collect()
}

#[test]
fn a_reopened_store_has_the_objects_but_not_the_history() {
    let disk = Disk::default();
    let store = Store::open(Box::new(disk.clone()), Limits::default()).unwrap();
    let a = create(&store, "a");
    create(&store, "b");
    commit(&store, delete(pod("a"), Expect::At(a), 0)).unwrap();

    let store = Store::open(Box::new(disk), Limits::default()).unwrap();
    let listed = store.list(&List::all(&pods()), &mut |_| true).unwrap();
    assert_eq!((listed.revision, listed.items.len()), (Revision(3), 1));
    assert_eq!(*listed.items[0].key, pod("b"));
    for resource in [pods(), Arc::from("nodes")] {
        assert_eq!(store.watch(&resource, Revision(2)).err(), Some(Gone { oldest: Revision(3) }), "{resource}");
        assert!(store.watch(&resource, Revision(3)).is_ok(), "{resource}");
    }
    assert_eq!(create(&store, "a"), Revision(4));
}

#[test]
fn a_failed_commit_shows_nothing_and_ends_writing_for_good() {
    let disk = Disk::default();
    let store = Store::open(Box::new(disk.clone()), Limits::default()).unwrap();
    create(&store, "a");
    disk.0.lock().unwrap().broken = true;
    let write = || vec![put(pod("b"), Expect::Absent, 0)];
    assert!(store.commit(write(), at(0)).is_err());
    disk.0.lock().unwrap().broken = false;
    assert!(store.commit(write(), at(0)).is_err(), "what was kept is unknown from here on");
    assert_eq!((store.revision(), store.get(&pod("b"))), (Revision(1), None));
    assert!(store.get(&pod("a")).is_some(), "reading goes on");
}
