//! Validation of a batch of writes: each is checked against the state and the writes before it, and takes the next
//! revision or is refused. This code changes nothing; [`crate::Store::commit`] applies the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::Revision;

use crate::backend::FreeSpace;
use crate::object::{Document, Op, StoreKey, StoredMeta, StoredObject};
use crate::packing::DocumentBytes;
use crate::state::StoreState;
use crate::watch::StoreEvent;

/// One write.
#[derive(Clone, Debug)]
pub struct ObjectWrite {
    /// The key that is written.
    pub key: StoreKey,
    /// What the store must have for the write to be accepted.
    pub precondition: Precondition,
    /// Whether the key has an object afterwards.
    pub op: Op,
    /// The new state; for a delete the last state, which watchers get.
    pub document: Document,
    /// The values of `document` that selectors read.
    pub meta: StoredMeta,
}

/// What a write expects under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// No object.
    Absent,
    /// The object in exactly this version.
    At(Revision),
}

/// Why a write was refused. A result, not a failure: the caller reads again or reports it to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteRefusal {
    /// Expected no object, but this one exists.
    Exists(Arc<StoredObject>),
    /// Expected an object, but there is none.
    NotFound,
    /// Expected another version than this one.
    Conflict(Arc<StoredObject>),
    /// The storage is full. Deletes, all writes of an object that is being deleted, and changes that do not make an
    /// object larger are still accepted, as long as they can be written to disk.
    Full(FreeSpace),
}

/// A validated batch: the result of every write in order, and the events to store and publish.
pub(crate) struct ValidatedBatch {
    pub results: Vec<Result<Arc<StoredObject>, WriteRefusal>>,
    /// One per revision, in order of revision.
    pub events: Vec<StoreEvent>,
}

/// Validates `batch` against `state` and the free space. The state does not change.
pub(crate) fn validate_batch(state: &StoreState, batch: Vec<ObjectWrite>, space: FreeSpace) -> ValidatedBatch {
    let mut validated =
        ValidatedBatch { results: Vec::with_capacity(batch.len()), events: Vec::with_capacity(batch.len()) };
    // The result of earlier writes of this batch by key; `None` where they deleted it.
    let mut written: BTreeMap<Arc<StoreKey>, Option<Arc<StoredObject>>> = BTreeMap::new();
    let mut revision = state.revision();
    for write in batch {
        let current = match written.get(&write.key) {
            Some(current) => current.clone(),
            None => state.get(&write.key).cloned(),
        };
        if let Err(refused) = check_precondition(&write, current.as_ref()) {
            validated.results.push(Err(refused));
            continue;
        }
        if let Some(current) = current.as_ref().filter(|current| write.op == Op::Put && is_noop(&write, current)) {
            validated.results.push(Ok(Arc::clone(current)));
            continue;
        }
        if space.is_low() && grows(&write, current.as_deref()) {
            validated.results.push(Err(WriteRefusal::Full(space)));
            continue;
        }
        revision = revision.next();
        let object = Arc::new(StoredObject {
            document: DocumentBytes::Plain(write.document.with_revision(revision)),
            created: current.as_ref().map_or(revision, |current| current.created),
            key: current.as_ref().map_or_else(|| Arc::new(write.key), |current| Arc::clone(&current.key)),
            meta: write.meta,
            revision,
        });
        let left = (write.op == Op::Put).then(|| Arc::clone(&object));
        written.insert(Arc::clone(&object.key), left);
        validated.results.push(Ok(Arc::clone(&object)));
        validated.events.push(StoreEvent { op: write.op, object, previous: current });
    }
    validated
}

/// The results of a batch for which there was no space. `revision` is the last one that is stored.
pub(crate) fn refuse_batch(
    results: Vec<Result<Arc<StoredObject>, WriteRefusal>>,
    revision: Revision,
    space: FreeSpace,
) -> Vec<Result<Arc<StoredObject>, WriteRefusal>> {
    // A refusal can depend on an earlier write of the batch, which was not stored either.
    let refuse = |result: Result<Arc<StoredObject>, WriteRefusal>| match result {
        Ok(unchanged) if unchanged.revision <= revision => Ok(unchanged),
        _ => Err(WriteRefusal::Full(space)),
    };
    results.into_iter().map(refuse).collect()
}

fn check_precondition(write: &ObjectWrite, current: Option<&Arc<StoredObject>>) -> Result<(), WriteRefusal> {
    match (write.precondition, current) {
        (Precondition::Absent, Some(current)) => Err(WriteRefusal::Exists(Arc::clone(current))),
        // A delete that expects no object has nothing to delete.
        (Precondition::Absent, None) if write.op == Op::Delete => Err(WriteRefusal::NotFound),
        (Precondition::Absent, None) => Ok(()),
        (Precondition::At(_), None) => Err(WriteRefusal::NotFound),
        (Precondition::At(revision), Some(current)) if current.revision != revision => {
            Err(WriteRefusal::Conflict(Arc::clone(current)))
        }
        (Precondition::At(_), Some(_)) => Ok(()),
    }
}

/// Whether the write needs more storage than what it replaces.
fn grows(write: &ObjectWrite, current: Option<&StoredObject>) -> bool {
    // A stored document includes its revision, whose digits must not count as space that the write frees.
    let held = current.map_or(0, |current| current.size() - current.revision.to_string().len());
    // A delete takes several writes when the object has finalizers, and the first one only adds the deletion
    // timestamp.
    write.op == Op::Put && !write.meta.deleting && write.document.size() > held
}

fn is_noop(write: &ObjectWrite, current: &StoredObject) -> bool {
    // A write that changes nothing does not extend the expiry.
    write.document.matches_stored(current) && write.meta.equals_ignoring_expiry(&current.meta)
}
