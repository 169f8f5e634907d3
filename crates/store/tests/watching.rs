//! Watchers wake, get an error when the history has moved past them, and know their position.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;
use std::time::Duration;

use phalanx_store::{CompactedError, HistoryLimits, ListQuery, Op, Precondition, Store, StoreKey};
use types::Revision;
use world::{at, commit, commit_at, create, delete, pod, pods, put};

#[tokio::test]
async fn a_waiting_watcher_wakes_with_the_write() {
    let store = Store::in_memory(HistoryLimits::default());
    let mut watcher = store.watch(&pods(), Revision::ZERO).unwrap();
    let waiting = tokio::spawn(async move { watcher.next().await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    create(&store, "a");
    let events = waiting.await.unwrap().unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].op, &*events[0].object.key), (Op::Put, &pod("a")));
}

#[tokio::test]
async fn a_write_between_watch_and_next_is_not_missed() {
    let store = Store::in_memory(HistoryLimits::default());
    let mut watcher = store.watch(&pods(), Revision::ZERO).unwrap();
    create(&store, "a");
    assert_eq!(watcher.next().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_watcher_of_another_resource_does_not_wake_but_advances() {
    let store = Store::in_memory(HistoryLimits::default());
    let mut nodes = store.watch(&Arc::from("nodes"), Revision::ZERO).unwrap();
    create(&store, "a");
    let revision = create(&store, "b");
    assert_eq!(nodes.position(), revision);
    let waiting = tokio::spawn(async move { nodes.next().await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    commit(&store, put(StoreKey::new(&Arc::from("nodes"), "", "n"), Precondition::Absent, 0)).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap()[0].object.revision, Revision(3));
}

#[tokio::test]
async fn a_batch_is_bounded_and_the_next_one_continues() {
    let store = Store::in_memory(HistoryLimits::default());
    let writes = (0..1500).map(|i| put(pod(&format!("p{i}")), Precondition::Absent, 0)).collect();
    store.commit(writes, at(0)).unwrap();
    let mut watcher = store.watch(&pods(), Revision::ZERO).unwrap();
    assert_eq!(watcher.next().await.unwrap().len(), 1000);
    assert_eq!(watcher.position(), Revision(1000));
    let rest = watcher.next().await.unwrap();
    assert_eq!((rest.len(), rest[0].object.revision), (500, Revision(1001)));
    assert_eq!(watcher.position(), Revision(1500));
}

#[tokio::test]
async fn a_watcher_behind_the_history_gets_an_error() {
    let store = Store::in_memory(HistoryLimits { max_history_bytes: 300, ..HistoryLimits::default() });
    let mut slow = store.watch(&pods(), Revision::ZERO).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        create(&store, name);
    }
    let gone = slow.next().await.unwrap_err();
    assert_eq!(gone, CompactedError { oldest: Revision(2) }, "three creations of 96 bytes each fit into 300");
    assert_eq!(slow.position(), Revision::ZERO);
    assert_eq!(store.watch(&pods(), gone.oldest).unwrap().next().await.unwrap().len(), 3);
}

#[test]
fn history_is_measured_by_the_data_that_only_it_needs() {
    let store = Store::in_memory(HistoryLimits { max_history_bytes: 3_000, ..HistoryLimits::default() });
    let mut revision = create(&store, "a");
    (0..10).for_each(|n| _ = create(&store, &format!("other-{n}")));
    assert!(store.watch(&pods(), Revision::ZERO).is_ok(), "current objects do not count as history");
    for value in 1..=4 {
        revision = commit(&store, put(pod("a"), Precondition::At(revision), value)).unwrap().revision;
    }
    assert!(store.watch(&pods(), Revision::ZERO).is_err(), "old versions of about 900 bytes each do");
}

#[tokio::test]
async fn a_delete_event_has_the_last_state_and_its_own_revision() {
    let store = Store::in_memory(HistoryLimits::default());
    let created = create(&store, "a");
    commit(&store, delete(pod("a"), Precondition::At(created), 7)).unwrap();
    let event = store.watch(&pods(), created).unwrap().next().await.unwrap().remove(0);
    assert_eq!((event.op, world::value(&event.object)), (Op::Delete, 7));
    assert_eq!((event.object.created, event.object.revision), (created, Revision(2)));
    assert_eq!(event.previous.unwrap().revision, created);
}

#[test]
fn events_are_compacted_when_they_are_too_old() {
    let store =
        Store::in_memory(HistoryLimits { max_history_age: Duration::from_secs(300), ..HistoryLimits::default() });
    let create_at = |name, seconds| commit_at(&store, put(pod(name), Precondition::Absent, 0), at(seconds)).unwrap();
    create_at("a", 0);
    create_at("b", 200);
    create_at("c", 300);
    assert!(store.watch(&pods(), Revision::ZERO).is_ok(), "exactly 300 seconds old is within the limit");
    create_at("d", 400);
    assert_eq!(store.watch(&pods(), Revision::ZERO).err(), Some(CompactedError { oldest: Revision(1) }));
    assert!(store.watch(&pods(), Revision(1)).is_ok());
}

#[test]
fn history_is_not_compacted_during_a_list() {
    // Each write compacts the one before, and the list writes while it reads.
    let store = Store::in_memory(HistoryLimits { max_history_bytes: 0, ..HistoryLimits::default() });
    let writes = (0..3000).map(|i| put(pod(&format!("p{i:04}")), Precondition::Absent, 0)).collect();
    store.commit(writes, at(0)).unwrap();
    let listed = store
        .list(&ListQuery::all(&pods()), &mut |object| {
            commit(&store, delete(StoreKey::clone(&object.key), Precondition::At(object.revision), 0)).unwrap();
            true
        })
        .unwrap();
    assert_eq!((listed.items.len(), listed.revision), (3000, Revision(3000)));
    assert_eq!(store.list(&ListQuery::all(&pods()), &mut |_| true).unwrap().items.len(), 0);
    create(&store, "last");
    assert_eq!(
        store.watch(&pods(), Revision(6000)).err(),
        Some(CompactedError { oldest: Revision(6001) }),
        "and continues after"
    );
}

#[tokio::test]
async fn wait_for_revision_waits() {
    let store = Store::in_memory(HistoryLimits::default());
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for_revision(Revision(2)).await }
    });
    create(&store, "a");
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    create(&store, "b");
    waiting.await.unwrap();
}
