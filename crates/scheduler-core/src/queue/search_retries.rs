//! Units on which a search gave up, and when each is searched again with more effort.
//!
//! What holds: the pause and the effort double with each search of a unit. Only one search is made per second, and only
//! while no unit is ready, so that long searches delay nothing for long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use types::Timestamp;

use super::UnitId;
use crate::cluster::compact_timestamp::saturating_add;

/// The pause before the first search, and the longest one.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// The pause between two searches, whatever their units.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// How many times as many steps as a decision the longest search has: about a sixth of a second by default.
const MAX_EFFORT: usize = 32;

/// The searches that are due.
#[derive(Debug, Default)]
pub(super) struct SearchRetries {
    by_unit: BTreeMap<UnitId, SearchRetry>,
    by_time: BTreeSet<(Timestamp, UnitId)>,
    /// Before this time no search is made.
    opens_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct SearchRetry {
    at: Timestamp,
    /// How often the unit was searched with more effort.
    searches_count: u32,
}

impl SearchRetries {
    /// The search for a unit gave up. A search that is set already stays, also if it is due and was not made yet.
    pub(super) fn schedule(&mut self, unit: UnitId, now: Timestamp) {
        let retry = self.by_unit.entry(unit).or_insert(SearchRetry { at: now, searches_count: 0 });
        if retry.at <= now && !self.by_time.contains(&(retry.at, unit)) {
            let pause = MIN_PAUSE.saturating_mul(1 << retry.searches_count.min(16)).min(MAX_PAUSE);
            retry.at = saturating_add(now, pause);
        }
        self.by_time.insert((retry.at, unit));
    }

    /// The unit has changed, or it is known whether it fits.
    pub(super) fn forget(&mut self, unit: UnitId) {
        if let Some(retry) = self.by_unit.remove(&unit) {
            self.by_time.remove(&(retry.at, unit));
        }
    }

    /// The unit has changed, and `next` is the first of its equals now: that one is searched in its place.
    pub(super) fn pass_on(&mut self, unit: UnitId, next: UnitId) {
        let is_set = |retry: &&SearchRetry, unit| self.by_time.contains(&(retry.at, unit));
        let has_own = self.by_unit.get(&next).filter(|own| is_set(own, next)).is_some();
        if let Some(retry) = self.by_unit.get(&unit).filter(|retry| is_set(retry, unit) && !has_own).copied() {
            self.by_unit.insert(next, retry);
            self.by_time.insert((retry.at, next));
        }
    }

    /// A unit that is to be searched now, and how many times as many steps as a decision it gets.
    pub(super) fn next_due(&mut self, now: Timestamp) -> Option<(UnitId, usize)> {
        self.next_at().filter(|at| *at <= now)?;
        let (_, unit) = self.by_time.pop_first()?;
        let retry = self.by_unit.get_mut(&unit)?;
        retry.searches_count += 1;
        self.opens_at = Some(saturating_add(now, SEARCH_INTERVAL));
        Some((unit, MAX_EFFORT.min(1 << retry.searches_count.min(16))))
    }

    /// When the next search is due.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        let (first, _) = self.by_time.first()?;
        Some(self.opens_at.map_or(*first, |opens_at| opens_at.max(*first)))
    }
}
