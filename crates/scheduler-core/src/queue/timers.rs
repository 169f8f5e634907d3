//! Timers for checks that are due after a pause. The time is known only while decisions are made, so a timer that is
//! set in between starts with the next call that has the time.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use types::Timestamp;

use crate::cluster::compact_timestamp::saturating_add;

/// At most one timer per key.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    /// None until the timer starts.
    until: BTreeMap<K, Option<Timestamp>>,
    unstarted: BTreeSet<K>,
    by_time: BTreeSet<(Timestamp, K)>,
}

// Not derived: that would require `K: Default`.
impl<K> Default for Timers<K> {
    fn default() -> Timers<K> {
        Timers { until: BTreeMap::new(), unstarted: BTreeSet::new(), by_time: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// Sets a timer, unless there is one.
    pub(crate) fn set(&mut self, key: K) {
        if let Entry::Vacant(entry) = self.until.entry(key) {
            entry.insert(None);
            self.unstarted.insert(key);
        }
    }

    /// Cancels the timer, if there is one.
    pub(crate) fn clear(&mut self, key: K) {
        self.unstarted.remove(&key);
        if let Some(Some(at)) = self.until.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Sets the timer to this time, replacing any other.
    pub(crate) fn set_at(&mut self, key: K, at: Timestamp) {
        self.clear(key);
        self.until.insert(key, Some(at));
        self.by_time.insert((at, key));
    }

    /// A key whose timer is due. Timers set since the last call start now and run for `pause`.
    pub(crate) fn next_due(&mut self, now: Timestamp, pause: Duration) -> Option<K> {
        while let Some(key) = self.unstarted.pop_first() {
            self.set_at(key, saturating_add(now, pause));
        }
        self.by_time.first().filter(|(at, _)| *at <= now).map(|(_, key)| *key)
    }

    /// When the next timer is due.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }
}
