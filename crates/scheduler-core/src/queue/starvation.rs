//! Which refused units are starved: overtaken by later units for too long.
//!
//! Every group that does not fit counts as overtaken. A pod without a group counts only if a later unit was placed since,
//! and only the first of equal pods: what comes free goes to that one, so the others wait for their turn and not for
//! room. A pod that is as small as what comes free is placed before later units, so it never starves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use types::Timestamp;

use super::{Queue, QueueOrder, UnitId, UnitQueueState};
use crate::cluster::compact_timestamp::saturating_add;

/// When each refused unit counts as starved, and what was placed meanwhile.
#[derive(Debug, Default)]
pub(super) struct StarvationTracker {
    /// Refused units, and when each counts as starved.
    due: BTreeSet<(Timestamp, UnitId)>,
    /// Pods without a group among them, with the number of placements before they were refused.
    pods: BTreeMap<UnitId, u64>,
    placements_count: u64,
    /// The number and queue order of placements, without those that are followed by one of a later unit.
    placements: VecDeque<(u64, QueueOrder)>,
    /// Pods that became the first of their equals since the last `tick`.
    pub(super) newly_first: BTreeSet<UnitId>,
}

impl StarvationTracker {
    /// A unit was placed.
    pub(super) fn record_placement(&mut self, order: QueueOrder) {
        self.placements_count += 1;
        if self.pods.is_empty() {
            self.placements.clear();
            return;
        }
        while self.placements.back().is_some_and(|(_, earlier)| *earlier <= order) {
            self.placements.pop_back();
        }
        self.placements.push_back((self.placements_count, order));
    }

    /// Whether a later unit was placed since this one was refused. A group always counts as overtaken.
    fn is_overtaken(&self, unit: UnitId, order: QueueOrder) -> bool {
        let Some(before) = self.pods.get(&unit) else { return matches!(unit, UnitId::Group(_)) };
        // Their orders decrease, so the first one since then has the last order.
        let latest = self.placements.get(self.placements.partition_point(|(number, _)| number <= before));
        latest.is_some_and(|(_, placed)| *placed > order)
    }
}

impl Queue {
    /// A unit was refused: starts its timer if there is none and room may be reserved for it.
    pub(super) fn note_starvation(&mut self, unit: UnitId, may_reserve: bool, now: Timestamp) {
        if self.timings.reserve_after.is_none() || !may_reserve || !self.is_first_of_equals(unit) {
            return self.clear_starvation(unit);
        }
        let latest = saturating_add(now, self.starvation_timeout(unit));
        if self.entries[&unit].starved_at.as_deref().is_none_or(|until| *until > latest) {
            self.restart_starvation_timer(unit, now);
        }
    }

    /// Starts the timers of pods that became the first of their equals.
    pub(super) fn start_timers_of_first_pods(&mut self, now: Timestamp) {
        while let Some(unit) = self.starvation.newly_first.pop_first() {
            let entry = self.entries.get(&unit).filter(|entry| entry.starved_at.is_none());
            let waits = entry.is_some_and(|entry| matches!(entry.state, UnitQueueState::Unschedulable(_)));
            if waits && self.timings.reserve_after.is_some() {
                self.restart_starvation_timer(unit, now);
            }
        }
    }

    /// The starved unit that is first in queue order. Pods that were not overtaken wait again.
    pub(crate) fn starved(&mut self, now: Timestamp) -> Option<UnitId> {
        let due = self.starvation.due.iter().take_while(|(until, _)| *until <= now);
        let (starved, others): (Vec<UnitId>, Vec<UnitId>) = due.map(|(_, unit)| *unit).partition(|unit| {
            self.starvation.is_overtaken(*unit, self.entries[unit].order) && self.is_first_of_equals(*unit)
        });
        others.into_iter().for_each(|unit| self.restart_starvation_timer(unit, now));
        starved.into_iter().min_by_key(|unit| (self.entries[unit].order, *unit))
    }

    /// Restarts the time after which the unit counts as starved.
    pub(crate) fn restart_starvation_timer(&mut self, unit: UnitId, now: Timestamp) {
        let until = saturating_add(now, self.starvation_timeout(unit));
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        if let Some(before) = entry.starved_at.replace(Box::new(until)) {
            self.starvation.due.remove(&(*before, unit));
        }
        self.starvation.due.insert((until, unit));
        if matches!(unit, UnitId::Pod(_)) {
            self.starvation.pods.entry(unit).or_insert(self.starvation.placements_count);
        }
    }

    /// Room is reserved for the unit: it does not count as starved until the timer is restarted.
    pub(crate) fn stop_starvation_timer(&mut self, unit: UnitId) {
        let until = self.entries.get(&unit).and_then(|entry| entry.starved_at.as_deref());
        if let Some(until) = until {
            self.starvation.due.remove(&(*until, unit));
        }
    }

    /// A reservation for the unit ended without its placement. The time until the next one is longer.
    pub(crate) fn reservation_failed(&mut self, unit: UnitId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&unit) {
            entry.failed_reservations_count += 1;
        }
        self.restart_starvation_timer(unit, now);
    }

    /// Whether the unit is refused and was not placed since.
    pub(crate) fn is_refused(&self, unit: UnitId) -> bool {
        self.entries.get(&unit).is_some_and(|entry| entry.starved_at.is_some())
    }

    /// When the next unit counts as starved.
    pub(crate) fn next_starved_at(&self) -> Option<Timestamp> {
        self.starvation.due.first().map(|(at, _)| *at)
    }

    pub(super) fn clear_starvation(&mut self, unit: UnitId) {
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        entry.failed_reservations_count = 0;
        if let Some(until) = entry.starved_at.take() {
            self.starvation.due.remove(&(*until, unit));
            self.starvation.pods.remove(&unit);
        }
    }

    /// How long the unit may be overtaken. It doubles with each reservation without success, so that a unit that
    /// waits for capacity that never becomes free blocks others less and less.
    fn starvation_timeout(&self, unit: UnitId) -> Duration {
        let doublings = self.entries.get(&unit).map_or(0, |entry| entry.failed_reservations_count.min(16));
        let pause = self.timings.reserve_after.unwrap_or(Duration::MAX);
        pause.saturating_mul(1 << doublings).min(self.timings.max_reserve_after.max(pause))
    }

    /// Whether the unit is a group, or the first in queue order of equal waiting pods.
    fn is_first_of_equals(&self, unit: UnitId) -> bool {
        match (unit, self.entries.get(&unit).map(|entry| &entry.state)) {
            (UnitId::Pod(_), Some(UnitQueueState::Unschedulable(waiting))) => self.waiting.is_first(unit, waiting),
            _ => true,
        }
    }
}
