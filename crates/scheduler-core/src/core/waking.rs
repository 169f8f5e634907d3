//! Which units a change of a node wakes: those whose certificate it may have broken.
//!
//! More slots are counted until the unit may have as many as it lacks. Then the sums of today show whether it does: a
//! gang that lacks forty slots in every domain is woken by the fortieth. Units of several classes must fit together:
//! five GPUs fit a pod of three and one of two, four GPUs do not, and neither class has more slots with five. So where
//! the sums accept such a unit, it is woken when a resource that it uses has grown.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::Core;
use crate::cluster::{NodeIndex, ResourceId};
use crate::demand::classes::ClassId;
use crate::placement::domains::Domains;
use crate::queue::UnitId;
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
                let growth = now.0.saturating_sub(*slots).max(now.1.saturating_sub(*unreserved));
                if growth > 0 {
                    let units = self.queue.slots_grew(*class, growth);
                    self.wake_if_possible(units, Some(node), queue_event(events));
                }
            }
        }
        let mixed: SmallVec<[ClassId; 8]> = self.queue.waiting_mixed_classes().collect();
        for class in mixed {
            if self.classes.events_to_register(class).intersects(events)
                && self.slots(class, node) > 0
                && let Some(pod_slots_before) = self.resource_growth(class, node, before)
            {
                let units = self.queue.mixed_waiting_for(class, pod_slots_before);
                self.wake_if_possible(units, Some(node), queue_event(events));
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

    /// Whether a resource has grown that the class uses. If only pod slots have, returns how many there were.
    fn resource_growth(&self, class: ClassId, node: NodeIndex, before: &CapacitySnapshot) -> Option<i64> {
        let usage_class = self.classes.get(class)?;
        let uses = |resource: ResourceId| usage_class.usage.requested(resource) > 0;
        let has_more =
            |(resource, free): &(ResourceId, i64)| uses(*resource) && self.cluster.free(*resource, node) > *free;
        // What other filters count is unknown.
        let counts_more = !self.classes.plugins(usage_class).counts_only_usage();
        if counts_more || before.free.iter().any(has_more) {
            return Some(-1);
        }
        (self.cluster.free_pod_slots(node) > before.pod_slots).then_some(before.pod_slots)
    }

    /// Nodes changed domains: wakes the units that need one domain and that the sums accept now.
    pub(super) fn wake_in_one_domain(&mut self) {
        let units = self.queue.waiting_in_one_domain();
        self.wake_if_possible(units, None, QueueEvent::NodeUpdate);
    }

    /// Wakes those of the units that the sums accept in some domain. Where a search found no placement before, that
    /// must be a domain of the node, if one is given.
    fn wake_if_possible(&mut self, units: Vec<UnitId>, node: Option<NodeIndex>, by: QueueEvent) {
        for unit in units {
            if self.queue.was_hopeless_in_other_shape(unit, self.cluster.shape()) {
                self.queue.wake_to_be_refused_anew(unit, by);
                continue;
            }
            let Some(demand) = self.demand(unit) else {
                self.queue.wake(unit, by);
                continue;
            };
            self.enforce_reservation_for(unit);
            let mut domains = Domains::of(&demand, &self.cluster, &mut self.classes);
            let missing_slots = domains.missing_slots();
            if missing_slots > 0 {
                self.queue.keep_waiting(unit, missing_slots);
                continue;
            }
            let mut feasible = std::iter::from_fn(|| domains.next_feasible());
            let is_broken = match node.filter(|_| !self.queue.was_rejected_by_sums(unit)) {
                Some(node) => feasible.any(|region| region.contains(node, &self.cluster)),
                None => true,
            };
            if is_broken {
                self.queue.wake(unit, by);
            }
        }
    }

    /// Wakes the units that wait for a class, whatever changed.
    pub(super) fn wake_class(&mut self, class: ClassId, by: QueueEvent) {
        for unit in self.queue.waiting_for(class) {
            self.queue.wake(unit, by);
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
