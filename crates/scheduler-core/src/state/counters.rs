//! What is counted: how many wait where, how often a unit was tried, how much the core knows.

use std::collections::BTreeMap;

use super::Core;
use crate::decision::Unit;
use crate::queue::UnitId;
use crate::queue::counts::{IncomingCounts, QueueEvent, SubQueue, SubQueueCounts};

impl Core {
    /// How many units and pods stand in this part of the queue.
    pub fn sub_queue_counts(&self, line: SubQueue) -> SubQueueCounts {
        let mut standing = self.queue.counts.of(line);
        if line == SubQueue::Gated {
            // Pods with gates of their own are in no unit yet.
            standing.pods += self.gated_count;
        }
        standing
    }

    /// Who came into which part of the queue since this was last asked, and by what.
    pub fn take_incoming(&mut self) -> BTreeMap<(SubQueue, QueueEvent), IncomingCounts> {
        self.queue.counts.take_incoming()
    }

    /// How many units were found to fit since this was last asked, by [`Core::explain`] or [`Core::advise`], while they
    /// waited for a change: each is a wake-up that was missed. They are decided next.
    pub fn take_missed_wakeups(&mut self) -> u64 {
        std::mem::take(&mut self.missed_wakeups_count)
    }

    /// Whether [`Core::next`] has units to decide at once.
    pub fn has_ready(&self) -> bool {
        self.queue.has_ready()
    }

    /// The unit fits as it is.
    pub(super) fn found_to_fit(&mut self, unit: UnitId) {
        self.missed_wakeups_count += u64::from(self.queue.force_activate(unit));
    }

    /// How often the unit was tried until it was last placed, or so far; 0 for one that is not known.
    pub fn tries_count(&self, unit: &Unit) -> u32 {
        let id = match unit {
            Unit::Pod(key) => self.pods.find(key).map(UnitId::Pod),
            Unit::Group(key) => self.groups.find(key).map(UnitId::Group),
        };
        id.map_or(0, |id| self.queue.tries_count(id))
    }

    /// The `schedulerName` by which a unit is placed, while pods of it wait; that of a single pod also while it is bound.
    pub fn scheduler_name(&self, unit: &Unit) -> Option<&str> {
        let class = match unit {
            Unit::Pod(key) => self.pods.get(self.pods.find(key)?).class?,
            Unit::Group(key) => self.groups.get(self.groups.find(key)?).pending.class_counts().next()?.0,
        };
        self.classes.scheduler_name(class)
    }

    /// How many nodes there are.
    pub fn nodes_count(&self) -> usize {
        self.cluster.present_count()
    }

    /// How many pods the core keeps account of: those that wait and those on nodes.
    pub fn pods_count(&self) -> usize {
        self.pods.len()
    }
}
