//! Which units a change of a node wakes: those for which it may have freed capacity.
//!
//! A unit of one class is woken when the node has more slots for the class. Units of several classes must fit
//! together: five GPUs fit a pod of three and one of two, four GPUs do not, and neither class has more slots with
//! five. So such units are woken when a resource that they use has grown.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::Core;
use crate::cluster::{NodeIndex, ResourceId};
use crate::demand::classes::ClassId;
use crate::queue::cluster_events::ClusterEvents;
use crate::queue::counts::QueueEvent;

/// The free capacity of a node before a change.
pub(super) struct CapacitySnapshot {
    /// Slots for every waiting class, and how many of them are not reserved.
    slots: SmallVec<[(ClassId, u32, u32); 8]>,
    /// Free amount of each resource that waiting units of several classes use; empty if there are none.
    free: SmallVec<[(ResourceId, i64); 8]>,
    pod_slots: i64,
}

impl Core {
    /// The free capacity of a node for every waiting class that these events could help.
    pub(super) fn capacity_snapshot(&self, node: Option<NodeIndex>, events: ClusterEvents) -> CapacitySnapshot {
        let helped =
            self.queue.waiting_classes().filter(|class| self.classes.events_to_register(*class).intersects(events));
        let slots = helped.map(|class| {
            let (slots, unreserved) = node.map_or((0, 0), |node| self.slots_with_and_beside_reservation(class, node));
            (class, slots, unreserved)
        });
        let slots = slots.collect();
        let mut free: SmallVec<[(ResourceId, i64); 8]> = SmallVec::new();
        for class in self.queue.waiting_mixed_classes().filter_map(|class| self.classes.get(class)) {
            for (resource, _) in &class.usage.requests {
                if !free.iter().any(|(existing, _)| existing == resource) {
                    free.push((*resource, node.map_or(0, |node| self.cluster.free(*resource, node))));
                }
            }
        }
        CapacitySnapshot { slots, free, pod_slots: node.map_or(0, |node| self.cluster.free_pod_slots(node)) }
    }

    /// Wakes the units for which the node has more than before.
    pub(super) fn wake(&mut self, node: NodeIndex, before: &CapacitySnapshot, events: ClusterEvents) {
        for (class, slots, unreserved) in &before.slots {
            if self.classes.events_to_register(*class).intersects(events) {
                let now = self.slots_with_and_beside_reservation(*class, node);
                if now.0 > *slots || now.1 > *unreserved {
                    self.queue.wake_class(*class, queue_event(events));
                }
            }
        }
        let mixed: SmallVec<[ClassId; 8]> = self.queue.waiting_mixed_classes().collect();
        for class in mixed {
            if self.classes.events_to_register(class).intersects(events) && self.slots(class, node) > 0 {
                self.wake_mixed(class, node, before, events);
            }
        }
    }

    /// Wakes the units that the pods which a decision placed on these nodes may help. How many slots there were before
    /// is no longer known, so any slot counts.
    pub(super) fn wake_beside_placed(&mut self, nodes: impl Iterator<Item = NodeIndex>) {
        if self.classes.all_monotone() {
            return;
        }
        let before = self.capacity_snapshot(None, ClusterEvents::ASSIGNED_POD_ADD);
        for node in nodes.collect::<BTreeSet<_>>() {
            self.wake(node, &before, ClusterEvents::ASSIGNED_POD_ADD);
        }
    }

    fn wake_mixed(&mut self, class: ClassId, node: NodeIndex, before: &CapacitySnapshot, events: ClusterEvents) {
        let Some(usage_class) = self.classes.get(class) else { return };
        let uses = |resource: ResourceId| usage_class.usage.requested(resource) > 0;
        let has_more =
            |(resource, free): &(ResourceId, i64)| uses(*resource) && self.cluster.free(*resource, node) > *free;
        // What other filters count is unknown.
        let counts_more = !self.classes.plugins(usage_class).counts_only_usage();
        if counts_more || before.free.iter().any(has_more) {
            self.queue.wake_mixed(class, -1, queue_event(events));
        } else if self.cluster.free_pod_slots(node) > before.pod_slots {
            self.queue.wake_mixed(class, before.pod_slots, queue_event(events));
        }
    }

    pub(super) fn slots(&self, class: ClassId, node: NodeIndex) -> u32 {
        self.classes.slots(class, node, &self.cluster)
    }

    /// Slots on a node for units that ignore the reservation there, and for those that must respect it.
    fn slots_with_and_beside_reservation(&self, class: ClassId, node: NodeIndex) -> (u32, u32) {
        let slots = self.slots(class, node);
        (slots, self.classes.slots_beside_reservation(class, node, slots, &self.cluster))
    }
}

/// The queue event for units that these cluster events wake.
fn queue_event(events: ClusterEvents) -> QueueEvent {
    if events.intersects(ClusterEvents::NODE_ADD) {
        QueueEvent::NodeAdd
    } else if events.intersects(ClusterEvents::ASSIGNED_POD_DELETE) {
        QueueEvent::AssignedPodDelete
    } else if events.intersects(ClusterEvents::ASSIGNED_POD_ADD) {
        QueueEvent::AssignedPodAdd
    } else {
        QueueEvent::NodeUpdate
    }
}
