//! How far back the store remembers. Every event has its place here, oldest first over all resources; what falls off
//! the end is forgotten by its resource's log and its key's versions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{Revision, Timestamp};

use crate::object::{Key, Op};
use crate::watch::Event;

/// Bounds of the history, over all resources together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// About how much memory is taken by what only history keeps: old versions, deleted objects, and the order of events.
    /// The first bound: whatever the load, memory holds.
    pub history_bytes: usize,
    /// How long an event is remembered when there is room.
    pub history_age: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { history_bytes: 32 << 20, history_age: Duration::from_secs(5 * 60) }
    }
}

/// What an event takes: its places in the log and here.
const BYTES_PER_EVENT: usize = 96;
/// What a version takes besides its document: the object around it, its `Meta`, its place among its key's versions.
const BYTES_PER_VERSION: usize = 448;

pub(crate) struct History {
    limits: Limits,
    marks: VecDeque<Mark>,
    bytes: usize,
}

/// The place of one event.
struct Mark {
    revision: Revision,
    key: Arc<Key>,
    at: Timestamp,
    bytes: usize,
}

impl History {
    pub fn new(limits: Limits) -> History {
        History { limits, marks: VecDeque::new(), bytes: 0 }
    }

    pub fn remember(&mut self, event: &Event, now: Timestamp) {
        let Event { op, object, previous } = event;
        // What is forgotten with the event: the version that it replaced, and the last one of a deleted object. The
        // current one stays, whatever becomes of its event.
        let deleted = Some(object).filter(|_| *op == Op::Delete);
        let old = previous.iter().chain(deleted).map(|version| version.size() + BYTES_PER_VERSION);
        let bytes = BYTES_PER_EVENT + old.sum::<usize>();
        self.bytes += bytes;
        self.marks.push_back(Mark { revision: object.revision, key: Arc::clone(&object.key), at: now, bytes });
    }

    /// Takes the oldest event out if a limit asks for it and no list that is under way reads behind it.
    pub fn forget_oldest(&mut self, now: Timestamp, held: Option<Revision>) -> Option<(Arc<Key>, Revision)> {
        let oldest = self.marks.front()?;
        let too_old = now.checked_sub(self.limits.history_age).is_ok_and(|horizon| oldest.at < horizon);
        let is_held = held.is_some_and(|held| held < oldest.revision);
        if is_held || !(too_old || self.bytes > self.limits.history_bytes) {
            return None;
        }
        let oldest = self.marks.pop_front()?;
        self.bytes -= oldest.bytes;
        Some((oldest.key, oldest.revision))
    }
}

/// The revisions that lists under way read at. History is not cut behind the lowest, so a list can let go of the state
/// between two pieces. Lists take milliseconds: the limits are exceeded by no more than is written meanwhile.
#[derive(Default)]
pub(crate) struct Holds(Mutex<BTreeMap<Revision, usize>>);

impl Holds {
    /// Holds the history at `revision` until the guard is dropped. Called while the state is locked.
    pub fn hold(&self, revision: Revision) -> Hold<'_> {
        *self.locked().entry(revision).or_insert(0) += 1;
        Hold { holds: self, revision }
    }

    /// The lowest revision held.
    pub fn lowest(&self) -> Option<Revision> {
        self.locked().keys().next().copied()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeMap<Revision, usize>> {
        // A count is whole at every point where its holder could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Holds::hold`].
pub(crate) struct Hold<'a> {
    holds: &'a Holds,
    revision: Revision,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut counts = self.holds.locked();
        if let Some(count) = counts.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.revision);
            }
        }
    }
}
