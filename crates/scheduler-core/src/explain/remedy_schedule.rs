//! For which waiting groups a search for remedies is due.

use std::collections::BTreeSet;
use std::time::Duration;

use rustc_hash::FxHashMap;
use types::Timestamp;

use crate::cluster::compact_timestamp::saturating_add;
use crate::queue::UnitId;
use crate::queue::timers::Timers;

/// How often one of the groups that were not refused again is refreshed. There may be thousands of them, and each
/// takes some milliseconds in a large cluster.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// For which units a search is due.
#[derive(Debug, Default)]
pub(crate) struct RemedySchedule {
    /// The last search of each existing group.
    last: FxHashMap<UnitId, LastSearch>,
    due: Timers<UnitId>,
    /// Reported groups that, as far as is known, still wait.
    by_age: BTreeSet<(LastSearch, UnitId)>,
    /// The number of changes of pods and nodes so far.
    changes_count: u64,
    /// When a group was last refreshed without having been refused again.
    refreshed_at: Option<Timestamp>,
}

/// When a group was last searched and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LastSearch {
    /// The number of changes at that time.
    changes_count: u64,
    at: Timestamp,
}

impl RemedySchedule {
    /// The unit was refused. Returns true if a search is due at once.
    pub(crate) fn schedule(&mut self, unit: UnitId, now: Timestamp, pause: Duration) -> bool {
        let at = self.last.get(&unit).map_or(now, |last| saturating_add(last.at, pause).max(now));
        self.due.set_at(unit, at);
        at == now
    }

    pub(crate) fn next_due(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        let unit = self.due.next_due(now, pause)?;
        self.due.clear(unit);
        Some(unit)
    }

    pub(crate) fn next_stale(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        self.stale_at(pause).filter(|at| *at <= now)?;
        let (_, unit) = self.by_age.pop_first()?;
        Some(unit)
    }

    /// When the next group is to be refreshed because something has changed since its report.
    fn stale_at(&self, pause: Duration) -> Option<Timestamp> {
        // The oldest report has the fewest changes.
        let (oldest, _) = self.by_age.first().filter(|(oldest, _)| oldest.changes_count != self.changes_count)?;
        let not_before = self.refreshed_at.map_or(oldest.at, |refreshed| refreshed + REFRESH_INTERVAL);
        Some(saturating_add(oldest.at, pause).max(not_before))
    }

    pub(crate) fn next_at(&self, pause: Duration) -> Option<Timestamp> {
        self.due.next_at().into_iter().chain(self.stale_at(pause)).min()
    }

    /// Records a search for the unit.
    pub(crate) fn record_search(&mut self, unit: UnitId, now: Timestamp) {
        let search = LastSearch { changes_count: self.changes_count, at: now };
        if let Some(before) = self.last.insert(unit, search)
            && !self.by_age.remove(&(before, unit))
        {
            // `next_stale` removed it, so it was not refused again.
            self.refreshed_at = Some(now);
        }
        self.by_age.insert((search, unit));
    }

    /// Pods or nodes have changed.
    pub(crate) fn cluster_changed(&mut self) {
        self.changes_count += 1;
    }

    /// The number of changes of pods and nodes so far.
    pub(crate) fn changes_count(&self) -> u64 {
        self.changes_count
    }

    /// Removes the unit.
    pub(crate) fn forget(&mut self, unit: UnitId) {
        self.due.clear(unit);
        if let Some(search) = self.last.remove(&unit) {
            self.by_age.remove(&(search, unit));
        }
    }
}
