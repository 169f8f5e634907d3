//! Which waiting units are queued again when a node has more free capacity than before.

use super::counts::QueueEvent;
use super::waiting::WokenUnit;
use super::{Queue, UnitId, UnitQueueState};
use crate::demand::classes::ClassId;

impl Queue {
    /// Classes of the units that wait for capacity.
    pub(crate) fn waiting_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting.classes()
    }

    /// Those of them that a unit needs capacity for together with other classes.
    pub(crate) fn waiting_mixed_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting.mixed_classes()
    }

    /// There are more slots for a class.
    pub(crate) fn wake_class(&mut self, class: ClassId, by: QueueEvent) {
        let woken = self.waiting.wake_class(class, by);
        self.make_ready(woken);
    }

    /// A node on which the class fits has more of a resource than before: units of several classes may fit. If only
    /// pod slots grew, and there were `pod_slots_before`, that helps only units with more pods than that.
    pub(crate) fn wake_mixed(&mut self, class: ClassId, pod_slots_before: i64, by: QueueEvent) {
        let is_helped = |unit: UnitId| {
            let pods_count = self.entries.get(&unit).map_or(0, |entry| entry.pods_count);
            i64::try_from(pods_count).unwrap_or(i64::MAX) > pod_slots_before
        };
        let woken = self.waiting.wake_mixed(class, by, is_helped);
        self.make_ready(woken);
    }

    /// Nodes changed domains.
    pub(crate) fn wake_in_one_domain(&mut self) {
        let woken = self.waiting.wake_in_one_domain(QueueEvent::NodeUpdate);
        self.make_ready(woken);
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

    pub(super) fn make_ready(&mut self, woken: impl IntoIterator<Item = WokenUnit>) {
        for (unit, by) in woken {
            self.move_to(unit, UnitQueueState::Ready, by);
        }
    }
}
