//! Keeps room free for a group that was passed over for too long: one group at a time, and only for so long.
//!
//! While it lasts, units whose turn is after that of the group see only what its pods would leave of those nodes. It ends
//! when the group is placed or gone, and otherwise by itself, so that no mistake about who will leave can block a cluster:
//! soon where nothing comes free, and at the latest after `hold_for`. The next hold for the same group then comes after a
//! longer pause, and the next for any group when the [`HoldBudget`] says so.

use std::collections::BTreeMap;
use std::time::Duration;

use types::Timestamp;
use types::clock::rfc3339;

use super::Core;
use crate::cluster::ReservedCapacity;
use crate::compact_timestamp::saturating_add;
use crate::demand::Demand;
use crate::queue::counts::QueueEvent;
use crate::queue::{QueueOrder, UnitId};
use crate::remedies::Remedy;
use crate::reservation;

/// A hold ends when nothing that it waits for has come free for so long.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// How often it is looked at what has come free.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// For whom nodes are held.
#[derive(Debug)]
pub(super) struct ActiveReservation {
    unit: UnitId,
    order: QueueOrder,
    began: Timestamp,
    until: Timestamp,
    /// What was free at the last look.
    capacity: ReservedCapacity,
    checked_at: Timestamp,
    /// The most pods that had their room so far, in thousandths, and since when.
    best_pods_milli: i64,
    progress_at: Timestamp,
}

impl ActiveReservation {
    /// When it ends by itself, if nothing more comes free.
    pub(super) fn ends_at(&self) -> Timestamp {
        saturating_add(self.progress_at, STALLED_AFTER).min(self.until)
    }
}

impl Core {
    /// Ends a hold that is over, and begins one for the group that was passed over for too long.
    pub(super) fn update_reservation(&mut self, now: Timestamp) {
        self.charge_reservation(now);
        if let Some(holding) = &self.active_reservation {
            let unit = holding.unit;
            if holding.ends_at() > now && self.queue.is_refused(unit) {
                return;
            }
            self.end_reservation(now);
            if self.queue.is_refused(unit) {
                self.queue.reservation_failed(unit, now);
            }
        }
        if self.reservation_budget.opens_at() > now {
            return;
        }
        while let Some(unit) = self.queue.starved(now) {
            self.cluster.enforce_reservation(false);
            let need = self.demand(unit);
            let held = need
                .map(|need| reservation::plan_reservation(&need, &self.cluster, &mut self.classes))
                .unwrap_or_default();
            let Some(turn) = self.queue.order_of(unit).filter(|_| !held.is_empty()) else {
                self.queue.restart_starvation_timer(unit, now);
                continue;
            };
            let until = saturating_add(now, self.config.max_reservation);
            let whom = self.name_of(unit);
            let held_for = format!("{}, which waits longer, until {} at the latest", whom.key(), rfc3339(until));
            self.cluster.set_reservation(held, held_for);
            self.remedy_schedule.cluster_changed();
            let room = self.cluster.reserved_capacity();
            let most = room.pods_milli;
            self.active_reservation = Some(ActiveReservation {
                unit,
                order: turn,
                began: now,
                until,
                capacity: room,
                checked_at: now,
                best_pods_milli: most,
                progress_at: now,
            });
            return;
        }
    }

    /// Takes account of what the hold keeps idle, and of whether something has come free.
    fn charge_reservation(&mut self, now: Timestamp) {
        let Some(holding) = &mut self.active_reservation else { return self.reservation_budget.charge(now, 0) };
        if now < saturating_add(holding.checked_at, CHECK_INTERVAL).min(holding.ends_at()) {
            return;
        }
        self.reservation_budget.charge(now, holding.capacity.idle_millionths);
        (holding.capacity, holding.checked_at) = (self.cluster.reserved_capacity(), now);
        if holding.capacity.pods_milli > holding.best_pods_milli {
            (holding.best_pods_milli, holding.progress_at) = (holding.capacity.pods_milli, now);
        }
    }

    /// When holds are to be looked at, although nothing changes.
    pub(super) fn next_reservation_at(&self) -> Option<Timestamp> {
        match &self.active_reservation {
            Some(holding) => Some(holding.ends_at()),
            None => self.queue.next_starved_at().map(|at| at.max(self.reservation_budget.opens_at())),
        }
    }

    /// Hides the hold from the unit it is for and from those before it, and shows it to the others.
    pub(super) fn enforce_reservation_for(&mut self, unit: UnitId) {
        let after =
            |holding: &ActiveReservation| unit != holding.unit && self.queue.order_of(unit) > Some(holding.order);
        let shown = self.active_reservation.as_ref().is_some_and(after);
        self.cluster.enforce_reservation(shown);
    }

    /// The end of the hold, where that alone is in the way of the unit that is looked at.
    pub(super) fn blocking_reservation(&mut self, demand: &Demand) -> Option<Remedy> {
        let holding = self.active_reservation.as_ref().filter(|_| self.cluster.enforces_reservation())?;
        let (group, until) = (self.name_of(holding.unit).key().clone(), holding.until);
        self.cluster.enforce_reservation(false);
        let fits = self.dry_run(demand).is_none();
        self.cluster.enforce_reservation(true);
        fits.then_some(Remedy::ReservationEnds { group, until })
    }

    /// The unit has what nodes may have been held for.
    pub(super) fn end_reservation_of(&mut self, unit: UnitId, now: Timestamp) {
        if self.active_reservation.as_ref().is_some_and(|holding| holding.unit == unit) {
            self.end_reservation(now);
        }
    }

    fn end_reservation(&mut self, now: Timestamp) {
        if let Some(holding) = self.active_reservation.take() {
            self.reservation_budget.charge(now, holding.capacity.idle_millionths);
            self.reservation_budget.reservation_ended(holding.began, now);
        }
        let nodes: Vec<_> = self.cluster.reserved_nodes().collect();
        self.cluster.set_reservation(BTreeMap::new(), String::new());
        self.remedy_schedule.cluster_changed();
        let waiting: Vec<_> = self.queue.waiting_classes().collect();
        for class in waiting {
            if nodes.iter().any(|node| self.slots(class, *node) > 0) {
                self.queue.wake_class(class, QueueEvent::NodeUpdate);
            }
        }
    }
}
