//! Units that wait for capacity, by what would help them.
//!
//! Units with equal demand share one entry. Only the first of them in queue order is woken: if it does not fit, the others
//! do not fit either. If it is placed, the next one is woken. So a change that helps one of ten thousand equal gangs costs
//! two decisions and not ten thousand.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::counts::QueueEvent;
use super::{QueueOrder, UnitId, UnschedulableEntry};
use crate::cluster::TopologyId;
use crate::demand::classes::ClassId;
use crate::placement::certificate::Certificate;

/// What units must have in common to be equal: the same pods to place, as many of them required, and the same topology
/// key. None of their pods is placed yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EqualDemand {
    pub(crate) class_counts: Vec<(ClassId, usize)>,
    pub(crate) required_count: usize,
    pub(crate) topology: Option<TopologyId>,
}

/// Identifies a set of equal units while one of them waits or is awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EqualId(u32);

/// What is listed under a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waiter {
    Unit(UnitId),
    Equal(EqualId),
}

/// Units with equal demand.
#[derive(Debug)]
struct EqualUnits {
    demand: Arc<EqualDemand>,
    waiting: BTreeSet<(QueueOrder, UnitId)>,
    /// The one that was woken for all of them and is not decided yet, and what woke it.
    awake: Option<(UnitId, QueueEvent)>,
    /// Whether a change that could help them came while that one was awake.
    changed_meanwhile: bool,
}

/// A unit to be made ready, and why.
pub(super) type WokenUnit = (UnitId, QueueEvent);

/// What waits for slots of one class.
#[derive(Debug, Default)]
struct ClassWaiters {
    /// How many slots came up since the first of them was listed. Slots that were used again are not subtracted, so
    /// this is at least what there is more.
    grown: u64,
    /// From which growth on each can fit.
    thresholds: BTreeMap<Waiter, u64>,
    by_threshold: BTreeSet<(u64, Waiter)>,
}

impl ClassWaiters {
    /// Lists a waiter that can fit once there are this many more slots than now.
    fn set(&mut self, waiter: Waiter, growth: u64) {
        self.remove(waiter);
        let threshold = self.grown.saturating_add(growth);
        self.thresholds.insert(waiter, threshold);
        self.by_threshold.insert((threshold, waiter));
    }

    fn remove(&mut self, waiter: Waiter) {
        if let Some(threshold) = self.thresholds.remove(&waiter) {
            self.by_threshold.remove(&(threshold, waiter));
        }
    }

    fn due(&self) -> impl Iterator<Item = Waiter> + '_ {
        self.by_threshold.iter().take_while(|(threshold, _)| *threshold <= self.grown).map(|(_, waiter)| *waiter)
    }
}

/// All units that wait for capacity.
#[derive(Debug, Default)]
pub(super) struct WaitingUnits {
    by_class: BTreeMap<ClassId, ClassWaiters>,
    /// Those that need capacity for several classes at once, and for which growth of a resource can be enough.
    mixed: BTreeMap<ClassId, BTreeSet<Waiter>>,
    /// Those for which the nodes are too small or too few even without pods.
    hopeless: BTreeMap<ClassId, BTreeSet<Waiter>>,
    in_one_domain: BTreeSet<Waiter>,
    equal: BTreeMap<EqualId, EqualUnits>,
    equal_ids: BTreeMap<Arc<EqualDemand>, EqualId>,
    awake: BTreeMap<UnitId, EqualId>,
    last_equal_id: u32,
}

impl WaitingUnits {
    /// Classes of the units.
    pub(super) fn classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.by_class.keys().copied()
    }

    /// Those of them for which growth of a resource can be enough.
    pub(super) fn mixed_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.mixed.keys().copied()
    }

    /// Those of units for which the nodes are too small or too few even without pods.
    pub(super) fn hopeless_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.hopeless.keys().copied()
    }

    /// Adds a unit that was refused. Returns a unit to wake instead of it, if it had been woken for others and its demand
    /// has changed since.
    pub(super) fn insert(
        &mut self,
        (unit, order): (UnitId, QueueOrder),
        entry: &mut UnschedulableEntry,
        demand: Option<EqualDemand>,
    ) -> Option<WokenUnit> {
        entry.equal = demand.map(|demand| self.equal_id(demand));
        let Some(id) = entry.equal else {
            self.list(Waiter::Unit(unit), &entry.certificate);
            return self.pass_on(unit);
        };
        let equal = self.equal.get_mut(&id).expect("an id exists while it is used");
        equal.waiting.insert((order, unit));
        // Of equal units none fits where the first does not, which has the newest certificate.
        let is_first = equal.waiting.first().is_some_and(|(_, first)| *first == unit);
        if is_first {
            self.unlist(Waiter::Equal(id), &entry.certificate);
            self.list(Waiter::Equal(id), &entry.certificate);
        }
        if self.awake.get(&unit) == Some(&id) {
            self.awake.remove(&unit);
            let equal = self.equal.get_mut(&id).expect("an id exists while it is used");
            let (_, by) = equal.awake.take()?;
            // It was woken for its equals, and does not fit: neither do they. But if another unit came before it meanwhile,
            // that one has an older certificate, for which a change that came meanwhile was not counted.
            let is_outdated = std::mem::take(&mut equal.changed_meanwhile) || entry.certificate.rests_on_resources();
            return if is_outdated && !is_first { self.wake_first(id, by) } else { None };
        }
        self.pass_on(unit)
    }

    /// Removes a unit. Returns the one that is first of its equals instead, if it was.
    pub(super) fn remove(&mut self, (unit, order): (UnitId, QueueOrder), entry: &UnschedulableEntry) -> Option<UnitId> {
        let Some(id) = entry.equal else {
            self.unlist(Waiter::Unit(unit), &entry.certificate);
            return None;
        };
        let equal = self.equal.get_mut(&id).expect("an id exists while it is used");
        equal.waiting.remove(&(order, unit));
        if equal.waiting.is_empty() {
            self.unlist(Waiter::Equal(id), &entry.certificate);
            self.drop_unused(id);
            return None;
        }
        equal.waiting.first().filter(|first| **first > (order, unit)).map(|(_, first)| *first)
    }

    /// Whether no unit with the same demand waits before this one.
    pub(super) fn is_first(&self, unit: UnitId, entry: &UnschedulableEntry) -> bool {
        let equal = entry.equal.and_then(|id| self.equal.get(&id));
        equal.and_then(|equal| equal.waiting.first()).is_none_or(|(_, first)| *first == unit)
    }

    /// The queue order of a unit is another one.
    pub(super) fn reorder(&mut self, unit: UnitId, before: QueueOrder, order: QueueOrder, entry: &UnschedulableEntry) {
        if let Some(equal) = entry.equal.and_then(|id| self.equal.get_mut(&id))
            && equal.waiting.remove(&(before, unit))
        {
            equal.waiting.insert((order, unit));
        }
    }

    /// Whether a unit with the same demand is awake.
    pub(super) fn is_equal_awake(&self, entry: &UnschedulableEntry) -> bool {
        entry.equal.and_then(|id| self.equal.get(&id)).is_some_and(|equal| equal.awake.is_some())
    }

    /// There are more slots for a class than before. Returns the units that may fit by now.
    pub(super) fn slots_grew(&mut self, class: ClassId, growth: u64) -> Vec<UnitId> {
        let Some(waiters) = self.by_class.get_mut(&class) else { return Vec::new() };
        waiters.grown = waiters.grown.saturating_add(growth);
        let due: Vec<Waiter> = waiters.due().collect();
        due.into_iter().filter_map(|waiter| self.next_of(waiter)).collect()
    }

    /// The units that wait for a class, equal ones once.
    pub(super) fn waiting_for(&mut self, class: ClassId) -> Vec<UnitId> {
        let waiters = self.by_class.get(&class).into_iter().flat_map(|waiters| waiters.thresholds.keys());
        let waiters: Vec<Waiter> = waiters.copied().collect();
        waiters.into_iter().filter_map(|waiter| self.next_of(waiter)).collect()
    }

    /// Those of them for which growth of a resource can be enough.
    pub(super) fn mixed_waiting_for(&mut self, class: ClassId) -> Vec<UnitId> {
        let waiters: Vec<Waiter> = self.mixed.get(&class).into_iter().flatten().copied().collect();
        waiters.into_iter().filter_map(|waiter| self.next_of(waiter)).collect()
    }

    /// Those of them for which the nodes are too small or too few even without pods.
    pub(super) fn hopeless_waiting_for(&mut self, class: ClassId) -> Vec<UnitId> {
        let waiters: Vec<Waiter> = self.hopeless.get(&class).into_iter().flatten().copied().collect();
        waiters.into_iter().filter_map(|waiter| self.next_of(waiter)).collect()
    }

    /// Those whose pods must share a domain.
    pub(super) fn waiting_in_one_domain(&mut self) -> Vec<UnitId> {
        let waiters: Vec<Waiter> = self.in_one_domain.iter().copied().collect();
        waiters.into_iter().filter_map(|waiter| self.next_of(waiter)).collect()
    }

    /// The unit that is woken for a waiter; none if one of equal units is awake already.
    fn next_of(&mut self, waiter: Waiter) -> Option<UnitId> {
        match waiter {
            Waiter::Unit(unit) => Some(unit),
            Waiter::Equal(id) => {
                let equal = self.equal.get_mut(&id)?;
                equal.changed_meanwhile |= equal.awake.is_some();
                let first = equal.waiting.first().filter(|_| equal.awake.is_none());
                first.map(|(_, unit)| *unit)
            }
        }
    }

    /// Too few slots are there for a unit, by the sums.
    pub(super) fn set_missing_slots(&mut self, unit: UnitId, entry: &UnschedulableEntry, missing_slots: u64) {
        let growth = entry.certificate.least_growth(missing_slots);
        let waiter = entry.equal.map_or(Waiter::Unit(unit), Waiter::Equal);
        for class in &entry.certificate.classes {
            self.by_class.entry(*class).or_default().set(waiter, growth);
        }
    }

    /// The unit is woken, for its equals as well.
    pub(super) fn wake(&mut self, unit: UnitId, entry: &UnschedulableEntry, by: QueueEvent) {
        if let Some(id) = entry.equal
            && let Some(equal) = self.equal.get_mut(&id)
        {
            (equal.awake, equal.changed_meanwhile) = (Some((unit, by)), false);
            self.awake.insert(unit, id);
        }
    }

    /// The first of equal units, unless one of them is awake already.
    fn wake_first(&mut self, id: EqualId, by: QueueEvent) -> Option<WokenUnit> {
        let equal = self.equal.get_mut(&id)?;
        if equal.awake.is_some() {
            return None;
        }
        let (_, unit) = *equal.waiting.first()?;
        (equal.awake, equal.changed_meanwhile) = (Some((unit, by)), false);
        self.awake.insert(unit, id);
        Some((unit, by))
    }

    /// A unit was placed, or is not decided. If it had been woken for others, the next of them is woken.
    pub(super) fn pass_on(&mut self, unit: UnitId) -> Option<WokenUnit> {
        let id = self.awake.remove(&unit)?;
        let (_, by) = self.equal.get_mut(&id)?.awake.take()?;
        let next = self.wake_first(id, by);
        self.drop_unused(id);
        next
    }

    fn equal_id(&mut self, demand: EqualDemand) -> EqualId {
        if let Some(id) = self.equal_ids.get(&demand) {
            return *id;
        }
        self.last_equal_id = self.last_equal_id.wrapping_add(1);
        let (id, demand) = (EqualId(self.last_equal_id), Arc::new(demand));
        self.equal_ids.insert(Arc::clone(&demand), id);
        self.equal.insert(id, EqualUnits { demand, waiting: BTreeSet::new(), awake: None, changed_meanwhile: false });
        id
    }

    fn drop_unused(&mut self, id: EqualId) {
        let is_unused = |equal: &&EqualUnits| equal.waiting.is_empty() && equal.awake.is_none();
        if let Some(equal) = self.equal.get(&id).filter(is_unused) {
            self.equal_ids.remove(&equal.demand);
            self.equal.remove(&id);
        }
    }

    fn list(&mut self, waiter: Waiter, certificate: &Certificate) {
        let growth = certificate.least_growth(certificate.missing_slots);
        for class in &certificate.classes {
            self.by_class.entry(*class).or_default().set(waiter, growth);
            if certificate.rests_on_resources() {
                self.mixed.entry(*class).or_default().insert(waiter);
            }
            if certificate.hopeless_in_shape.is_some() {
                self.hopeless.entry(*class).or_default().insert(waiter);
            }
        }
        if certificate.in_one_domain {
            self.in_one_domain.insert(waiter);
        }
    }

    /// Equal units have certificates for the same classes, though not with the same numbers.
    fn unlist(&mut self, waiter: Waiter, certificate: &Certificate) {
        for class in &certificate.classes {
            if let Entry::Occupied(mut waiters) = self.by_class.entry(*class) {
                waiters.get_mut().remove(waiter);
                if waiters.get().thresholds.is_empty() {
                    waiters.remove();
                }
            }
            for listed in [&mut self.mixed, &mut self.hopeless] {
                if let Entry::Occupied(mut waiters) = listed.entry(*class) {
                    waiters.get_mut().remove(&waiter);
                    if waiters.get().is_empty() {
                        waiters.remove();
                    }
                }
            }
        }
        self.in_one_domain.remove(&waiter);
    }
}
