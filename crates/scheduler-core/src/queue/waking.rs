//! Which waiting units come back when a node has more room than before.

use std::collections::{BTreeMap, BTreeSet};

use super::counts::QueueEvent;
use super::{Queue, UnitId, UnitQueueState};
use crate::classes::ClassId;

impl Queue {
    /// Classes for which some unit waits for room.
    pub(crate) fn waiting_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting_by_class.keys().copied()
    }

    /// Those of them that some unit needs room for together with other classes.
    pub(crate) fn waiting_mixed_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.waiting_mixed.keys().copied()
    }

    /// There are more slots for a class.
    pub(crate) fn wake_class(&mut self, class: ClassId, by: QueueEvent) {
        for unit in self.waiting_by_class.get(&class).cloned().unwrap_or_default() {
            self.move_to(unit, UnitQueueState::Ready, by);
        }
    }

    /// A node that takes pods of the class has more of something than before: units that need room for several classes may
    /// fit. Where that is only places for pods, and there were `places_before`, it helps units with more pods than that.
    pub(crate) fn wake_mixed(&mut self, class: ClassId, places_before: i64, by: QueueEvent) {
        for unit in self.waiting_mixed.get(&class).cloned().unwrap_or_default() {
            let pods_count = self.entries.get(&unit).map_or(0, |entry| entry.pods_count);
            if i64::try_from(pods_count).unwrap_or(i64::MAX) > places_before {
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

    /// The unit was found to fit. True if it was waiting for a change: then one was missed, and it is decided next.
    pub(crate) fn force_activate(&mut self, unit: UnitId) -> bool {
        let is_waiting = self.is_waiting(unit);
        if is_waiting {
            self.move_to(unit, UnitQueueState::Ready, QueueEvent::FoundToFit);
        }
        is_waiting
    }
}

/// Takes a unit off the list of one class.
pub(super) fn unlist(waiting: &mut BTreeMap<ClassId, BTreeSet<UnitId>>, class: ClassId, unit: UnitId) {
    let units = waiting.get_mut(&class).expect("a waiting unit is listed");
    units.remove(&unit);
    if units.is_empty() {
        waiting.remove(&class);
    }
}
