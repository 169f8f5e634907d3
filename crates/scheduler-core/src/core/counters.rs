//! Metrics: how many units wait in each sub-queue, how often a unit was tried, the number of nodes and pods.

use std::collections::BTreeMap;

use super::Core;
use crate::decision::Unit;
use crate::queue::UnitId;
use crate::queue::counts::{IncomingCounts, QueueEvent, SubQueue, SubQueueCounts};

impl Core {
    /// The number of units and pods in a sub-queue.
    pub fn sub_queue_counts(&self, sub_queue: SubQueue) -> SubQueueCounts {
        let mut counts = self.queue.counts.of(sub_queue);
        if sub_queue == SubQueue::Gated {
            // Pods with scheduling gates are in no unit.
            counts.pods += self.gated_count;
        }
        counts
    }

    /// What entered which sub-queue by which event since the last call.
    pub fn take_incoming(&mut self) -> BTreeMap<(SubQueue, QueueEvent), IncomingCounts> {
        self.queue.counts.take_incoming()
    }

    /// How many waiting units were found to fit since the last call, by [`Core::explain`] or
    /// [`Core::find_remedies`]. Each is a missed wake-up. They are decided next.
    pub fn take_missed_wakeups(&mut self) -> u64 {
        std::mem::take(&mut self.missed_wakeups_count)
    }

    /// Whether [`Core::next`] has units to decide at once.
    pub fn has_ready(&self) -> bool {
        self.queue.has_ready()
    }

    /// How often the unit was tried until it was last placed, or so far; 0 if it is not tracked.
    pub fn tries_count(&self, unit: &Unit) -> u32 {
        let id = match unit {
            Unit::Pod(key) => self.pods.find(key).map(UnitId::Pod),
            Unit::Group(key) => self.groups.find(key).map(UnitId::Group),
        };
        id.map_or(0, |id| self.queue.tries_count(id))
    }

    /// The `schedulerName` of a unit while its pods are pending; of a single pod also while it is assumed.
    pub fn scheduler_name(&self, unit: &Unit) -> Option<&str> {
        let class = match unit {
            Unit::Pod(key) => self.pods.get(self.pods.find(key)?).class?,
            Unit::Group(key) => self.groups.get(self.groups.find(key)?).pending.class_counts().next()?.0,
        };
        self.classes.scheduler_name(class)
    }

    /// How many class indexes were built from all nodes so far. A class has one build; another follows only if its index
    /// was dropped.
    pub fn index_builds_count(&self) -> u64 {
        self.classes.builds_count()
    }

    /// For how many pods without a group, and for how many groups, room is reserved.
    pub fn reservations_counts(&self) -> (usize, usize) {
        let groups_count = self.reservations.keys().filter(|unit| matches!(unit, UnitId::Group(_))).count();
        (self.reservations.len() - groups_count, groups_count)
    }

    /// The share of the cluster that reservations keep idle, from 0 to 1, as last computed.
    pub fn reserved_idle_share(&self) -> f64 {
        self.reservation_budget.idle_millionths() as f64 / 1e6
    }

    /// What reservations have kept idle since the last call: the share of the cluster × seconds.
    pub fn take_reserved_idle_seconds(&mut self) -> f64 {
        self.reservation_budget.take_spent_seconds()
    }

    /// How many pods of other schedulers have room because they are nominated to a node.
    pub fn nominations_count(&self) -> usize {
        self.nominations.len()
    }

    /// The number of nodes.
    pub fn nodes_count(&self) -> usize {
        self.cluster.present_count()
    }

    /// The number of tracked pods: pending pods and pods on nodes.
    pub fn pods_count(&self) -> usize {
        self.pods.len()
    }
}
