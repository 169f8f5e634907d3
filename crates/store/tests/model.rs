//! The store against a plain map: for any writes, results, lists at every revision and watches from every revision
//! equal those of the map.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use phalanx_store::{
    CompactedError, HistoryLimits, ListQuery, Op, Precondition, Store, StoreEvent, StoreKey, StoredObject, WriteRefusal,
};
use proptest::prelude::*;
use types::Revision;
use world::{at, delete, put, value};

/// An object in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ModelObject {
    value: u32,
    created: Revision,
    revision: Revision,
}

type StoreModel = BTreeMap<StoreKey, ModelObject>;

/// One generated write; its precondition is chosen when the map before it is known.
#[derive(Clone, Debug)]
struct ModelWrite {
    resource: usize,
    namespace: usize,
    name: usize,
    value: u32,
    op: Op,
    expect: VersionChoice,
}

#[derive(Clone, Copy, Debug)]
enum VersionChoice {
    Absent,
    Current,
    Mismatched,
}

const RESOURCES: [&str; 2] = ["pods", "scheduling.k8s.io/podgroups"];
const NAMESPACES: [&str; 3] = ["", "a", "b"];
const NAMES: [&str; 3] = ["x", "y", "z"];

fn model_write() -> impl Strategy<Value = ModelWrite> {
    let op = prop_oneof![3 => Just(Op::Put), 1 => Just(Op::Delete)];
    let expect = prop_oneof![2 => Just(VersionChoice::Absent), 4 => Just(VersionChoice::Current), 1 => Just(VersionChoice::Mismatched)];
    (0..RESOURCES.len(), 0..NAMESPACES.len(), 0..NAMES.len(), 0..3_u32, op, expect).prop_map(
        |(resource, namespace, name, value, op, expect)| ModelWrite { resource, namespace, name, value, op, expect },
    )
}

/// Batches, each with the seconds that pass before it.
fn history() -> impl Strategy<Value = Vec<(i64, Vec<ModelWrite>)>> {
    prop::collection::vec((0..20_i64, prop::collection::vec(model_write(), 1..5)), 1..30)
}

fn limits() -> impl Strategy<Value = HistoryLimits> {
    // Nothing compacted; a few events kept; a few seconds kept; nothing kept.
    let bytes = prop_oneof![2 => Just(usize::MAX), 2 => Just(6_000), 1 => Just(0)];
    let seconds = prop_oneof![2 => Just(1_000_000), 1 => Just(60)];
    (bytes, seconds).prop_map(|(history_bytes, seconds)| HistoryLimits {
        max_history_bytes: history_bytes,
        max_history_age: Duration::from_secs(seconds),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map_with_a_past(limits in limits(), batches in history(), page in 1..4_usize) {
        let store = Store::in_memory(limits);
        let mut past = vec![StoreModel::new()];
        let mut seconds = 0;
        for (passed, batch) in batches {
            seconds += passed;
            write(&store, &mut past, batch, seconds);
        }
        let latest = Revision(past.len() as u64 - 1);
        prop_assert_eq!(store.revision(), latest);
        for resource in RESOURCES.map(Arc::<str>::from) {
            let now = past.last().unwrap();
            prop_assert_eq!(&listed(&store, &resource, None, page).unwrap(), &filter_resource(&resource, now));
            for (revision, then) in past.iter().enumerate() {
                let revision = Revision(revision as u64);
                let list = listed(&store, &resource, Some(revision), page);
                let watch = watched(&store, &resource, revision);
                match list {
                    Ok(list) => {
                        let mut map = filter_resource(&resource, then);
                        prop_assert_eq!(&list, &map);
                        watch.unwrap().iter().for_each(|event| apply(&mut map, event));
                        prop_assert_eq!(&map, &filter_resource(&resource, now), "a list plus its watch is the later list");
                    }
                    Err(gone) => {
                        prop_assert!(revision < gone.oldest && gone.oldest <= latest);
                        prop_assert!(limits.max_history_bytes < usize::MAX || limits.max_history_age < Duration::from_secs(100));
                        prop_assert_eq!(watch.unwrap_err(), gone);
                    }
                }
            }
        }
    }
}

/// Commits a batch and compares every result with the map's.
fn write(store: &Store, past: &mut Vec<StoreModel>, batch: Vec<ModelWrite>, seconds: i64) {
    let mut expected = Vec::new();
    let mut writes = Vec::new();
    for step in batch {
        let mut map = past.last().unwrap().clone();
        let key = StoreKey::new(&Arc::from(RESOURCES[step.resource]), NAMESPACES[step.namespace], NAMES[step.name]);
        let current = map.get(&key).copied();
        let expect = match step.expect {
            VersionChoice::Absent => Precondition::Absent,
            VersionChoice::Current => {
                Precondition::At(current.map_or(Revision(past.len() as u64), |current| current.revision))
            }
            VersionChoice::Mismatched => {
                Precondition::At(Revision(current.map_or(1, |current| current.revision.0 + 1)))
            }
        };
        let make = if step.op == Op::Put { put } else { delete };
        writes.push(make(key.clone(), expect, step.value));
        let revision = Revision(past.len() as u64);
        let result = match (expect, current) {
            (Precondition::Absent, Some(current)) => Err(("exists", Some(current.revision))),
            (Precondition::Absent, None) if step.op == Op::Delete => Err(("not found", None)),
            (Precondition::At(_), None) => Err(("not found", None)),
            (Precondition::At(at), Some(current)) if at != current.revision => {
                Err(("conflict", Some(current.revision)))
            }
            (Precondition::At(_), Some(current)) if step.op == Op::Put && current.value == step.value => Ok(current),
            (_, current) => {
                let created = current.map_or(revision, |current| current.created);
                let object = ModelObject { value: step.value, created, revision };
                match step.op {
                    Op::Put => map.insert(key, object),
                    Op::Delete => map.remove(&key),
                };
                past.push(map);
                Ok(object)
            }
        };
        expected.push(result);
    }
    let results = store.commit(writes, at(seconds)).unwrap();
    let results: Vec<_> = results
        .iter()
        .map(|result| match result {
            Ok(object) => Ok(to_model(object)),
            Err(WriteRefusal::Exists(object)) => Err(("exists", Some(object.revision))),
            Err(WriteRefusal::Conflict(object)) => Err(("conflict", Some(object.revision))),
            Err(WriteRefusal::NotFound) => Err(("not found", None)),
            Err(WriteRefusal::Full(_)) => unreachable!("memory is never full"),
        })
        .collect();
    assert_eq!(results, expected);
}

fn to_model(object: &StoredObject) -> ModelObject {
    ModelObject { value: value(object), created: object.created, revision: object.revision }
}

fn filter_resource(resource: &Arc<str>, model: &StoreModel) -> StoreModel {
    model.iter().filter(|(key, _)| key.resource == *resource).map(|(key, object)| (key.clone(), *object)).collect()
}

/// Lists in pages, over all namespaces and one by one; both must be equal.
fn listed(store: &Store, resource: &Arc<str>, at: Option<Revision>, page: usize) -> Result<StoreModel, CompactedError> {
    let all = pages(store, ListQuery { at, limit: Some(page), ..ListQuery::all(resource) })?;
    let mut by_namespace = Vec::new();
    for namespace in NAMESPACES.map(|name| Some(name.to_owned())) {
        by_namespace.extend(pages(store, ListQuery { namespace, at, limit: Some(page), ..ListQuery::all(resource) })?);
    }
    assert_eq!(all, by_namespace, "namespaces follow each other in order");
    Ok(all.into_iter().collect())
}

fn pages(store: &Store, mut query: ListQuery) -> Result<Vec<(StoreKey, ModelObject)>, CompactedError> {
    let whole = store.list(&ListQuery { limit: None, ..query.clone() }, &mut |_| true)?;
    let mut items = Vec::new();
    loop {
        let listed = store.list(&query, &mut |_| true)?;
        assert_eq!(listed.revision, whole.revision);
        items.extend(listed.items.iter().map(|object| (StoreKey::clone(&object.key), to_model(object))));
        assert_eq!(listed.remaining, whole.items.len() - items.len());
        if listed.continue_after.is_none() {
            assert_eq!(listed.remaining, 0);
            return Ok(items);
        }
        (query.at, query.after) = (Some(listed.revision), listed.continue_after);
    }
}

/// All events of a watcher from `after` until it has caught up.
fn watched(store: &Store, resource: &Arc<str>, after: Revision) -> Result<Vec<StoreEvent>, CompactedError> {
    let mut watcher = store.watch(resource, after)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut events = Vec::new();
    while watcher.position() < store.revision() {
        events.extend(runtime.block_on(watcher.next())?);
    }
    assert!(events.is_sorted_by(|a, b| a.object.revision < b.object.revision), "ordered, and none twice");
    Ok(events)
}

/// Applies an event to a map that must be in the state before the event.
fn apply(map: &mut StoreModel, event: &StoreEvent) {
    let key = StoreKey::clone(&event.object.key);
    let before = match event.op {
        Op::Put => map.insert(key, to_model(&event.object)),
        Op::Delete => map.remove(&key),
    };
    assert_eq!(before, event.previous.as_deref().map(to_model));
}
