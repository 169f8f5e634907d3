//! What becomes of a batch of writes: each is checked against the state and against the writes before it, and takes
//! the next revision or is refused. Deciding is here and changes nothing; [`crate::Store::commit`] carries it out.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Revision;

use crate::backend::Room;
use crate::object::{Document, Key, Meta, Op, Stored};
use crate::packing::Text;
use crate::state::State;
use crate::watch::Event;

/// One write.
#[derive(Clone, Debug)]
pub struct Write {
    /// What is written.
    pub key: Key,
    /// What must be there for the write to be taken.
    pub expect: Expect,
    /// Whether the key has an object afterwards.
    pub op: Op,
    /// The new state; for a delete the last state, which watchers are shown.
    pub document: Document,
    /// What selectors read from `document`.
    pub meta: Meta,
}

/// What a write expects to find under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No object.
    Absent,
    /// The object in exactly this version.
    At(Revision),
}

/// Why a write was not taken. An answer, not a failure: the caller reads again or tells its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Expected no object, and there is this one.
    Exists(Arc<Stored>),
    /// Expected an object, and there is none.
    NotFound,
    /// Expected another version than this one.
    Conflict(Arc<Stored>),
    /// There is no room for more. Still taken are deletes, with all writes of an object that is being deleted, and
    /// changes that make an object no larger, as long as there is room to write them down.
    Full(Room),
}

/// A judged batch: the answer to every write, in order, and what is to be kept and shown.
pub(crate) struct Judged {
    pub answers: Vec<Result<Arc<Stored>, Refused>>,
    /// One per revision taken, in order of revision.
    pub events: Vec<Event>,
}

/// Judges `batch` against `state` and the `room` there is. The state is as it was when this returns.
pub(crate) fn judge(state: &State, batch: Vec<Write>, room: Room) -> Judged {
    let mut judged = Judged { answers: Vec::with_capacity(batch.len()), events: Vec::with_capacity(batch.len()) };
    // What earlier writes of this batch made of a key; `None` where they deleted it.
    let mut written: BTreeMap<Arc<Key>, Option<Arc<Stored>>> = BTreeMap::new();
    let mut revision = state.revision();
    for write in batch {
        let current = match written.get(&write.key) {
            Some(current) => current.clone(),
            None => state.get(&write.key).cloned(),
        };
        if let Err(refused) = meets(&write, current.as_ref()) {
            judged.answers.push(Err(refused));
            continue;
        }
        if let Some(current) = current.as_ref().filter(|current| write.op == Op::Put && unchanged(&write, current)) {
            judged.answers.push(Ok(Arc::clone(current)));
            continue;
        }
        if room.is_low() && grows(&write, current.as_deref()) {
            judged.answers.push(Err(Refused::Full(room)));
            continue;
        }
        revision = revision.next();
        let object = Arc::new(Stored {
            text: Text::Plain(write.document.fill(revision)),
            created: current.as_ref().map_or(revision, |current| current.created),
            key: current.as_ref().map_or_else(|| Arc::new(write.key), |current| Arc::clone(&current.key)),
            meta: write.meta,
            revision,
        });
        let left = (write.op == Op::Put).then(|| Arc::clone(&object));
        written.insert(Arc::clone(&object.key), left);
        judged.answers.push(Ok(Arc::clone(&object)));
        judged.events.push(Event { op: write.op, object, previous: current });
    }
    judged
}

/// The answers to a batch that there was no room for. `revision` is the last one that is kept.
pub(crate) fn refuse(
    answers: Vec<Result<Arc<Stored>, Refused>>,
    revision: Revision,
    room: Room,
) -> Vec<Result<Arc<Stored>, Refused>> {
    // Refusals may rest on an earlier write of the batch, which was not kept either.
    let refuse = |answer: Result<Arc<Stored>, Refused>| match answer {
        Ok(unchanged) if unchanged.revision <= revision => Ok(unchanged),
        _ => Err(Refused::Full(room)),
    };
    answers.into_iter().map(refuse).collect()
}

fn meets(write: &Write, current: Option<&Arc<Stored>>) -> Result<(), Refused> {
    match (write.expect, current) {
        (Expect::Absent, Some(current)) => Err(Refused::Exists(Arc::clone(current))),
        // Deleting what is expected to be absent has nothing to delete.
        (Expect::Absent, None) if write.op == Op::Delete => Err(Refused::NotFound),
        (Expect::Absent, None) => Ok(()),
        (Expect::At(_), None) => Err(Refused::NotFound),
        (Expect::At(revision), Some(current)) if current.revision != revision => {
            Err(Refused::Conflict(Arc::clone(current)))
        }
        (Expect::At(_), Some(_)) => Ok(()),
    }
}

/// Whether more is kept after the write than before.
fn grows(write: &Write, current: Option<&Stored>) -> bool {
    // A stored document is longer by its revision, whose digits must not count as room that the write gives back.
    let held = current.map_or(0, |current| current.size() - current.revision.to_string().len());
    // Deleting takes several writes when someone holds the object, and the first one only adds a mark.
    write.op == Op::Put && !write.meta.deleting && write.document.size() > held
}

fn unchanged(write: &Write, current: &Stored) -> bool {
    // A write that changes nothing does not lengthen a life either.
    write.document.is_same_as(current) && write.meta.says_the_same(&current.meta)
}
