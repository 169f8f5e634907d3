//! Which unit is decided next. A unit is ready, or it waits for capacity, for a time, or for missing pods.
//!
//! In: units that are ready, refused or incomplete, classes for which capacity grew, and the time. Out: the next unit
//! to decide, and when to ask again.
//!
//! What holds: of equal units the older one is first, also when several are woken at once. A unit that does not fit
//! can be overtaken; [`Queue::starved`] returns one that was overtaken for too long.

mod waking; // which units are queued again when capacity grows
mod waiting; // units that wait for capacity, by what would help them
mod search_retries; // units on which a search gave up
mod starvation; // which units were overtaken for too long
pub(crate) mod cluster_events; // which changes can turn a "no" into a "yes"
pub(crate) mod timers; // checks that are due after a pause
pub(crate) mod counts; // the number of units and pods in each sub-queue
pub(crate) mod listing; // the units in queue order

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use types::Timestamp;

use crate::cluster::compact_timestamp::{CompactTimestamp, saturating_add};
use crate::demand::classes::ClassId;
use crate::demand::groups::GroupId;
use crate::demand::pods::PodId;
use crate::placement::certificate::Certificate;
use crate::queue::counts::{CountedUnit, QueueCounters, QueueEvent, SubQueue};
use crate::queue::search_retries::SearchRetries;
use crate::queue::starvation::StarvationTracker;
use crate::queue::waiting::{EqualId, WaitingUnits};

pub(crate) use crate::queue::waiting::EqualDemand;

/// A pod without a group, or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum UnitId {
    Pod(PodId),
    Group(GroupId),
}

/// Queue order: higher priority first, then earlier creation, then earlier arrival. Creation time precedes arrival
/// because a restarted scheduler observes all pods in the order of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueOrder {
    pub(crate) priority: Reverse<i32>,
    pub(crate) created: CompactTimestamp,
    pub(crate) arrival: u64,
}

/// The state of a unit in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UnitQueueState {
    /// It has nothing to decide.
    Idle,
    Ready,
    /// Waits for capacity. Boxed, because most units never do.
    Unschedulable(Box<UnschedulableEntry>),
    BackingOff(Timestamp),
    /// Waits for pods, for its PodGroup or for another scheduler. The time is set until the core has reported it.
    Incomplete(IncompleteReason, Option<Timestamp>),
}

/// What a unit that does not fit waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnschedulableEntry {
    /// The number of this wait; no other wait of any unit has it.
    number: u64,
    certificate: Certificate,
    /// When to decide again because its pods changed since, in a way that cannot help.
    recount: Option<Timestamp>,
    /// Units with equal demand, while its pods are those that were refused.
    equal: Option<EqualId>,
}

impl UnitQueueState {
    /// The sub-queue of this state.
    fn sub_queue(&self) -> Option<SubQueue> {
        match self {
            UnitQueueState::Idle => None,
            UnitQueueState::Ready => Some(SubQueue::Active),
            UnitQueueState::Unschedulable(_) => Some(SubQueue::Unschedulable),
            UnitQueueState::BackingOff(_) => Some(SubQueue::Backoff),
            UnitQueueState::Incomplete(IncompleteReason::MissingPods | IncompleteReason::Unsupported, _) => {
                Some(SubQueue::Gated)
            }
            UnitQueueState::Incomplete(IncompleteReason::MissingPodGroup, _) => Some(SubQueue::Incomplete),
        }
    }
}

/// What an incomplete unit lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncompleteReason {
    MissingPods,
    MissingPodGroup,
    /// It is complete, but requests something that this scheduler does not support.
    Unsupported,
}

/// One unit. All pods of a large cluster may be queued at once.
#[derive(Debug)]
struct QueueEntry {
    order: QueueOrder,
    state: UnitQueueState,
    /// How many of its pods are pending.
    pods_count: usize,
    /// How often it was tried since it was last placed.
    tries_count: u32,
    /// Whether the last try placed it.
    placed: bool,
    /// Decisions to bind so far.
    attempts_count: u32,
    /// The last decision of which a bind failed.
    failed_attempt: u32,
    /// How many decisions in a row had a failed bind.
    failures_count: u32,
    /// When it counts as starved, while it is complete and refused. Kept when it is tried and refused again.
    starved_at: Option<Box<Timestamp>>,
    /// How many reservations in a row ended without its placement.
    failed_reservations_count: u32,
}

/// All units that have something to decide.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Stored contiguously; a plain map would use twice the memory.
    entries: IndexMap<UnitId, QueueEntry, FxBuildHasher>,
    ready: BTreeSet<(QueueOrder, UnitId)>,
    waiting: WaitingUnits,
    /// When each backoff ends.
    backing_off: BTreeSet<(Timestamp, UnitId)>,
    /// When to report what each unit lacks.
    incomplete: BTreeSet<(Timestamp, UnitId)>,
    /// Units that became incomplete since the last `tick`.
    newly_incomplete: BTreeSet<UnitId>,
    /// When to decide waiting units again, to update their numbers.
    recounts: BTreeSet<(Timestamp, UnitId)>,
    newly_recounted: BTreeSet<UnitId>,
    /// Units that were refused with reasons that name ghosts, since ghosts were last removed.
    name_ghosts: BTreeSet<UnitId>,
    starvation: StarvationTracker,
    /// How many waits there were so far.
    waits_count: u64,
    search_retries: SearchRetries,
    /// The certificates of ready units that a change of the cluster woke.
    woken: BTreeMap<UnitId, Certificate>,
    pub(crate) counts: QueueCounters,
    timings: QueueTimings,
}

/// A unit that does not fit.
#[derive(Debug)]
pub(crate) struct UnschedulableInfo {
    pub(crate) certificate: Certificate,
    /// Its demand, if units with an equal one have the same result.
    pub(crate) equal_demand: Option<EqualDemand>,
    /// Whether a search may find a placement with more effort.
    pub(crate) search_gave_up: bool,
    /// Whether nodes may be reserved for it.
    pub(crate) may_reserve: bool,
    pub(crate) now: Timestamp,
}

/// The durations that the queue uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueTimings {
    pub(crate) initial_backoff: Duration,
    pub(crate) max_backoff: Duration,
    pub(crate) incomplete_after: Duration,
    pub(crate) recount_after: Duration,
    pub(crate) reserve_after: Option<Duration>,
    /// The longest `reserve_after`, after reservations without success.
    pub(crate) max_reserve_after: Duration,
}

impl Queue {
    pub(crate) fn new(timings: QueueTimings) -> Queue {
        Queue {
            entries: IndexMap::default(),
            ready: BTreeSet::new(),
            waiting: WaitingUnits::default(),
            backing_off: BTreeSet::new(),
            incomplete: BTreeSet::new(),
            newly_incomplete: BTreeSet::new(),
            recounts: BTreeSet::new(),
            newly_recounted: BTreeSet::new(),
            name_ghosts: BTreeSet::new(),
            starvation: StarvationTracker::default(),
            waits_count: 0,
            search_retries: SearchRetries::default(),
            woken: BTreeMap::new(),
            counts: QueueCounters::default(),
            timings,
        }
    }

    /// Makes the unit ready; at once, unless it backs off.
    pub(crate) fn enqueue(&mut self, unit: UnitId, order: QueueOrder) {
        let entry = self.entry(unit, order);
        // It has changed since nodes were reserved for it.
        entry.failed_reservations_count = 0;
        let is_backing_off = matches!(entry.state, UnitQueueState::BackingOff(_));
        if !is_backing_off {
            self.move_to(unit, UnitQueueState::Ready, QueueEvent::UnitChanged);
        }
        self.search_retries.forget(unit);
    }

    /// Sets the number of pending pods of a group and its queue order.
    pub(crate) fn resize(&mut self, group: GroupId, pods_count: usize, order: QueueOrder) {
        let unit = UnitId::Group(group);
        self.reorder(unit, order);
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        let before = std::mem::replace(&mut entry.pods_count, pods_count);
        if let Some(sub_queue) = entry.state.sub_queue() {
            self.counts.record_resize(sub_queue, before, pods_count);
        }
    }

    /// How often the unit was tried since it was last placed, or until it was placed.
    pub(crate) fn tries_count(&self, unit: UnitId) -> u32 {
        self.entries.get(&unit).map_or(0, |entry| entry.tries_count)
    }

    /// Fewer pods of the unit are pending, or one more of class `added`. The unit is queued again unless that
    /// provably cannot help.
    pub(crate) fn enqueue_unless_hopeless(&mut self, unit: UnitId, order: QueueOrder, added: Option<ClassId>) {
        let entry = self.entries.get(&unit);
        // Of equal units only the first knows what has changed since, and not while one of them is awake.
        let is_proven = |waiting: &UnschedulableEntry| {
            let is_current = self.waiting.is_first(unit, waiting) && !self.waiting.is_equal_awake(waiting);
            waiting.certificate.proven && is_current
        };
        let hopeless = match (entry.map(|entry| &entry.state), added) {
            // Nodes may be reserved for a unit that is now behind this one.
            (Some(UnitQueueState::Unschedulable(_)), _) if entry.is_some_and(|entry| order < entry.order) => false,
            (Some(UnitQueueState::Unschedulable(waiting)), None) => is_proven(waiting),
            (Some(UnitQueueState::Unschedulable(waiting)), Some(class)) => {
                waiting.certificate.classes == [class] && is_proven(waiting)
            }
            // A unit that is ready is decided with the pods that it has then.
            (Some(UnitQueueState::Ready), None) => return drop(self.woken.remove(&unit)),
            (Some(UnitQueueState::Idle) | None, None) => return,
            _ => false,
        };
        if hopeless {
            self.detach_from_equals(unit);
            self.newly_recounted.insert(unit);
        } else {
            self.enqueue(unit, order);
        }
    }

    /// The unit lacks pods or its PodGroup.
    pub(crate) fn set_incomplete(&mut self, unit: UnitId, order: QueueOrder, reason: IncompleteReason) {
        self.entry(unit, order);
        self.clear_starvation(unit);
        self.move_to(unit, UnitQueueState::Incomplete(reason, None), QueueEvent::UnitChanged);
        self.search_retries.forget(unit);
        self.newly_incomplete.insert(unit);
        self.pass_on(unit);
    }

    /// The unit does not fit. It is queued again when a change may have broken its certificate.
    pub(crate) fn add_unschedulable(&mut self, unit: UnitId, wait: UnschedulableInfo) {
        let UnschedulableInfo { certificate, equal_demand, search_gave_up, may_reserve, now } = wait;
        self.waits_count += 1;
        if certificate.names_ghosts {
            self.name_ghosts.insert(unit);
        }
        let mut waiting = UnschedulableEntry { number: self.waits_count, certificate, recount: None, equal: None };
        let order = self.entries[&unit].order;
        let woken = self.waiting.insert((unit, order), &mut waiting, equal_demand);
        self.set_state(unit, UnitQueueState::Unschedulable(Box::new(waiting)), QueueEvent::ScheduleAttemptFailure);
        self.make_ready(woken);
        self.note_starvation(unit, may_reserve, now);
        if search_gave_up {
            self.search_retries.schedule(unit, now);
        } else {
            self.search_retries.forget(unit);
        }
    }

    /// The unit's queue order.
    pub(crate) fn order_of(&self, unit: UnitId) -> Option<QueueOrder> {
        self.entries.get(&unit).map(|entry| entry.order)
    }

    /// The unit has nothing to decide now. Its failures are kept.
    pub(crate) fn set_idle(&mut self, unit: UnitId) {
        if self.entries.contains_key(&unit) {
            self.move_to(unit, UnitQueueState::Idle, QueueEvent::UnitChanged);
            self.clear_starvation(unit);
            self.search_retries.forget(unit);
            self.pass_on(unit);
        }
    }

    /// Ghosts are gone: the units are decided again whose reasons may name them.
    pub(crate) fn ghosts_left(&mut self) {
        self.newly_recounted.append(&mut self.name_ghosts);
    }

    /// Removes the unit.
    pub(crate) fn remove(&mut self, unit: UnitId) {
        self.set_idle(unit);
        self.name_ghosts.remove(&unit);
        self.entries.swap_remove(&unit);
        // Memory shrinks again after many units were placed.
        if self.entries.len() < self.entries.capacity() / 8 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// Ends backoffs that are over, and starts the timers of units that became incomplete.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        while let Some((_, unit)) = self.backing_off.first().copied().filter(|(until, _)| *until <= now) {
            self.move_to(unit, UnitQueueState::Ready, QueueEvent::BackoffComplete);
        }
        while let Some(unit) = self.newly_incomplete.pop_first() {
            let at = saturating_add(now, self.timings.incomplete_after);
            if let Some(UnitQueueState::Incomplete(_, report_at @ None)) = self.state_mut(unit) {
                *report_at = Some(at);
                self.incomplete.insert((at, unit));
            }
        }
        while let Some(unit) = self.newly_recounted.pop_first() {
            let at = saturating_add(now, self.timings.recount_after);
            if let Some(UnitQueueState::Unschedulable(waiting)) = self.state_mut(unit)
                && waiting.recount.is_none()
            {
                waiting.recount = Some(at);
                self.recounts.insert((at, unit));
            }
        }
        while let Some((_, unit)) = self.recounts.first().copied().filter(|(at, _)| *at <= now) {
            self.move_to(unit, UnitQueueState::Ready, QueueEvent::Recount);
        }
        self.start_timers_of_first_pods(now);
    }

    /// Whether a unit is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Pops the first ready unit, which becomes idle.
    pub(crate) fn pop(&mut self) -> Option<UnitId> {
        let (_, unit) = *self.ready.first()?;
        self.take_ready(unit);
        Some(unit)
    }

    /// Takes a unit out of the ready ones, whatever its position; false if it is not ready.
    pub(crate) fn take_ready(&mut self, unit: UnitId) -> bool {
        let order = self.entries.get(&unit).map(|entry| entry.order);
        if !order.is_some_and(|order| self.ready.remove(&(order, unit))) {
            return false;
        }
        self.set_state(unit, UnitQueueState::Idle, QueueEvent::UnitChanged);
        let entry = self.entries.get_mut(&unit).expect("a ready unit is in the queue");
        if std::mem::take(&mut entry.placed) {
            entry.tries_count = 0;
        }
        entry.tries_count += 1;
        true
    }

    /// A unit that has been incomplete for long enough to report it. Each is returned once.
    pub(crate) fn pop_incomplete(&mut self, now: Timestamp) -> Option<UnitId> {
        let (_, unit) = self.incomplete.first().copied().filter(|(at, _)| *at <= now)?;
        if let Some(UnitQueueState::Incomplete(_, report_at)) = self.state_mut(unit) {
            *report_at = None;
        }
        self.incomplete.pop_first();
        Some(unit)
    }

    /// When the queue next changes by itself.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let first = |times: &BTreeSet<(Timestamp, UnitId)>| times.first().map(|(at, _)| *at);
        [&self.backing_off, &self.incomplete, &self.recounts]
            .into_iter()
            .filter_map(first)
            .chain(self.search_retries.next_at())
            .min()
    }

    /// Counts a decision to bind. If no bind of the previous decision failed, the row of failures ends.
    pub(crate) fn record_attempt(&mut self, unit: UnitId) {
        let entry = self.entries.get_mut(&unit).expect("a decided unit is in the queue");
        if entry.failed_attempt < entry.attempts_count {
            entry.failures_count = 0;
        }
        entry.attempts_count += 1;
        entry.placed = true;
        self.starvation.record_placement(entry.order);
        self.clear_starvation(unit);
        self.search_retries.forget(unit);
        self.pass_on(unit);
    }

    /// A bind of the unit's last decision failed. The unit backs off, longer each time, unless it is incomplete now;
    /// several failed binds of one decision count once.
    pub(crate) fn back_off(&mut self, unit: UnitId, order: QueueOrder, now: Timestamp) {
        let entry = self.entry(unit, order);
        let again = entry.failed_attempt == entry.attempts_count;
        if again && matches!(entry.state, UnitQueueState::BackingOff(_)) {
            return;
        }
        if !again {
            entry.failed_attempt = entry.attempts_count;
            entry.failures_count += 1;
        }
        if matches!(entry.state, UnitQueueState::Incomplete(..)) {
            return;
        }
        let doublings = entry.failures_count.saturating_sub(1).min(16);
        let pause = self.timings.initial_backoff.saturating_mul(1 << doublings).min(self.timings.max_backoff);
        let until = saturating_add(now, pause);
        self.move_to(unit, UnitQueueState::BackingOff(until), QueueEvent::ScheduleAttemptFailure);
        self.backing_off.insert((until, unit));
        self.pass_on(unit);
    }

    /// Gives a unit its queue order, also in the index of its state.
    fn reorder(&mut self, unit: UnitId, order: QueueOrder) {
        let Some(entry) = self.entries.get_mut(&unit).filter(|entry| entry.order != order) else { return };
        let before = std::mem::replace(&mut entry.order, order);
        match &entry.state {
            UnitQueueState::Ready => {
                self.ready.remove(&(before, unit));
                self.ready.insert((order, unit));
            }
            UnitQueueState::Unschedulable(waiting) => self.waiting.reorder(unit, before, order, waiting),
            _ => {}
        }
    }

    fn entry(&mut self, unit: UnitId, order: QueueOrder) -> &mut QueueEntry {
        self.reorder(unit, order);
        let new_entry = || QueueEntry {
            order,
            state: UnitQueueState::Idle,
            // `resize` sets it for groups.
            pods_count: usize::from(matches!(unit, UnitId::Pod(_))),
            tries_count: 0,
            placed: false,
            attempts_count: 0,
            failed_attempt: 0,
            failures_count: 0,
            starved_at: None,
            failed_reservations_count: 0,
        };
        self.entries.entry(unit).or_insert_with(new_entry)
    }

    /// Removes the unit from the index of its state, and adds it to the ready units if it becomes ready.
    fn move_to(&mut self, unit: UnitId, next: UnitQueueState, by: QueueEvent) {
        let entry = self.entries.get(&unit).expect("a unit that moves is in the queue");
        let order = entry.order;
        match &entry.state {
            UnitQueueState::Idle => {}
            UnitQueueState::Ready => {
                self.ready.remove(&(order, unit));
            }
            UnitQueueState::Unschedulable(waiting) => {
                if let Some(at) = waiting.recount {
                    self.recounts.remove(&(at, unit));
                }
                if let Some(next) = self.waiting.remove((unit, order), waiting) {
                    if matches!(next, UnitId::Pod(_)) {
                        self.starvation.newly_first.insert(next);
                    }
                    // A unit that was woken is searched again itself.
                    if by == QueueEvent::UnitChanged {
                        self.search_retries.pass_on(unit, next);
                    }
                }
            }
            UnitQueueState::BackingOff(until) => {
                self.backing_off.remove(&(*until, unit));
            }
            UnitQueueState::Incomplete(_, at) => {
                self.newly_incomplete.remove(&unit);
                if let Some(at) = at {
                    self.incomplete.remove(&(*at, unit));
                }
            }
        }
        self.woken.remove(&unit);
        if next == UnitQueueState::Ready {
            self.ready.insert((order, unit));
        }
        self.set_state(unit, next, by);
    }

    fn state_mut(&mut self, unit: UnitId) -> Option<&mut UnitQueueState> {
        self.entries.get_mut(&unit).map(|entry| &mut entry.state)
    }

    fn set_state(&mut self, unit: UnitId, next: UnitQueueState, by: QueueEvent) {
        let entry = self.entries.get_mut(&unit).expect("a unit that moves is in the queue");
        let counted = CountedUnit { is_group: matches!(unit, UnitId::Group(_)), pods: entry.pods_count };
        self.counts.record_move(counted, entry.state.sub_queue(), next.sub_queue(), by);
        entry.state = next;
    }
}

#[cfg(test)]
impl Queue {
    /// Panics unless the counts equal newly computed ones. `pods_count`: how many pods of a group are pending.
    pub(crate) fn assert_counted(&self, pods_count: impl Fn(GroupId) -> usize) {
        let mut recounted = QueueCounters::default();
        for (unit, entry) in &self.entries {
            let pods = match unit {
                UnitId::Pod(_) => 1,
                UnitId::Group(group) => pods_count(*group),
            };
            let counted = CountedUnit { is_group: matches!(unit, UnitId::Group(_)), pods };
            recounted.record_move(counted, None, entry.state.sub_queue(), QueueEvent::UnitChanged);
        }
        for sub_queue in SubQueue::ALL {
            assert_eq!(self.counts.of(sub_queue), recounted.of(sub_queue), "{sub_queue:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use types::views::PodView;

    use super::*;
    use crate::demand::pods::Pods;

    fn queue() -> Queue {
        let second = Duration::from_secs(1);
        Queue::new(QueueTimings {
            initial_backoff: second,
            max_backoff: second,
            incomplete_after: second,
            recount_after: second,
            reserve_after: None,
            max_reserve_after: second,
        })
    }

    #[test]
    fn a_queue_entry_is_at_most_96_bytes() {
        assert!(size_of::<QueueEntry>() <= 96, "{}", size_of::<QueueEntry>());
        assert!(size_of::<(QueueOrder, UnitId)>() <= 32, "{}", size_of::<(QueueOrder, UnitId)>());
    }

    #[test]
    fn memory_shrinks_after_many_units_are_placed() {
        let (mut queue, mut pods, view) = (queue(), Pods::default(), Arc::new(PodView::default()));
        let units: Vec<_> = (0..1000).map(|_| UnitId::Pod(pods.add(&view, None, Arc::default()))).collect();
        units.iter().for_each(|unit| queue.enqueue(*unit, QueueOrder::default()));
        assert!(queue.entries.capacity() >= 1000);
        for (left, unit) in (0..1000).rev().zip(units) {
            queue.remove(unit);
            assert_eq!(queue.entries.len(), left);
        }
        assert!(queue.entries.capacity() < 100, "{}", queue.entries.capacity());
    }
}
