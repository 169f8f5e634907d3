//! Which units a change of a node wakes: those for which it may have made room.
//!
//! For pods of one class that is so where the node has more slots for them. Pods of several classes have to fit together:
//! five GPUs take a pod of three and one of two, four GPUs do not, and neither class has more slots with five. So such
//! units are woken when a resource that they use has grown.

use smallvec::SmallVec;

use super::Core;
use crate::classes::ClassId;
use crate::cluster::{NodeIndex, ResourceId};
use crate::queue::counts::Arrival;
use crate::wakes::Wakes;

/// What a node had to offer before a change.
pub(super) struct Before {
    /// Slots for every class that units wait with, and how many of them are not held.
    rooms: SmallVec<[(ClassId, u32, u32); 8]>,
    /// What was free of each resource that units with several classes use; nothing while no such unit waits.
    free: SmallVec<[(ResourceId, i64); 8]>,
    places: i64,
}

impl Core {
    /// What the node has to offer to every class that units wait with and that such a change could help.
    pub(super) fn rooms(&self, node: Option<NodeIndex>, kinds: Wakes) -> Before {
        let helped = self.queue.waiting_classes().filter(|class| self.classes.wakes(*class).meets(kinds));
        let rooms = helped.map(|class| {
            let (room, beside) = node.map_or((0, 0), |node| self.room_with_and_beside_hold(class, node));
            (class, room, beside)
        });
        let rooms = rooms.collect();
        let mut free: SmallVec<[(ResourceId, i64); 8]> = SmallVec::new();
        for class in self.queue.waiting_mixed_classes().filter_map(|class| self.classes.get(class)) {
            for (resource, _) in &class.usage.requests {
                if !free.iter().any(|(known, _)| known == resource) {
                    free.push((*resource, node.map_or(0, |node| self.cluster.free(*resource, node))));
                }
            }
        }
        Before { rooms, free, places: node.map_or(0, |node| self.cluster.places_free(node)) }
    }

    /// Wakes the units for which the node has more than before.
    pub(super) fn wake(&mut self, node: NodeIndex, before: &Before, kinds: Wakes) {
        for (class, room, beside) in &before.rooms {
            if self.classes.wakes(*class).meets(kinds) {
                let now = self.room_with_and_beside_hold(*class, node);
                if now.0 > *room || now.1 > *beside {
                    self.queue.wake_class(*class, arrival(kinds));
                }
            }
        }
        let mixed: SmallVec<[ClassId; 8]> = self.queue.waiting_mixed_classes().collect();
        for class in mixed {
            if self.classes.wakes(class).meets(kinds) && self.room(class, node) > 0 {
                self.wake_mixed(class, node, before, kinds);
            }
        }
    }

    fn wake_mixed(&mut self, class: ClassId, node: NodeIndex, before: &Before, kinds: Wakes) {
        let Some(known) = self.classes.get(class) else { return };
        let uses = |resource: ResourceId| known.usage.requested(resource) > 0;
        let has_more =
            |(resource, free): &(ResourceId, i64)| uses(*resource) && self.cluster.free(*resource, node) > *free;
        // What other filters count is not known.
        let counts_more = !self.classes.plugins(known).counts_only_usage();
        if counts_more || before.free.iter().any(has_more) {
            self.queue.wake_mixed(class, -1, arrival(kinds));
        } else if self.cluster.places_free(node) > before.places {
            self.queue.wake_mixed(class, before.places, arrival(kinds));
        }
    }

    pub(super) fn room(&self, class: ClassId, node: NodeIndex) -> u32 {
        self.classes.room(class, node, &self.cluster)
    }

    /// Slots on a node for units that see no hold there, and for those that do.
    fn room_with_and_beside_hold(&self, class: ClassId, node: NodeIndex) -> (u32, u32) {
        let room = self.room(class, node);
        (room, self.classes.room_beside_hold(class, node, room, &self.cluster))
    }
}

/// What a change of these kinds is to those whom it wakes.
fn arrival(kinds: Wakes) -> Arrival {
    if kinds.meets(Wakes::NODE_ADDED) {
        Arrival::NodeAdded
    } else if kinds.meets(Wakes::POD_LEFT) {
        Arrival::PodLeft
    } else {
        Arrival::NodeChanged
    }
}
