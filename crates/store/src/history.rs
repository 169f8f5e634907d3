//! The history and its limits. It has an entry per event, oldest first over all resources. When an entry is
//! compacted, its resource's log and its key's versions drop what ended with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use types::{Revision, Timestamp};

use crate::object::{Op, StoreKey};
use crate::watch::StoreEvent;

/// Limits of the history, over all resources together.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Approximate memory of data that only the history needs: old versions, deleted objects, and the order of events.
    /// This limit holds under any load.
    pub max_history_bytes: usize,
    /// How long an event is kept while memory allows.
    pub max_history_age: Duration,
}

impl Default for HistoryLimits {
    fn default() -> HistoryLimits {
        HistoryLimits { max_history_bytes: 32 << 20, max_history_age: Duration::from_secs(5 * 60) }
    }
}

/// Memory of an event: its entries in the log and here.
const BYTES_PER_EVENT: usize = 96;
/// Memory of a version besides its document: the object, its `StoredMeta`, its entry among its key's versions.
const BYTES_PER_VERSION: usize = 448;

pub(crate) struct EventHistory {
    limits: HistoryLimits,
    entries: VecDeque<HistoryEntry>,
    bytes: usize,
}

/// The entry of one event.
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
        // Dropped with the event: the version that it replaced, and the last version of a deleted object. The current
        // version stays.
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

    /// Removes the oldest event if a limit requires it and no running list reads before it.
    pub fn compact_oldest(&mut self, now: Timestamp, pinned: Option<Revision>) -> Option<(Arc<StoreKey>, Revision)> {
        let oldest = self.entries.front()?;
        let too_old = now.checked_sub(self.limits.max_history_age).is_ok_and(|horizon| oldest.at < horizon);
        let is_pinned = pinned.is_some_and(|pinned| pinned < oldest.revision);
        if is_pinned || !(too_old || self.bytes > self.limits.max_history_bytes) {
            return None;
        }
        let oldest = self.entries.pop_front()?;
        self.bytes -= oldest.bytes;
        Some((oldest.key, oldest.revision))
    }
}

/// The revisions of running lists. History is not compacted past the lowest, so a list can release the state's lock
/// between two chunks. Lists take milliseconds, so the limits are exceeded only by what is written meanwhile.
#[derive(Default)]
pub(crate) struct HistoryPins(Mutex<BTreeMap<Revision, usize>>);

impl HistoryPins {
    /// Pins the history at `revision` until the guard is dropped. Called with the state locked.
    pub fn pin(&self, revision: Revision) -> HistoryPin<'_> {
        *self.lock().entry(revision).or_insert(0) += 1;
        HistoryPin { pins: self, revision }
    }

    /// The lowest pinned revision.
    pub fn lowest(&self) -> Option<Revision> {
        self.lock().keys().next().copied()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Revision, usize>> {
        // The counts are consistent wherever a holder could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`HistoryPins::pin`].
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
