//! Who is next. A unit is ready, or it waits for something: room, time, or the rest of its pods.
//!
//! Among equals the older unit goes first, also when several are woken at once. A unit that found no room lets others
//! pass; [`Queue::passed_over`] tells who was passed for too long.

pub(crate) mod counts; // how many stand where
pub(crate) mod listing; // who stands where
mod waking; // who comes back when there is more room

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use types::Timestamp;

use crate::classes::ClassId;
use crate::compact_timestamp::{CompactTimestamp, saturating_add};
use crate::groups::GroupId;
use crate::pods::PodId;
use crate::queue::counts::{CountedUnit, QueueCounters, QueueEvent, SubQueue};

/// A pod without a group, or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum UnitId {
    Pod(PodId),
    Group(GroupId),
}

/// When it is a unit's turn: higher priority first, then who was created earlier, then who was seen earlier. Creation
/// times come first so that a restarted scheduler, which is shown all pods in the order of their names, stays fair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueOrder {
    pub(crate) priority: Reverse<i32>,
    pub(crate) created: CompactTimestamp,
    pub(crate) seen: u64,
}

/// What a unit is doing in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UnitQueueState {
    /// Nothing of it is to be decided.
    Idle,
    Ready,
    /// For room. Boxed, because most units never do.
    Unschedulable(Box<UnschedulableEntry>),
    BackingOff(Timestamp),
    /// For pods or its PodGroup, or for another scheduler; a time is set until that has been said.
    Incomplete(IncompleteReason, Option<Timestamp>),
}

/// What a unit that found no room waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnschedulableEntry {
    /// Room that pods of these classes could use.
    classes: Vec<ClassId>,
    in_one_domain: bool,
    /// Several classes have to fit together: it may fit although none of them has more slots than before.
    is_mixed: bool,
    /// It is certain that its pods do not fit: fewer of them do not either, nor more of the same class.
    proven: bool,
    /// Pods of it came or went since, in a way that cannot help.
    recount: Option<Timestamp>,
}

impl UnitQueueState {
    /// The part of the queue that this is.
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
    /// It is all there, and asks for something that this scheduler does not do.
    Unsupported,
}

/// One unit. All pods of a large cluster may wait at once.
#[derive(Debug)]
struct QueueEntry {
    order: QueueOrder,
    state: UnitQueueState,
    /// How many pods wait in it.
    pods_count: usize,
    /// How often it was tried since it was last placed.
    tries_count: u32,
    /// Whether the last try placed it.
    placed: bool,
    /// Decisions to bind so far.
    attempts_count: u32,
    /// The last of them of which a bind failed.
    failed_attempt: u32,
    /// How many in a row had a failed bind.
    failures_count: u32,
    /// Until when it may be passed over, while it is refused although it is complete; kept while it is tried again and
    /// refused again.
    starved_at: Option<Box<Timestamp>>,
    /// How often in a row nodes were held for it and it was not placed.
    failed_reservations_count: u32,
}

/// All units that have something to be decided.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Entries side by side; a plain map would have room for as many again.
    entries: IndexMap<UnitId, QueueEntry, FxBuildHasher>,
    ready: BTreeSet<(QueueOrder, UnitId)>,
    waiting_by_class: BTreeMap<ClassId, BTreeSet<UnitId>>,
    /// Those of them that need room for several classes at once.
    waiting_mixed: BTreeMap<ClassId, BTreeSet<UnitId>>,
    waiting_in_one_domain: BTreeSet<UnitId>,
    /// Until when a unit backs off, or when it is to be said what it lacks.
    backing_off: BTreeSet<(Timestamp, UnitId)>,
    incomplete: BTreeSet<(Timestamp, UnitId)>,
    /// Incomplete since the last look at the time.
    newly_incomplete: BTreeSet<UnitId>,
    /// Waiting units that are to be decided anew for the sake of their numbers.
    recounts: BTreeSet<(Timestamp, UnitId)>,
    newly_recounted: BTreeSet<UnitId>,
    /// Refused units that may be passed over, and until when.
    starving: BTreeSet<(Timestamp, UnitId)>,
    pub(crate) counts: QueueCounters,
    timings: QueueTimings,
}

/// A unit that found no room.
#[derive(Debug)]
pub(crate) struct UnschedulableInfo {
    pub(crate) classes: Vec<ClassId>,
    pub(crate) in_one_domain: bool,
    /// Whether pods of several classes have to fit together.
    pub(crate) is_mixed: bool,
    pub(crate) proven: bool,
    /// Whether nodes may be held for it.
    pub(crate) may_reserve: bool,
    pub(crate) now: Timestamp,
}

/// The durations the queue knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueTimings {
    pub(crate) initial_backoff: Duration,
    pub(crate) max_backoff: Duration,
    pub(crate) incomplete_after: Duration,
    pub(crate) recount_after: Duration,
    pub(crate) reserve_after: Option<Duration>,
    /// The longest such pause, after holds that brought nothing.
    pub(crate) max_reserve_after: Duration,
}

impl Queue {
    pub(crate) fn new(pauses: QueueTimings) -> Queue {
        Queue {
            entries: IndexMap::default(),
            ready: BTreeSet::new(),
            waiting_by_class: BTreeMap::new(),
            waiting_mixed: BTreeMap::new(),
            waiting_in_one_domain: BTreeSet::new(),
            backing_off: BTreeSet::new(),
            incomplete: BTreeSet::new(),
            newly_incomplete: BTreeSet::new(),
            recounts: BTreeSet::new(),
            newly_recounted: BTreeSet::new(),
            starving: BTreeSet::new(),
            counts: QueueCounters::default(),
            timings: pauses,
        }
    }

    /// The unit may be decided; at once, unless it backs off.
    pub(crate) fn enqueue(&mut self, unit: UnitId, turn: QueueOrder) {
        let entry = self.entry(unit, turn);
        // It is another than the one for which nodes were held.
        entry.failed_reservations_count = 0;
        if !matches!(entry.state, UnitQueueState::BackingOff(_)) {
            self.move_to(unit, UnitQueueState::Ready, QueueEvent::UnitChanged);
        }
    }

    /// So many pods wait in a group, and the oldest of them since then.
    pub(crate) fn resize(&mut self, group: GroupId, pods_count: usize, turn: QueueOrder) {
        let unit = UnitId::Group(group);
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        if entry.state == UnitQueueState::Ready && entry.order != turn {
            self.ready.remove(&(entry.order, unit));
            self.ready.insert((turn, unit));
        }
        entry.order = turn;
        let before = std::mem::replace(&mut entry.pods_count, pods_count);
        if let Some(line) = entry.state.sub_queue() {
            self.counts.record_resize(line, before, pods_count);
        }
    }

    /// How often the unit was tried since it was last placed, or until it was.
    pub(crate) fn tries_count(&self, unit: UnitId) -> u32 {
        self.entries.get(&unit).map_or(0, |entry| entry.tries_count)
    }

    /// Fewer pods of the unit wait, or one more of `more`. That brings it back unless it is certain not to help.
    pub(crate) fn enqueue_unless_hopeless(&mut self, unit: UnitId, turn: QueueOrder, more: Option<ClassId>) {
        let entry = self.entries.get(&unit);
        let hopeless = match (entry.map(|entry| &entry.state), more) {
            // Nodes may be held for a unit that it now comes before.
            (Some(UnitQueueState::Unschedulable(_)), _) if entry.is_some_and(|entry| turn < entry.order) => false,
            (Some(UnitQueueState::Unschedulable(waiting)), None) => waiting.proven,
            (Some(UnitQueueState::Unschedulable(waiting)), Some(class)) => waiting.proven && waiting.classes == [class],
            // Nothing changes for a unit that is to be decided anyway, or has nothing to decide.
            (Some(UnitQueueState::Ready | UnitQueueState::Idle) | None, None) => return,
            _ => false,
        };
        if hopeless {
            self.newly_recounted.insert(unit);
        } else {
            self.enqueue(unit, turn);
        }
    }

    /// The unit lacks pods or its PodGroup.
    pub(crate) fn set_incomplete(&mut self, unit: UnitId, turn: QueueOrder, lack: IncompleteReason) {
        self.entry(unit, turn);
        self.clear_starvation(unit);
        self.move_to(unit, UnitQueueState::Incomplete(lack, None), QueueEvent::UnitChanged);
        self.newly_incomplete.insert(unit);
    }

    /// The unit found no room: it comes back when there is more for one of these classes.
    pub(crate) fn add_unschedulable(&mut self, unit: UnitId, wait: UnschedulableInfo) {
        let UnschedulableInfo { classes, in_one_domain, is_mixed, proven, may_reserve: can_be_held_for, now } = wait;
        for class in &classes {
            self.waiting_by_class.entry(*class).or_default().insert(unit);
            if is_mixed {
                self.waiting_mixed.entry(*class).or_default().insert(unit);
            }
        }
        if in_one_domain {
            self.waiting_in_one_domain.insert(unit);
        }
        let waiting = UnschedulableEntry { classes, in_one_domain, is_mixed, proven, recount: None };
        self.set_state(unit, UnitQueueState::Unschedulable(Box::new(waiting)), QueueEvent::ScheduleAttemptFailure);
        if self.timings.reserve_after.is_none() || !can_be_held_for {
            self.clear_starvation(unit);
        } else if self.entries[&unit]
            .starved_at
            .as_deref()
            .is_none_or(|until| *until > saturating_add(now, self.starvation_timeout(unit)))
        {
            self.restart_starvation_timer(unit, now);
        }
    }

    /// Who is refused since so long that others should pass no more: of those, the one whose turn is first.
    pub(crate) fn starved(&self, now: Timestamp) -> Option<UnitId> {
        let due = self.starving.iter().take_while(|(until, _)| *until <= now);
        due.map(|(_, unit)| *unit).min_by_key(|unit| (self.entries[unit].order, *unit))
    }

    /// The unit may be passed over from now on, for as long as its patience goes.
    pub(crate) fn restart_starvation_timer(&mut self, unit: UnitId, now: Timestamp) {
        let until = saturating_add(now, self.starvation_timeout(unit));
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        if let Some(before) = entry.starved_at.replace(Box::new(until)) {
            self.starving.remove(&(*before, unit));
        }
        self.starving.insert((until, unit));
    }

    /// Nodes were held for the unit, and it was not placed: it may be passed over again, for longer than before.
    pub(crate) fn reservation_failed(&mut self, unit: UnitId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&unit) {
            entry.failed_reservations_count += 1;
        }
        self.restart_starvation_timer(unit, now);
    }

    /// For how long the unit may be passed over: twice as long with each hold that brought nothing, so that whoever waits
    /// for what does not come gets less and less in the way of others.
    fn starvation_timeout(&self, unit: UnitId) -> Duration {
        let doublings = self.entries.get(&unit).map_or(0, |entry| entry.failed_reservations_count.min(16));
        let pause = self.timings.reserve_after.unwrap_or(Duration::MAX);
        pause.saturating_mul(1 << doublings).min(self.timings.max_reserve_after.max(pause))
    }

    /// Whether the unit is refused, and has not been placed since.
    pub(crate) fn is_refused(&self, unit: UnitId) -> bool {
        self.entries.get(&unit).is_some_and(|entry| entry.starved_at.is_some())
    }

    /// When the next unit will have been passed over for too long.
    pub(crate) fn next_starved_at(&self) -> Option<Timestamp> {
        self.starving.first().map(|(at, _)| *at)
    }

    /// When it is the unit's turn.
    pub(crate) fn order_of(&self, unit: UnitId) -> Option<QueueOrder> {
        self.entries.get(&unit).map(|entry| entry.order)
    }

    fn clear_starvation(&mut self, unit: UnitId) {
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        entry.failed_reservations_count = 0;
        if let Some(until) = entry.starved_at.take() {
            self.starving.remove(&(*until, unit));
        }
    }

    /// Nothing of the unit is to be decided now; its failures are remembered.
    pub(crate) fn set_idle(&mut self, unit: UnitId) {
        if self.entries.contains_key(&unit) {
            self.move_to(unit, UnitQueueState::Idle, QueueEvent::UnitChanged);
            self.clear_starvation(unit);
        }
    }

    /// Forgets the unit.
    pub(crate) fn remove(&mut self, unit: UnitId) {
        self.set_idle(unit);
        self.entries.swap_remove(&unit);
        // A crowd that was placed leaves no room behind.
        if self.entries.len() < self.entries.capacity() / 8 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// Ends back-offs that are over, and notes since when incomplete units are so.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        while let Some((_, unit)) = self.backing_off.first().copied().filter(|(until, _)| *until <= now) {
            self.move_to(unit, UnitQueueState::Ready, QueueEvent::BackoffComplete);
        }
        for unit in std::mem::take(&mut self.newly_incomplete) {
            let at = saturating_add(now, self.timings.incomplete_after);
            if let Some(UnitQueueState::Incomplete(_, said @ None)) = self.state_mut(unit) {
                *said = Some(at);
                self.incomplete.insert((at, unit));
            }
        }
        for unit in std::mem::take(&mut self.newly_recounted) {
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
    }

    /// Whether there is a unit to be decided now.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next ready unit, idle from now on.
    pub(crate) fn pop(&mut self) -> Option<UnitId> {
        let (_, unit) = self.ready.pop_first()?;
        self.set_state(unit, UnitQueueState::Idle, QueueEvent::UnitChanged);
        let entry = self.entries.get_mut(&unit).expect("a ready unit is in the queue");
        if std::mem::take(&mut entry.placed) {
            entry.tries_count = 0;
        }
        entry.tries_count += 1;
        Some(unit)
    }

    /// A unit that has been incomplete for long enough to say so; each is returned once.
    pub(crate) fn pop_incomplete(&mut self, now: Timestamp) -> Option<UnitId> {
        let (_, unit) = self.incomplete.first().copied().filter(|(at, _)| *at <= now)?;
        if let Some(UnitQueueState::Incomplete(_, said)) = self.state_mut(unit) {
            *said = None;
        }
        self.incomplete.pop_first();
        Some(unit)
    }

    /// When the queue changes by itself.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let first = |times: &BTreeSet<(Timestamp, UnitId)>| times.first().map(|(at, _)| *at);
        [&self.backing_off, &self.incomplete, &self.recounts].into_iter().filter_map(first).min()
    }

    /// Counts a decision to bind. A decision all of whose binds went well ends a row of failures.
    pub(crate) fn record_attempt(&mut self, unit: UnitId) {
        let entry = self.entries.get_mut(&unit).expect("a decided unit is in the queue");
        if entry.failed_attempt < entry.attempts_count {
            entry.failures_count = 0;
        }
        entry.attempts_count += 1;
        entry.placed = true;
        self.clear_starvation(unit);
    }

    /// A bind of the unit's last decision failed: it backs off, longer each time, however many binds of it fail.
    pub(crate) fn back_off(&mut self, unit: UnitId, turn: QueueOrder, now: Timestamp) {
        let entry = self.entry(unit, turn);
        let again = entry.failed_attempt == entry.attempts_count;
        if again && matches!(entry.state, UnitQueueState::BackingOff(_)) {
            return;
        }
        if !again {
            entry.failed_attempt = entry.attempts_count;
            entry.failures_count += 1;
        }
        let doublings = entry.failures_count.saturating_sub(1).min(16);
        let pause = self.timings.initial_backoff.saturating_mul(1 << doublings).min(self.timings.max_backoff);
        let until = saturating_add(now, pause);
        self.move_to(unit, UnitQueueState::BackingOff(until), QueueEvent::ScheduleAttemptFailure);
        self.backing_off.insert((until, unit));
    }

    fn entry(&mut self, unit: UnitId, turn: QueueOrder) -> &mut QueueEntry {
        let known = self.entries.get(&unit).map(|entry| (entry.order, entry.state == UnitQueueState::Ready));
        if let Some((before, true)) = known.filter(|(before, _)| *before != turn) {
            self.ready.remove(&(before, unit));
            self.ready.insert((turn, unit));
        }
        let fresh = || QueueEntry {
            order: turn,
            state: UnitQueueState::Idle,
            // A group's are told by `resize`.
            pods_count: usize::from(matches!(unit, UnitId::Pod(_))),
            tries_count: 0,
            placed: false,
            attempts_count: 0,
            failed_attempt: 0,
            failures_count: 0,
            starved_at: None,
            failed_reservations_count: 0,
        };
        let entry = self.entries.entry(unit).or_insert_with(fresh);
        entry.order = turn;
        entry
    }

    /// Takes the unit off the list it stands on, and puts it on the ready list if that is where it goes.
    fn move_to(&mut self, unit: UnitId, next: UnitQueueState, by: QueueEvent) {
        let entry = self.entries.get(&unit).expect("a standing unit is in the queue");
        let turn = entry.order;
        match &entry.state {
            UnitQueueState::Idle => {}
            UnitQueueState::Ready => {
                self.ready.remove(&(turn, unit));
            }
            UnitQueueState::Unschedulable(waiting) => {
                if let Some(at) = waiting.recount {
                    self.recounts.remove(&(at, unit));
                }
                for class in &waiting.classes {
                    waking::unlist(&mut self.waiting_by_class, *class, unit);
                    if waiting.is_mixed {
                        waking::unlist(&mut self.waiting_mixed, *class, unit);
                    }
                }
                if waiting.in_one_domain {
                    self.waiting_in_one_domain.remove(&unit);
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
        if next == UnitQueueState::Ready {
            self.ready.insert((turn, unit));
        }
        self.set_state(unit, next, by);
    }

    fn state_mut(&mut self, unit: UnitId) -> Option<&mut UnitQueueState> {
        self.entries.get_mut(&unit).map(|entry| &mut entry.state)
    }

    fn set_state(&mut self, unit: UnitId, next: UnitQueueState, by: QueueEvent) {
        let entry = self.entries.get_mut(&unit).expect("a standing unit is in the queue");
        let counted = CountedUnit { is_group: matches!(unit, UnitId::Group(_)), pods: entry.pods_count };
        self.counts.record_move(counted, entry.state.sub_queue(), next.sub_queue(), by);
        entry.state = next;
    }
}

#[cfg(test)]
impl Queue {
    /// Panics unless what is kept up to date equals what is counted anew. `pods_count`: how many pods of a group wait.
    pub(crate) fn assert_counted(&self, pods_count: impl Fn(GroupId) -> usize) {
        let mut anew = QueueCounters::default();
        for (unit, entry) in &self.entries {
            let pods = match unit {
                UnitId::Pod(_) => 1,
                UnitId::Group(group) => pods_count(*group),
            };
            let counted = CountedUnit { is_group: matches!(unit, UnitId::Group(_)), pods };
            anew.record_move(counted, None, entry.state.sub_queue(), QueueEvent::UnitChanged);
        }
        for line in SubQueue::ALL {
            assert_eq!(self.counts.of(line), anew.of(line), "{line:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use types::views::PodView;

    use super::*;
    use crate::pods::Pods;

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
    fn a_unit_takes_little_room() {
        assert!(size_of::<QueueEntry>() <= 96, "{}", size_of::<QueueEntry>());
        assert!(size_of::<(QueueOrder, UnitId)>() <= 32, "{}", size_of::<(QueueOrder, UnitId)>());
    }

    #[test]
    fn a_crowd_that_was_placed_leaves_no_room_behind() {
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
