//! Reserves capacity for a starved group: one group at a time, and only for a limited time.
//!
//! While the reservation lasts, units behind the group in queue order can use only what its pods would leave of those
//! nodes. It ends when the group is placed or gone, and otherwise by itself, so that no wrong guess about which pods
//! will end can block a cluster: soon if nothing becomes free, and at the latest after `max_reservation`. The next
//! reservation for the same group comes after a longer pause, and the next for any group when the
//! [`ReservationBudget`](crate::reservation::ReservationBudget) allows it.

use std::collections::BTreeMap;
use std::time::Duration;

use types::Timestamp;
use types::clock::rfc3339;

use super::Core;
use crate::cluster::compact_timestamp::saturating_add;
use crate::queue::UnitId;
use crate::queue::counts::QueueEvent;
use crate::reservation::{self, ActiveReservation};

/// How often the free capacity is computed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Core {
    /// Ends a reservation that is over, and begins one for a starved group.
    pub(super) fn update_reservation(&mut self, now: Timestamp) {
        self.charge_reservation(now);
        if let Some(active) = &self.active_reservation {
            let unit = active.unit;
            if active.ends_at() > now && self.queue.is_refused(unit) {
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
            let demand = self.demand(unit);
            let nodes = demand
                .map(|demand| reservation::plan_reservation(&demand, &self.cluster, &mut self.classes))
                .unwrap_or_default();
            let Some(order) = self.queue.order_of(unit).filter(|_| !nodes.is_empty()) else {
                self.queue.restart_starvation_timer(unit, now);
                continue;
            };
            let until = saturating_add(now, self.config.max_reservation);
            let name = self.name_of(unit);
            let reserved_for = format!("{}, which waits longer, until {} at the latest", name.key(), rfc3339(until));
            self.cluster.set_reservation(nodes, reserved_for);
            self.remedy_schedule.cluster_changed();
            let capacity = self.cluster.reserved_capacity();
            self.active_reservation = Some(ActiveReservation {
                unit,
                order,
                started: now,
                until,
                capacity,
                checked_at: now,
                best_pods_milli: capacity.pods_milli,
                progress_at: now,
            });
            return;
        }
    }

    /// Charges the capacity that the reservation keeps idle, and records whether something has become free.
    fn charge_reservation(&mut self, now: Timestamp) {
        let Some(active) = &mut self.active_reservation else { return self.reservation_budget.charge(now, 0) };
        if now < saturating_add(active.checked_at, CHECK_INTERVAL).min(active.ends_at()) {
            return;
        }
        self.reservation_budget.charge(now, active.capacity.idle_millionths);
        (active.capacity, active.checked_at) = (self.cluster.reserved_capacity(), now);
        if active.capacity.pods_milli > active.best_pods_milli {
            (active.best_pods_milli, active.progress_at) = (active.capacity.pods_milli, now);
        }
    }

    /// When to check reservations although nothing changes.
    pub(super) fn next_reservation_at(&self) -> Option<Timestamp> {
        match &self.active_reservation {
            Some(active) => Some(active.ends_at()),
            None => self.queue.next_starved_at().map(|at| at.max(self.reservation_budget.opens_at())),
        }
    }

    /// Suspends the reservation for its unit and for those before it in queue order, and enforces it for the others.
    pub(super) fn enforce_reservation_for(&mut self, unit: UnitId) {
        self.cluster.enforce_reservation(self.respects_reservation(unit));
    }

    /// Whether the unit is behind the one that capacity is reserved for.
    pub(super) fn respects_reservation(&self, unit: UnitId) -> bool {
        let is_behind =
            |active: &ActiveReservation| unit != active.unit && self.queue.order_of(unit) > Some(active.order);
        self.active_reservation.as_ref().is_some_and(is_behind)
    }

    /// The unit was placed: its reservation ends, if there is one.
    pub(super) fn end_reservation_of(&mut self, unit: UnitId, now: Timestamp) {
        if self.active_reservation.as_ref().is_some_and(|active| active.unit == unit) {
            self.end_reservation(now);
        }
    }

    fn end_reservation(&mut self, now: Timestamp) {
        if let Some(active) = self.active_reservation.take() {
            self.reservation_budget.charge(now, active.capacity.idle_millionths);
            self.reservation_budget.reservation_ended(active.started, now);
        }
        let nodes: Vec<_> = self.cluster.reserved_nodes().collect();
        self.cluster.set_reservation(BTreeMap::new(), String::new());
        self.remedy_schedule.cluster_changed();
        let waiting: Vec<_> = self.queue.waiting_classes().collect();
        for class in waiting {
            if nodes.iter().any(|node| self.slots(class, *node) > 0) {
                self.wake_class(class, QueueEvent::NodeUpdate);
            }
        }
    }
}
