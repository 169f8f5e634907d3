//! How far back the store remembers. Every event has its place here, oldest first over all resources; what falls off
//! the end is forgotten by its resource's log and its key's versions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use types::{Revision, Timestamp};

use crate::object::{Op, StoreKey};
use crate::watch::StoreEvent;

/// Bounds of the history, over all resources together.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// About how much memory is taken by what only history keeps: old versions, deleted objects, and the order of events.
    /// The first bound: whatever the load, memory holds.
    pub max_history_bytes: usize,
    /// How long an event is remembered when there is room.
    pub max_history_age: Duration,
}

impl Default for HistoryLimits {
    fn default() -> HistoryLimits {
        HistoryLimits { max_history_bytes: 32 << 20, max_history_age: Duration::from_secs(5 * 60) }
    }
}

/// What an event takes: its places in the log and here.
const BYTES_PER_EVENT: usize = 96;
/// What a version takes besides its document: the object around it, its `Meta`, its place among its key's versions.
const BYTES_PER_VERSION: usize = 448;

pub(crate) struct EventHistory {
    limits: HistoryLimits,
    entries: VecDeque<HistoryEntry>,
    bytes: usize,
}

/// The place of one event.
struct HistoryEntry {
    revision: Revision,
    key: Arc<StoreKey>,
    at: Timestamp,
    bytes: usize,
}

impl EventHistory {
    pub fn new(limits: HistoryLimits) -> EventHistory {
        EventHistory { limits, entries: VecDeque::new(), bytes: 0 }
    }

    pub fn record(&mut self, event: &StoreEvent, now: Timestamp) {
        let StoreEvent { op, object, previous } = event;
        // What is forgotten with the event: the version that it replaced, and the last one of a deleted object. The
        // current one stays, whatever becomes of its event.
        let deleted = Some(object).filter(|_| *op == Op::Delete);
        let old = previous.iter().chain(deleted).map(|version| version.size() + BYTES_PER_VERSION);
        let bytes = BYTES_PER_EVENT + old.sum::<usize>();
        self.bytes += bytes;
        self.entries.push_back(HistoryEntry {
            revision: object.revision,
            key: Arc::clone(&object.key),
            at: now,
            bytes,
        });
    }

    /// Takes the oldest event out if a limit asks for it and no list that is under way reads behind it.
    pub fn compact_oldest(&mut self, now: Timestamp, held: Option<Revision>) -> Option<(Arc<StoreKey>, Revision)> {
        let oldest = self.entries.front()?;
        let too_old = now.checked_sub(self.limits.max_history_age).is_ok_and(|horizon| oldest.at < horizon);
        let is_held = held.is_some_and(|held| held < oldest.revision);
        if is_held || !(too_old || self.bytes > self.limits.max_history_bytes) {
            return None;
        }
        let oldest = self.entries.pop_front()?;
        self.bytes -= oldest.bytes;
        Some((oldest.key, oldest.revision))
    }
}

/// The revisions that lists under way read at. History is not cut behind the lowest, so a list can let go of the state
/// between two pieces. Lists take milliseconds: the limits are exceeded by no more than is written meanwhile.
#[derive(Default)]
pub(crate) struct HistoryPins(Mutex<BTreeMap<Revision, usize>>);

impl HistoryPins {
    /// Holds the history at `revision` until the guard is dropped. Called while the state is locked.
    pub fn pin(&self, revision: Revision) -> HistoryPin<'_> {
        *self.lock().entry(revision).or_insert(0) += 1;
        HistoryPin { pins: self, revision }
    }

    /// The lowest revision held.
    pub fn lowest(&self) -> Option<Revision> {
        self.lock().keys().next().copied()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Revision, usize>> {
        // A count is whole at every point where its holder could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Holds::hold`].
pub(crate) struct HistoryPin<'a> {
    pins: &'a HistoryPins,
    revision: Revision,
}

impl Drop for HistoryPin<'_> {
    fn drop(&mut self) {
        let mut counts = self.pins.lock();
        if let Some(count) = counts.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.revision);
            }
        }
    }
}
