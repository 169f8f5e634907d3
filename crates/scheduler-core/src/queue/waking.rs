//! Which waiting units are queued again: those that a change may let fit, and those that are searched with more effort.

use types::Timestamp;

use super::counts::QueueEvent;
use super::waiting::{EqualDemand, WokenUnit};
use super::{Queue, UnitId, UnitQueueState, UnschedulableEntry};
use crate::demand::classes::ClassId;
use crate::placement::certificate::Certificate;

impl Queue {
    /// Classes of the units that wait for capacity.
    pub(crate) fn waiting_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting.classes()
    }

    /// Those of them for which growth of a resource can be enough.
    pub(crate) fn waiting_mixed_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting.mixed_classes()
    }

    /// Those of units for which the nodes are too small or too few even without pods.
    pub(crate) fn waiting_hopeless_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting.hopeless_classes()
    }

    /// The units of this class for which the nodes are too small or too few even without pods, one of those with equal
    /// demand.
    pub(crate) fn hopeless_waiting_for(&mut self, class: ClassId) -> Vec<UnitId> {
        self.waiting.hopeless_waiting_for(class)
    }

    /// There are `growth` more slots for a class than before. Returns the waiting units that may fit by now.
    pub(crate) fn slots_grew(&mut self, class: ClassId, growth: u32) -> Vec<UnitId> {
        self.waiting.slots_grew(class, u64::from(growth))
    }

    /// The units that wait for a class, one of those with equal demand.
    pub(crate) fn waiting_for(&mut self, class: ClassId) -> Vec<UnitId> {
        self.waiting.waiting_for(class)
    }

    /// A node on which the class fits has more of a resource than before: units of several classes may fit. If only
    /// pod slots grew, and there were `pod_slots_before`, that helps only units with more pods than that.
    pub(crate) fn mixed_waiting_for(&mut self, class: ClassId, pod_slots_before: i64) -> Vec<UnitId> {
        let mut units = self.waiting.mixed_waiting_for(class);
        units.retain(|unit| {
            let pods_count = self.entries.get(unit).map_or(0, |entry| entry.pods_count);
            i64::try_from(pods_count).unwrap_or(i64::MAX) > pod_slots_before
        });
        units
    }

    /// Whether the sums rejected every domain when the unit was refused.
    pub(crate) fn was_rejected_by_sums(&self, unit: UnitId) -> bool {
        self.unschedulable_entry(unit).is_some_and(|entry| entry.certificate.missing_slots > 0)
    }

    /// Whether the nodes themselves were in the way of the unit, and were of another shape than now.
    pub(crate) fn was_hopeless_in_other_shape(&self, unit: UnitId, shape: u64) -> bool {
        let entry = self.unschedulable_entry(unit);
        entry.and_then(|entry| entry.certificate.hopeless_in_shape).is_some_and(|before| before != shape)
    }

    /// A waiting unit is decided again, also if it does not fit: its refusal may be another one.
    pub(crate) fn wake_to_be_refused_anew(&mut self, unit: UnitId, by: QueueEvent) {
        self.wake(unit, by);
        self.woken.remove(&unit);
    }

    /// A waiting unit may fit. It is decided again.
    pub(crate) fn wake(&mut self, unit: UnitId, by: QueueEvent) {
        if let Some(UnitQueueState::Unschedulable(waiting)) = self.entries.get(&unit).map(|entry| &entry.state) {
            let certificate = waiting.certificate.clone();
            self.waiting.wake(unit, waiting, by);
            self.move_to(unit, UnitQueueState::Ready, by);
            self.woken.insert(unit, certificate);
        }
    }

    /// The certificate of a unit that a change woke and that has not changed itself; it is returned once.
    pub(crate) fn take_woken(&mut self, unit: UnitId) -> Option<Certificate> {
        self.woken.remove(&unit)
    }

    /// A woken unit was taken to be decided, and it cannot fit any more: units before it have used the room. It waits
    /// again, as if it had not been woken.
    pub(crate) fn wait_again(&mut self, unit: UnitId, certificate: Certificate, equal_demand: Option<EqualDemand>) {
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        entry.tries_count -= 1;
        let order = entry.order;
        self.waits_count += 1;
        if certificate.names_ghosts {
            self.newly_recounted.insert(unit);
        }
        let mut waiting = UnschedulableEntry { number: self.waits_count, certificate, recount: None, equal: None };
        let woken = self.waiting.insert((unit, order), &mut waiting, equal_demand);
        self.set_state(unit, UnitQueueState::Unschedulable(Box::new(waiting)), QueueEvent::ScheduleAttemptFailure);
        self.make_ready(woken);
    }

    /// A waiting unit cannot fit before there are at least this many more slots.
    pub(crate) fn keep_waiting(&mut self, unit: UnitId, missing_slots: u64) {
        if let Some(UnitQueueState::Unschedulable(waiting)) = self.entries.get(&unit).map(|entry| &entry.state) {
            self.waiting.set_missing_slots(unit, waiting, missing_slots);
        }
    }

    fn unschedulable_entry(&self, unit: UnitId) -> Option<&UnschedulableEntry> {
        match self.entries.get(&unit).map(|entry| &entry.state) {
            Some(UnitQueueState::Unschedulable(waiting)) => Some(waiting),
            _ => None,
        }
    }

    /// The units whose pods must share a domain.
    pub(crate) fn waiting_in_one_domain(&mut self) -> Vec<UnitId> {
        self.waiting.waiting_in_one_domain()
    }

    /// A unit that waits for a change fits: a wake-up was missed, and it is decided next.
    pub(crate) fn force_activate(&mut self, unit: UnitId) {
        self.move_to(unit, UnitQueueState::Ready, QueueEvent::FoundToFit);
    }

    /// The unit was placed, or has nothing to decide. If it was woken for units with equal demand, the next of them is
    /// woken.
    pub(crate) fn pass_on(&mut self, unit: UnitId) {
        let next = self.waiting.pass_on(unit);
        self.make_ready(next);
    }

    /// Takes a waiting unit that is to be searched with more effort, and how many times as many steps as a decision it
    /// gets.
    pub(crate) fn take_for_search(&mut self, now: Timestamp) -> Option<(UnitId, usize)> {
        while let Some((unit, effort)) = self.search_retries.next_due(now) {
            // A unit in another state is decided later, and searched again if that gives up, too.
            if self.is_waiting(unit) {
                self.wake(unit, QueueEvent::SearchAgain);
                self.take_ready(unit);
                return Some((unit, effort));
            }
        }
        None
    }

    /// The demand of a waiting unit is another one now, so it no longer has equals.
    pub(super) fn detach_from_equals(&mut self, unit: UnitId) {
        let Some(entry) = self.entries.get_mut(&unit) else { return };
        let order = entry.order;
        if let UnitQueueState::Unschedulable(waiting) = &mut entry.state
            && waiting.equal.is_some()
        {
            self.waiting.remove((unit, order), waiting);
            self.waiting.insert((unit, order), waiting, None);
            // Some of the slots that it lacked may be there by now.
            self.waiting.set_missing_slots(unit, waiting, 1);
        }
    }

    pub(super) fn make_ready(&mut self, woken: impl IntoIterator<Item = WokenUnit>) {
        for (unit, by) in woken {
            self.move_to(unit, UnitQueueState::Ready, by);
        }
    }
}
