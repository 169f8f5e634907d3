//! Things to look at again after a while. The time is only known when decisions are made, so an alarm that is set in
//! between begins to run with the next look at the clock.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use types::Timestamp;

use crate::compact_timestamp::saturating_add;

/// At most one alarm for each thing.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    /// None until the next look at the time.
    until: BTreeMap<K, Option<Timestamp>>,
    unstarted: BTreeSet<K>,
    by_time: BTreeSet<(Timestamp, K)>,
}

// Not derived: no key is made up.
impl<K> Default for Timers<K> {
    fn default() -> Timers<K> {
        Timers { until: BTreeMap::new(), unstarted: BTreeSet::new(), by_time: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// Sets an alarm, unless there is one.
    pub(crate) fn set(&mut self, key: K) {
        if let Entry::Vacant(none) = self.until.entry(key) {
            none.insert(None);
            self.unstarted.insert(key);
        }
    }

    /// Takes the alarm back, if there is one.
    pub(crate) fn clear(&mut self, key: K) {
        self.unstarted.remove(&key);
        if let Some(Some(at)) = self.until.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Has the alarm ring at this time instead of any other.
    pub(crate) fn set_at(&mut self, key: K, at: Timestamp) {
        self.clear(key);
        self.until.insert(key, Some(at));
        self.by_time.insert((at, key));
    }

    /// Something whose alarm rings by now. Those set since the last look begin to run, for as long as `pause`.
    pub(crate) fn next_due(&mut self, now: Timestamp, pause: Duration) -> Option<K> {
        for key in std::mem::take(&mut self.unstarted) {
            self.set_at(key, saturating_add(now, pause));
        }
        self.by_time.first().filter(|(at, _)| *at <= now).map(|(_, key)| *key)
    }

    /// When the next one rings.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }
}
