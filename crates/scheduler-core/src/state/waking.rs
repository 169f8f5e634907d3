//! Which units a change of a node wakes: those for which it may have made room.
//!
//! For pods of one class that is so where the node has more slots for them. Pods of several classes have to fit together:
//! five GPUs take a pod of three and one of two, four GPUs do not, and neither class has more slots with five. So such
//! units are woken when a resource that they use has grown.

use smallvec::SmallVec;

use super::Core;
use crate::classes::ClassId;
use crate::cluster::{NodeIndex, ResourceId};
use crate::cluster_events::ClusterEvents;
use crate::queue::counts::QueueEvent;

/// What a node had to offer before a change.
pub(super) struct CapacitySnapshot {
    /// Slots for every class that units wait with, and how many of them are not held.
    slots: SmallVec<[(ClassId, u32, u32); 8]>,
    /// What was free of each resource that units with several classes use; nothing while no such unit waits.
    free: SmallVec<[(ResourceId, i64); 8]>,
    pod_slots: i64,
}

impl Core {
    /// What the node has to offer to every class that units wait with and that such a change could help.
    pub(super) fn capacity_snapshot(&self, node: Option<NodeIndex>, kinds: ClusterEvents) -> CapacitySnapshot {
        let helped =
            self.queue.waiting_classes().filter(|class| self.classes.events_to_register(*class).intersects(kinds));
        let rooms = helped.map(|class| {
            let (room, beside) = node.map_or((0, 0), |node| self.slots_with_and_beside_reservation(class, node));
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
        CapacitySnapshot { slots: rooms, free, pod_slots: node.map_or(0, |node| self.cluster.free_pod_slots(node)) }
    }

    /// Wakes the units for which the node has more than before.
    pub(super) fn wake(&mut self, node: NodeIndex, before: &CapacitySnapshot, kinds: ClusterEvents) {
        for (class, room, beside) in &before.slots {
            if self.classes.events_to_register(*class).intersects(kinds) {
                let now = self.slots_with_and_beside_reservation(*class, node);
                if now.0 > *room || now.1 > *beside {
                    self.queue.wake_class(*class, queue_event(kinds));
                }
            }
        }
        let mixed: SmallVec<[ClassId; 8]> = self.queue.waiting_mixed_classes().collect();
        for class in mixed {
            if self.classes.events_to_register(class).intersects(kinds) && self.slots(class, node) > 0 {
                self.wake_mixed(class, node, before, kinds);
            }
        }
    }

    fn wake_mixed(&mut self, class: ClassId, node: NodeIndex, before: &CapacitySnapshot, kinds: ClusterEvents) {
        let Some(known) = self.classes.get(class) else { return };
        let uses = |resource: ResourceId| known.usage.requested(resource) > 0;
        let has_more =
            |(resource, free): &(ResourceId, i64)| uses(*resource) && self.cluster.free(*resource, node) > *free;
        // What other filters count is not known.
        let counts_more = !self.classes.plugins(known).counts_only_usage();
        if counts_more || before.free.iter().any(has_more) {
            self.queue.wake_mixed(class, -1, queue_event(kinds));
        } else if self.cluster.free_pod_slots(node) > before.pod_slots {
            self.queue.wake_mixed(class, before.pod_slots, queue_event(kinds));
        }
    }

    pub(super) fn slots(&self, class: ClassId, node: NodeIndex) -> u32 {
        self.classes.slots(class, node, &self.cluster)
    }

    /// Slots on a node for units that see no hold there, and for those that do.
    fn slots_with_and_beside_reservation(&self, class: ClassId, node: NodeIndex) -> (u32, u32) {
        let room = self.slots(class, node);
        (room, self.classes.slots_beside_reservation(class, node, room, &self.cluster))
    }
}

/// What a change of these kinds is to those whom it wakes.
fn queue_event(kinds: ClusterEvents) -> QueueEvent {
    if kinds.intersects(ClusterEvents::NODE_ADD) {
        QueueEvent::NodeAdd
    } else if kinds.intersects(ClusterEvents::ASSIGNED_POD_DELETE) {
        QueueEvent::AssignedPodDelete
    } else {
        QueueEvent::NodeUpdate
    }
}
