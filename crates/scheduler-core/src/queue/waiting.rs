//! Units that wait for capacity, by what would help them.
//!
//! Units with equal demand share one entry. Only the first of them in queue order is woken: if it does not fit, the others
//! do not fit either. If it is placed, the next one is woken. So a change that helps one of ten thousand equal gangs costs
//! two decisions and not ten thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::counts::QueueEvent;
use super::{QueueOrder, UnitId, UnschedulableEntry};
use crate::cluster::TopologyId;
use crate::demand::classes::ClassId;

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
}

/// A unit to be made ready, and why.
pub(super) type WokenUnit = (UnitId, QueueEvent);

/// All units that wait for capacity.
#[derive(Debug, Default)]
pub(super) struct WaitingUnits {
    by_class: BTreeMap<ClassId, BTreeSet<Waiter>>,
    /// Those that need capacity for several classes at once.
    mixed: BTreeMap<ClassId, BTreeSet<Waiter>>,
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

    /// Those of them that a unit needs capacity for together with other classes.
    pub(super) fn mixed_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.mixed.keys().copied()
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
            self.list(Waiter::Unit(unit), entry);
            return self.pass_on(unit);
        };
        let equal = self.equal.get_mut(&id).expect("an id exists while it is used");
        if equal.waiting.is_empty() {
            self.list(Waiter::Equal(id), entry);
        }
        let equal = self.equal.get_mut(&id).expect("an id exists while it is used");
        equal.waiting.insert((order, unit));
        // It was woken for its equals, and does not fit: neither do they.
        if self.awake.get(&unit) == Some(&id) {
            self.awake.remove(&unit);
            equal.awake = None;
            return None;
        }
        self.pass_on(unit)
    }

    /// Removes a unit.
    pub(super) fn remove(&mut self, (unit, order): (UnitId, QueueOrder), entry: &UnschedulableEntry) {
        let Some(id) = entry.equal else { return self.unlist(Waiter::Unit(unit), entry) };
        let equal = self.equal.get_mut(&id).expect("an id exists while it is used");
        equal.waiting.remove(&(order, unit));
        if equal.waiting.is_empty() {
            self.unlist(Waiter::Equal(id), entry);
            self.drop_unused(id);
        }
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

    /// The units to wake when there are more slots for a class.
    pub(super) fn wake_class(&mut self, class: ClassId, by: QueueEvent) -> Vec<WokenUnit> {
        let waiters = self.by_class.get(&class).cloned().unwrap_or_default();
        self.wake(waiters, by)
    }

    /// Those of them that need capacity for several classes.
    pub(super) fn wake_mixed(
        &mut self,
        class: ClassId,
        by: QueueEvent,
        is_helped: impl Fn(UnitId) -> bool,
    ) -> Vec<WokenUnit> {
        let mut waiters = self.mixed.get(&class).cloned().unwrap_or_default();
        waiters.retain(|waiter| match waiter {
            Waiter::Unit(unit) => is_helped(*unit),
            // Equal units have as many pods.
            Waiter::Equal(id) => self.equal[id].waiting.first().is_some_and(|(_, unit)| is_helped(*unit)),
        });
        self.wake(waiters, by)
    }

    /// Those whose pods must share a domain.
    pub(super) fn wake_in_one_domain(&mut self, by: QueueEvent) -> Vec<WokenUnit> {
        self.wake(self.in_one_domain.clone(), by)
    }

    fn wake(&mut self, waiters: BTreeSet<Waiter>, by: QueueEvent) -> Vec<WokenUnit> {
        let woken = waiters.into_iter().filter_map(|waiter| match waiter {
            Waiter::Unit(unit) => Some((unit, by)),
            Waiter::Equal(id) => self.wake_first(id, by),
        });
        woken.collect()
    }

    /// The first of equal units, unless one of them is awake already.
    fn wake_first(&mut self, id: EqualId, by: QueueEvent) -> Option<WokenUnit> {
        let equal = self.equal.get_mut(&id)?;
        if equal.awake.is_some() {
            return None;
        }
        let (_, unit) = *equal.waiting.first()?;
        equal.awake = Some((unit, by));
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
        self.equal.insert(id, EqualUnits { demand, waiting: BTreeSet::new(), awake: None });
        id
    }

    fn drop_unused(&mut self, id: EqualId) {
        let is_unused = |equal: &&EqualUnits| equal.waiting.is_empty() && equal.awake.is_none();
        if let Some(equal) = self.equal.get(&id).filter(is_unused) {
            self.equal_ids.remove(&equal.demand);
            self.equal.remove(&id);
        }
    }

    fn list(&mut self, waiter: Waiter, entry: &UnschedulableEntry) {
        for class in &entry.classes {
            self.by_class.entry(*class).or_default().insert(waiter);
            if entry.is_mixed {
                self.mixed.entry(*class).or_default().insert(waiter);
            }
        }
        if entry.in_one_domain {
            self.in_one_domain.insert(waiter);
        }
    }

    fn unlist(&mut self, waiter: Waiter, entry: &UnschedulableEntry) {
        for class in &entry.classes {
            unlist_from(&mut self.by_class, *class, waiter);
            if entry.is_mixed {
                unlist_from(&mut self.mixed, *class, waiter);
            }
        }
        if entry.in_one_domain {
            self.in_one_domain.remove(&waiter);
        }
    }
}

fn unlist_from(waiters: &mut BTreeMap<ClassId, BTreeSet<Waiter>>, class: ClassId, waiter: Waiter) {
    let listed = waiters.get_mut(&class).expect("a waiting unit is listed");
    listed.remove(&waiter);
    if listed.is_empty() {
        waiters.remove(&class);
    }
}
