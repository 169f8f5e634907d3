//! What becomes of a batch of writes: each is checked against the state and against the writes before it, and takes
//! the next revision or is refused. Deciding is here and changes nothing; [`crate::Store::commit`] carries it out.

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
    /// What is written.
    pub key: StoreKey,
    /// What must be there for the write to be taken.
    pub precondition: Precondition,
    /// Whether the key has an object afterwards.
    pub op: Op,
    /// The new state; for a delete the last state, which watchers are shown.
    pub document: Document,
    /// What selectors read from `document`.
    pub meta: StoredMeta,
}

/// What a write expects to find under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// No object.
    Absent,
    /// The object in exactly this version.
    At(Revision),
}

/// Why a write was not taken. An answer, not a failure: the caller reads again or tells its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteRefusal {
    /// Expected no object, and there is this one.
    Exists(Arc<StoredObject>),
    /// Expected an object, and there is none.
    NotFound,
    /// Expected another version than this one.
    Conflict(Arc<StoredObject>),
    /// There is no room for more. Still taken are deletes, with all writes of an object that is being deleted, and
    /// changes that make an object no larger, as long as there is room to write them down.
    Full(FreeSpace),
}

/// A judged batch: the answer to every write, in order, and what is to be kept and shown.
pub(crate) struct ValidatedBatch {
    pub results: Vec<Result<Arc<StoredObject>, WriteRefusal>>,
    /// One per revision taken, in order of revision.
    pub events: Vec<StoreEvent>,
}

/// Judges `batch` against `state` and the `room` there is. The state is as it was when this returns.
pub(crate) fn validate_batch(state: &StoreState, batch: Vec<ObjectWrite>, room: FreeSpace) -> ValidatedBatch {
    let mut judged =
        ValidatedBatch { results: Vec::with_capacity(batch.len()), events: Vec::with_capacity(batch.len()) };
    // What earlier writes of this batch made of a key; `None` where they deleted it.
    let mut written: BTreeMap<Arc<StoreKey>, Option<Arc<StoredObject>>> = BTreeMap::new();
    let mut revision = state.revision();
    for write in batch {
        let current = match written.get(&write.key) {
            Some(current) => current.clone(),
            None => state.get(&write.key).cloned(),
        };
        if let Err(refused) = check_precondition(&write, current.as_ref()) {
            judged.results.push(Err(refused));
            continue;
        }
        if let Some(current) = current.as_ref().filter(|current| write.op == Op::Put && is_noop(&write, current)) {
            judged.results.push(Ok(Arc::clone(current)));
            continue;
        }
        if room.is_low() && grows(&write, current.as_deref()) {
            judged.results.push(Err(WriteRefusal::Full(room)));
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
        judged.results.push(Ok(Arc::clone(&object)));
        judged.events.push(StoreEvent { op: write.op, object, previous: current });
    }
    judged
}

/// The answers to a batch that there was no room for. `revision` is the last one that is kept.
pub(crate) fn refuse_batch(
    answers: Vec<Result<Arc<StoredObject>, WriteRefusal>>,
    revision: Revision,
    room: FreeSpace,
) -> Vec<Result<Arc<StoredObject>, WriteRefusal>> {
    // Refusals may rest on an earlier write of the batch, which was not kept either.
    let refuse = |answer: Result<Arc<StoredObject>, WriteRefusal>| match answer {
        Ok(unchanged) if unchanged.revision <= revision => Ok(unchanged),
        _ => Err(WriteRefusal::Full(room)),
    };
    answers.into_iter().map(refuse).collect()
}

fn check_precondition(write: &ObjectWrite, current: Option<&Arc<StoredObject>>) -> Result<(), WriteRefusal> {
    match (write.precondition, current) {
        (Precondition::Absent, Some(current)) => Err(WriteRefusal::Exists(Arc::clone(current))),
        // Deleting what is expected to be absent has nothing to delete.
        (Precondition::Absent, None) if write.op == Op::Delete => Err(WriteRefusal::NotFound),
        (Precondition::Absent, None) => Ok(()),
        (Precondition::At(_), None) => Err(WriteRefusal::NotFound),
        (Precondition::At(revision), Some(current)) if current.revision != revision => {
            Err(WriteRefusal::Conflict(Arc::clone(current)))
        }
        (Precondition::At(_), Some(_)) => Ok(()),
    }
}

/// Whether more is kept after the write than before.
fn grows(write: &ObjectWrite, current: Option<&StoredObject>) -> bool {
    // A stored document is longer by its revision, whose digits must not count as room that the write gives back.
    let held = current.map_or(0, |current| current.size() - current.revision.to_string().len());
    // Deleting takes several writes when someone holds the object, and the first one only adds a mark.
    write.op == Op::Put && !write.meta.deleting && write.document.size() > held
}

fn is_noop(write: &ObjectWrite, current: &StoredObject) -> bool {
    // A write that changes nothing does not lengthen a life either.
    write.document.matches_stored(current) && write.meta.equals_ignoring_expiry(&current.meta)
}
