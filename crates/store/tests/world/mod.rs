//! Shared by the store's tests: small objects and functions that write them.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod power;

use std::sync::Arc;

use phalanx_store::{Document, ObjectWrite, Op, Precondition, Store, StoreKey, StoredMeta, StoredObject, WriteRefusal};
use types::{Revision, Timestamp};

/// The start of every document: long enough that it is packed.
fn filled_head() -> String {
    format!(r#"{{"filling":"{}","metadata":{{"resourceVersion":""#, "lorem ipsum ".repeat(25))
}

/// A document with one number.
pub fn document(value: u32) -> Document {
    let head = filled_head();
    Document::new(format!(r#"{head}"}},"value":{value}}}"#).into_bytes(), head.len())
}

/// The number in a stored document.
pub fn value(object: &StoredObject) -> u32 {
    let bytes = object.bytes();
    let text = std::str::from_utf8(&bytes).expect("documents are UTF-8");
    let expected_head = format!(r#"{}{}"}},"value":"#, filled_head(), object.revision);
    let rest = text.strip_prefix(&expected_head).expect("the document has the object's revision");
    rest.trim_end_matches('}').parse().expect("the value is a number")
}

pub fn pods() -> Arc<str> {
    Arc::from("pods")
}

pub fn pod(name: &str) -> StoreKey {
    StoreKey::new(&pods(), "default", name)
}

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("in range")
}

pub fn put(key: StoreKey, expect: Precondition, value: u32) -> ObjectWrite {
    ObjectWrite { key, precondition: expect, op: Op::Put, document: document(value), meta: StoredMeta::default() }
}

pub fn delete(key: StoreKey, expect: Precondition, value: u32) -> ObjectWrite {
    ObjectWrite { op: Op::Delete, ..put(key, expect, value) }
}

/// One write at time zero.
pub fn commit(store: &Store, write: ObjectWrite) -> Result<Arc<StoredObject>, WriteRefusal> {
    commit_at(store, write, at(0))
}

pub fn commit_at(store: &Store, write: ObjectWrite, now: Timestamp) -> Result<Arc<StoredObject>, WriteRefusal> {
    let mut results = store.commit(vec![write], now).expect("memory does not fail");
    assert_eq!(results.len(), 1);
    results.remove(0)
}

/// Creates an object and returns its revision.
pub fn create(store: &Store, name: &str) -> Revision {
    commit(store, put(pod(name), Precondition::Absent, 0)).expect("the name is free").revision
}
