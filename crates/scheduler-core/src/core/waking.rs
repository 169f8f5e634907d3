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
#[derive(Default)]
pub(super) struct CapacitySnapshot {
    /// Slots for every waiting class, as units at each place of the queue see them.
    slots: SmallVec<[(ClassId, u32); 8]>,
    /// How many classes there are at each place.
    classes_count: usize,
    /// Free amount of each resource that waiting units of several classes use, without ghosts. Ghosts do not come or
    /// go by the change, so a resource grows for all units or for none.
    free: SmallVec<[(ResourceId, i64); 8]>,
    /// As the last unit of the queue sees them.
    pod_slots: i64,
}

impl CapacitySnapshot {
    /// Slots before the change, with the ghosts of the first `level` sets. Without a node nothing was there.
    fn slots_at(&self, level: usize) -> &[(ClassId, u32)] {
        let start = level * self.classes_count;
        self.slots.get(start..start + self.classes_count).unwrap_or(&self.slots)
    }
}

/// What a node has more than before.
struct CapacityGrowth {
    /// By class, in the order of the snapshot: the most that a unit can see.
    slots: SmallVec<[u32; 8]>,
    /// Classes of units of several classes that have slots there.
    mixed: SmallVec<[ClassId; 8]>,
    resources: SmallVec<[ResourceId; 8]>,
    /// How many pod slots there were before, if there are more.
    pod_slots_before: Option<i64>,
}

impl Core {
    /// The free capacity of a node for every waiting class that these events could help.
    pub(super) fn capacity_snapshot(&mut self, node: Option<NodeIndex>, events: ClusterEvents) -> CapacitySnapshot {
        let waiting = self.queue.waiting_classes();
        let helped = waiting.filter(|class| self.classes.events_to_register(*class).intersects(events));
        let helped: SmallVec<[ClassId; 8]> = helped.collect();
        if helped.is_empty() {
            return CapacitySnapshot::default();
        }
        let mut free: SmallVec<[(ResourceId, i64); 8]> = SmallVec::new();
        for class in self.queue.waiting_mixed_classes().filter_map(|class| self.classes.get(class)) {
            for (resource, _) in &class.usage.requests {
                if !free.iter().any(|(existing, _)| existing == resource) {
                    free.push((*resource, 0));
                }
            }
        }
        let (mut slots, mut pod_slots): (SmallVec<[(ClassId, u32); 8]>, i64) = (SmallVec::new(), 0);
        match node {
            Some(node) => self.cluster.at_each_ghost_level(node, |level, cluster| {
                if level == 0 {
                    free.iter_mut().for_each(|(resource, free)| *free = cluster.free(*resource, node));
                }
                slots.extend(helped.iter().map(|class| (*class, self.classes.slots(*class, node, cluster))));
                pod_slots = cluster.free_pod_slots(node);
            }),
            None => slots.extend(helped.iter().map(|class| (*class, 0))),
        }
        CapacitySnapshot { slots, classes_count: helped.len(), free, pod_slots }
    }

    /// How many pods a node could take without any pods on it, of every class of units that the nodes themselves are in the
    /// way of.
    pub(super) fn slots_when_empty(&self, node: Option<NodeIndex>) -> SmallVec<[(ClassId, u32); 8]> {
        let classes = self.queue.waiting_hopeless_classes();
        let slots = |class| node.map_or(0, |node| self.classes.slots_when_empty(class, node, &self.cluster));
        classes.map(|class| (class, slots(class))).collect()
    }

    /// A node could take more pods than before, though not now: units that were too large for the nodes may only have to
    /// wait until pods end, and are refused anew.
    pub(super) fn wake_hopeless(&mut self, node: NodeIndex, slots_before: &[(ClassId, u32)]) {
        for (class, before) in slots_before {
            if self.classes.slots_when_empty(*class, node, &self.cluster) > *before {
                for unit in self.queue.hopeless_waiting_for(*class) {
                    self.queue.wake_to_be_refused_anew(unit, QueueEvent::NodeUpdate);
                }
            }
        }
    }

    /// Wakes the units for which the node has more than before.
    pub(super) fn wake(&mut self, node: NodeIndex, before: &CapacitySnapshot, events: ClusterEvents) {
        if before.classes_count == 0 {
            return;
        }
        // Everything is read first: units that are woken are shown other ghosts.
        let growth = self.growth_since(node, before, events);
        for ((class, _), growth) in before.slots_at(0).iter().zip(&growth.slots).filter(|(_, growth)| **growth > 0) {
            let units = self.queue.slots_grew(*class, *growth);
            self.wake_if_possible(units, Some(node), queue_event(events));
        }
        for class in &growth.mixed {
            if let Some(pod_slots_before) = self.resource_growth(*class, &growth) {
                let units = self.queue.mixed_waiting_for(*class, pod_slots_before);
                self.wake_if_possible(units, Some(node), queue_event(events));
            }
        }
    }

    fn growth_since(&mut self, node: NodeIndex, before: &CapacitySnapshot, events: ClusterEvents) -> CapacityGrowth {
        let is_helped = |class: ClassId| self.classes.events_to_register(class).intersects(events);
        let mixed: SmallVec<[ClassId; 8]> =
            self.queue.waiting_mixed_classes().filter(|class| is_helped(*class)).collect();
        let mut growth = CapacityGrowth {
            slots: SmallVec::from_elem(0, before.classes_count),
            mixed: SmallVec::new(),
            resources: SmallVec::new(),
            pod_slots_before: None,
        };
        self.cluster.at_each_ghost_level(node, |level, cluster| {
            for ((class, slots), growth) in before.slots_at(level).iter().zip(&mut growth.slots) {
                if is_helped(*class) {
                    *growth = self.classes.slots(*class, node, cluster).saturating_sub(*slots).max(*growth);
                }
            }
            for class in &mixed {
                if !growth.mixed.contains(class) && self.classes.slots(*class, node, cluster) > 0 {
                    growth.mixed.push(*class);
                }
            }
            if level == 0 {
                let grown = before.free.iter().filter(|(resource, free)| cluster.free(*resource, node) > *free);
                growth.resources.extend(grown.map(|(resource, _)| *resource));
            }
            let has_more = cluster.free_pod_slots(node) > before.pod_slots;
            growth.pod_slots_before = has_more.then_some(before.pod_slots);
        });
        growth
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

    /// Ghosts on these nodes are gone, or there are fewer: wakes the units that may use the room.
    pub(super) fn wake_where_ghosts_left(&mut self, nodes: &[NodeIndex]) {
        let mut waiting: Vec<ClassId> = self.queue.waiting_classes().collect();
        let mut with_room = Vec::new();
        for node in nodes {
            self.cluster.at_each_ghost_level(*node, |_, cluster| {
                let has_room = |class: &mut ClassId| self.classes.slots(*class, *node, cluster) > 0;
                with_room.extend(waiting.extract_if(.., has_room));
            });
        }
        for class in with_room {
            let units = self.queue.waiting_for(class);
            self.wake_if_possible(units, None, QueueEvent::NodeUpdate);
        }
    }

    /// Whether a resource has grown that the class uses. If only pod slots have, returns how many there were.
    fn resource_growth(&self, class: ClassId, growth: &CapacityGrowth) -> Option<i64> {
        let usage_class = self.classes.get(class)?;
        // What other filters count is unknown.
        let counts_more = !self.classes.plugins(usage_class).counts_only_usage();
        if counts_more || growth.resources.iter().any(|resource| usage_class.usage.requested(*resource) > 0) {
            return Some(-1);
        }
        growth.pod_slots_before
    }

    /// Nodes changed domains: wakes the units that need one domain and that the sums accept now.
    pub(super) fn wake_in_one_domain(&mut self) {
        let units = self.queue.waiting_in_one_domain();
        self.wake_if_possible(units, None, QueueEvent::NodeUpdate);
    }

    /// Wakes those of the units that the sums accept in some domain. Where a search found no placement before, that
    /// must be a domain of the node, if one is given.
    fn wake_if_possible(&mut self, mut units: Vec<UnitId>, node: Option<NodeIndex>, by: QueueEvent) {
        if self.cluster.has_ghosts() {
            // Then fewer ghosts come and go from one unit to the next.
            units.sort_by_key(|unit| self.queue.order_of(*unit));
        }
        for unit in units {
            if self.queue.was_hopeless_in_other_shape(unit, self.cluster.shape()) {
                self.queue.wake_to_be_refused_anew(unit, by);
                continue;
            }
            let Some(demand) = self.demand(unit) else {
                self.queue.wake(unit, by);
                continue;
            };
            self.show_ghosts_to(unit);
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
