//! Which waiting units are queued again when a node has more free capacity than before.

use std::collections::{BTreeMap, BTreeSet};

use super::counts::QueueEvent;
use super::{Queue, UnitId, UnitQueueState};
use crate::demand::classes::ClassId;

impl Queue {
    /// Classes of the units that wait for capacity.
    pub(crate) fn waiting_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting_by_class.keys().copied()
    }

    /// Those of them that a unit needs capacity for together with other classes.
    pub(crate) fn waiting_mixed_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting_mixed.keys().copied()
    }

    /// There are more slots for a class.
    pub(crate) fn wake_class(&mut self, class: ClassId, by: QueueEvent) {
        for unit in self.waiting_by_class.get(&class).cloned().unwrap_or_default() {
            self.move_to(unit, UnitQueueState::Ready, by);
        }
    }

    /// A node on which the class fits has more of a resource than before: units of several classes may fit. If only
    /// pod slots grew, and there were `pod_slots_before`, that helps only units with more pods than that.
    pub(crate) fn wake_mixed(&mut self, class: ClassId, pod_slots_before: i64, by: QueueEvent) {
        for unit in self.waiting_mixed.get(&class).cloned().unwrap_or_default() {
            let pods_count = self.entries.get(&unit).map_or(0, |entry| entry.pods_count);
            if i64::try_from(pods_count).unwrap_or(i64::MAX) > pod_slots_before {
                self.move_to(unit, UnitQueueState::Ready, by);
            }
        }
    }

    /// Nodes changed domains.
    pub(crate) fn wake_in_one_domain(&mut self) {
        for unit in self.waiting_in_one_domain.clone() {
            self.move_to(unit, UnitQueueState::Ready, QueueEvent::NodeUpdate);
        }
    }

    /// The unit fits. Returns true if it waited for a change: a wake-up was missed, and the unit is decided next.
    pub(crate) fn force_activate(&mut self, unit: UnitId) -> bool {
        let is_waiting = self.is_waiting(unit);
        if is_waiting {
            self.move_to(unit, UnitQueueState::Ready, QueueEvent::FoundToFit);
        }
        is_waiting
    }
}

/// Removes a unit from the list of one class.
pub(super) fn unlist(waiting: &mut BTreeMap<ClassId, BTreeSet<UnitId>>, class: ClassId, unit: UnitId) {
    let units = waiting.get_mut(&class).expect("a waiting unit is listed");
    units.remove(&unit);
    if units.is_empty() {
        waiting.remove(&class);
    }
}
