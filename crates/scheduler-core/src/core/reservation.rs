//! Reserves room for starved units: groups, and single pods that are larger than what comes free by itself.
//!
//! While a reservation lasts, units behind the unit in queue order can use only what its pods would leave of those
//! nodes. It ends when the unit is placed or gone, and otherwise by itself, so that no wrong guess about which pods
//! will end can block a cluster: soon if nothing becomes free, when the unit would fit on no nodes any more, and at the
//! latest after `max_reservation`. The next reservation for the same unit comes after a longer pause, and the next for
//! any unit when the [`ReservationBudget`](crate::reservation::ReservationBudget) allows it.

use std::collections::BTreeMap;
use std::time::Duration;

use types::Timestamp;
use types::clock::rfc3339;

use super::Core;
use crate::cluster::NodeIndex;
use crate::cluster::compact_timestamp::saturating_add;
use crate::cluster::ghosts::{GhostPods, GhostPurpose, GhostSetId, GhostView};
use crate::explain::explanation::ReservationReport;
use crate::queue::{QueueOrder, UnitId};
use crate::reservation::{self, ActiveReservation, PlanBasis};

/// How often the free capacity is computed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How many reservations there may be at once. Each decision passes over all of them.
const MAX_RESERVATIONS: usize = 16;
/// How many plans are made in one check interval. A plan reads all nodes.
const MAX_PLANS: usize = 4;

impl Core {
    /// Ends reservations that are over, and begins those of starved units.
    pub(super) fn update_reservations(&mut self, now: Timestamp) {
        let is_starved = self.queue.next_starved_at().is_some_and(|at| at <= now);
        // Nearly always there are none. Time without them is charged with the next one, from the first call on.
        let is_idle = !is_starved && self.reservations.is_empty() && self.dropped_reservations.is_empty();
        if is_idle && self.reservation_budget.counted_until().is_some() {
            return;
        }
        self.settle_dropped(now);
        self.check_reservations(now);
        self.end_reservations(now);
        self.begin_reservations(now);
    }

    /// When to check reservations although nothing changes.
    pub(super) fn next_reservation_at(&self) -> Option<Timestamp> {
        let next_end = self.reservations.values().map(ActiveReservation::ends_at).min();
        let next_starved = self.queue.next_starved_at().filter(|_| self.reservations.len() < MAX_RESERVATIONS);
        let opens_at = self.reservation_budget.opens_at().map(|at| at.max(self.plans_open_at));
        let next_start = next_starved.zip(opens_at).map(|(starved, opens)| starved.max(opens));
        let is_outdated = !self.reservations.is_empty() && self.idle_as_of != self.remedy_schedule.changes_count();
        let next_check = if is_outdated { self.next_check_at() } else { None };
        next_end.into_iter().chain(next_start).chain(next_check).min()
    }

    /// Which ghosts the unit sees: those of units before it.
    pub(super) fn ghosts_before(&self, unit: UnitId) -> GhostView {
        let own = self.reservations.get(&unit).map(|active| active.ghosts);
        GhostView { before: self.queue.order_of(unit), own }
    }

    /// Shows the columns as the unit may use them: without its own ghosts and those of all units behind it.
    pub(super) fn show_ghosts_to(&mut self, unit: UnitId) {
        if self.cluster.has_ghosts() {
            self.cluster.show_ghosts(self.ghosts_before(unit));
        }
    }

    /// Adds ghosts. Where more pods can help others, ghosts can.
    pub(super) fn add_ghosts(&mut self, order: QueueOrder, purpose: GhostPurpose, pods: Vec<GhostPods>) -> GhostSetId {
        let nodes: Vec<NodeIndex> = pods.iter().map(|ghosts| ghosts.node).collect();
        let id = self.cluster.add_ghosts(order, purpose, pods);
        self.remedy_schedule.cluster_changed();
        self.wake_beside_placed(nodes.into_iter());
        id
    }

    /// Removes ghosts, and wakes the units that may use the room.
    pub(super) fn remove_ghosts(&mut self, id: GhostSetId) {
        let nodes = self.cluster.remove_ghosts(id);
        self.remedy_schedule.cluster_changed();
        self.wake_where_ghosts_left(&nodes);
        self.queue.ghosts_left();
    }

    /// What is reserved for the unit.
    pub(super) fn reservation_report(&self, unit: UnitId) -> Option<ReservationReport> {
        let active = self.reservations.get(&unit)?;
        let ghosts = self.cluster.ghosts_of(active.ghosts);
        let mut nodes: Vec<NodeIndex> = ghosts.iter().map(|ghosts| ghosts.node).collect();
        nodes.dedup();
        Some(ReservationReport {
            since: active.started,
            until: active.until,
            pods_count: ghosts.iter().map(|ghosts| ghosts.count as usize).sum(),
            free_pods_count: active.free_pods_count,
            nodes_count: nodes.len(),
        })
    }

    /// The unit was placed: its reservation ends, if there is one.
    pub(super) fn end_reservation_of(&mut self, unit: UnitId, now: Timestamp) {
        if self.reservations.contains_key(&unit) {
            self.end_reservation(unit, now);
        }
    }

    /// Once per interval: charges what is kept idle, records what has become free, and plans again what changed.
    fn check_reservations(&mut self, now: Timestamp) {
        let is_due = self.next_check_at().is_none_or(|at| at <= now);
        if is_due || self.reservations.values().any(|active| active.ends_at() <= now) {
            for unit in self.reservations.keys().copied().collect::<Vec<_>>() {
                self.replan(unit, now);
            }
            self.charge_idle(now);
        }
    }

    fn next_check_at(&self) -> Option<Timestamp> {
        self.reservation_budget.counted_until().map(|at| saturating_add(at, CHECK_INTERVAL))
    }

    /// Plans again if nodes or the unit changed so that the ghosts are of no use. A unit that would not fit any more
    /// has no reservation.
    fn replan(&mut self, unit: UnitId, now: Timestamp) {
        let Some(demand) = self.demand(unit).filter(|_| self.queue.is_refused(unit)) else { return };
        let (active, basis) = (&self.reservations[&unit], PlanBasis::of(&demand, &self.cluster));
        if active.basis == basis {
            return;
        }
        let (own, order) = (active.ghosts, active.order);
        let is_same_size = active.basis.required_count == basis.required_count;
        let ghosts = self.cluster.ghosts_of(own).to_vec();
        if !is_same_size || !reservation::is_possible(&ghosts, &demand, &self.cluster, &mut self.classes) {
            self.show_ghosts_to(unit);
            let ghosts = reservation::plan_reservation(&demand, Some(own), &mut self.cluster, &mut self.classes);
            if ghosts.is_empty() {
                self.end_reservation(unit, now);
                return self.queue.reservation_failed(unit, now);
            }
            self.replace_ghosts(unit, ghosts, order);
        }
        if let Some(active) = self.reservations.get_mut(&unit) {
            active.basis = basis;
        }
    }

    fn replace_ghosts(&mut self, unit: UnitId, ghosts: Vec<GhostPods>, order: QueueOrder) {
        let Some(before) = self.reservations.get(&unit).map(|active| active.ghosts) else { return };
        let Some(purpose) = self.cluster.ghost_purpose(before).cloned() else { return };
        let ghosts = self.add_ghosts(order, purpose, ghosts);
        if let Some(active) = self.reservations.get_mut(&unit) {
            (active.ghosts, active.order) = (ghosts, order);
        }
        self.remove_ghosts(before);
    }

    /// Charges the time up to now, and computes what is free and kept idle from now on.
    fn charge_idle(&mut self, now: Timestamp) {
        self.idle_as_of = self.remedy_schedule.changes_count();
        if self.reservations.is_empty() {
            return self.reservation_budget.charge(now, 0);
        }
        let capacity = self.cluster.reserved_capacity();
        self.reservation_budget.charge(now, capacity.idle_millionths);
        for active in self.reservations.values_mut() {
            let of_unit = |pods: &BTreeMap<GhostSetId, i64>| pods.get(&active.ghosts).copied().unwrap_or(0);
            active.record_free(of_unit(&capacity.pods_milli), of_unit(&capacity.whole_pods), now);
        }
    }

    fn end_reservations(&mut self, now: Timestamp) {
        let current: Vec<_> = self.reservations.iter().map(|(unit, one)| (*unit, one.ends_at(), one.order)).collect();
        for (unit, ends_at, order) in current {
            let is_refused = self.queue.is_refused(unit);
            if !is_refused || ends_at <= now {
                self.end_reservation(unit, now);
                if is_refused {
                    self.queue.reservation_failed(unit, now);
                }
            } else if let Some(moved) = self.queue.order_of(unit).filter(|moved| *moved != order) {
                let ghosts = self.cluster.ghosts_of(self.reservations[&unit].ghosts).to_vec();
                self.replace_ghosts(unit, ghosts, moved);
            }
        }
    }

    fn begin_reservations(&mut self, now: Timestamp) {
        let mut plans_count = 0;
        while self.reservations.len() < MAX_RESERVATIONS
            && self.reservation_budget.opens_at().is_some_and(|at| at <= now)
            && self.plans_open_at <= now
            && let Some(unit) = self.queue.starved(now)
        {
            if self.reservations.contains_key(&unit) {
                self.queue.stop_starvation_timer(unit);
                continue;
            }
            if !self.begin_reservation(unit, now) {
                self.queue.restart_starvation_timer(unit, now);
            }
            plans_count += 1;
            if plans_count == MAX_PLANS {
                self.plans_open_at = saturating_add(now, CHECK_INTERVAL);
            }
        }
    }

    /// Returns false if no room can be reserved for the unit now.
    fn begin_reservation(&mut self, unit: UnitId, now: Timestamp) -> bool {
        let (Some(demand), Some(order)) = (self.demand(unit), self.queue.order_of(unit)) else { return false };
        self.show_ghosts_to(unit);
        let ghosts = reservation::plan_reservation(&demand, None, &mut self.cluster, &mut self.classes);
        if ghosts.is_empty() {
            return false;
        }
        let until = saturating_add(now, self.config.max_reservation);
        let name = self.name_of(unit);
        let reserved_for = format!("{}, which waits longer, until {} at the latest", name.key(), rfc3339(until));
        let ghosts = self.add_ghosts(order, GhostPurpose::Reservation { reserved_for }, ghosts);
        self.queue.stop_starvation_timer(unit);
        let active = ActiveReservation {
            ghosts,
            order,
            basis: PlanBasis::of(&demand, &self.cluster),
            started: now,
            until,
            free_pods_count: 0,
            best_pods_milli: 0,
            progress_at: now,
        };
        self.reservations.insert(unit, active);
        self.charge_idle(now);
        true
    }

    fn end_reservation(&mut self, unit: UnitId, now: Timestamp) {
        self.drop_reservation(unit);
        self.settle_dropped(now);
    }

    /// The unit is gone, or its reservation ends. The time is needed only for the budget.
    pub(super) fn drop_reservation(&mut self, unit: UnitId) {
        let Some(active) = self.reservations.remove(&unit) else { return };
        self.dropped_reservations.push(active.started);
        self.remove_ghosts(active.ghosts);
    }

    fn settle_dropped(&mut self, now: Timestamp) {
        if !self.dropped_reservations.is_empty() {
            self.charge_idle(now);
            let started = std::mem::take(&mut self.dropped_reservations);
            started.into_iter().for_each(|started| self.reservation_budget.reservation_ended(started, now));
        }
    }
}
