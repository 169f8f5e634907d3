//! The number of units and pods in each sub-queue, and which events brought them there. Kept up to date on every
//! move, so that reading is free.

use std::collections::BTreeMap;

/// A sub-queue of the scheduling queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubQueue {
    /// Ready to be decided.
    Active,
    /// Backs off after a failed bind.
    Backoff,
    /// Does not fit.
    Unschedulable,
    /// Waits for missing pods or for scheduling gates, or has a term that this scheduler does not support.
    Gated,
    /// Waits for its PodGroup to exist.
    Incomplete,
}

impl SubQueue {
    /// Every sub-queue.
    pub const ALL: [SubQueue; 5] =
        [SubQueue::Active, SubQueue::Backoff, SubQueue::Unschedulable, SubQueue::Gated, SubQueue::Incomplete];

    /// The name that kube-scheduler uses.
    // Upstream: one more, `pending`, for pods that arrive while their group is decided. Here nothing arrives
    // meanwhile.
    pub fn name(self) -> &'static str {
        match self {
            SubQueue::Active => "active",
            SubQueue::Backoff => "backoff",
            SubQueue::Unschedulable => "unschedulable",
            SubQueue::Gated => "gated",
            SubQueue::Incomplete => "incomplete",
        }
    }
}

/// The event that moves a unit into a sub-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueEvent {
    /// A pod of it, or its PodGroup, was added or changed.
    UnitChanged,
    /// It was tried and refused.
    ScheduleAttemptFailure,
    /// Its backoff is over.
    BackoffComplete,
    /// A pod left its node.
    AssignedPodDelete,
    /// A pod came to a node.
    AssignedPodAdd,
    /// A node was added.
    NodeAdd,
    /// A node changed.
    NodeUpdate,
    /// Time has passed: the numbers of its refusal are computed again.
    Recount,
    /// A search gave up on it, and it is searched with more effort.
    SearchAgain,
    /// An explanation showed that it fits, although it waited for a change.
    FoundToFit,
}

impl QueueEvent {
    /// The name that kube-scheduler uses, where it has such an event.
    pub fn name(self) -> &'static str {
        match self {
            QueueEvent::UnitChanged => "UnscheduledPodAdd",
            QueueEvent::ScheduleAttemptFailure => "ScheduleAttemptFailure",
            QueueEvent::BackoffComplete => "BackoffComplete",
            QueueEvent::AssignedPodDelete => "AssignedPodDelete",
            QueueEvent::AssignedPodAdd => "AssignedPodAdd",
            QueueEvent::NodeAdd => "NodeAdd",
            QueueEvent::NodeUpdate => "NodeUpdate",
            QueueEvent::Recount => "Recount",
            QueueEvent::SearchAgain => "SearchAgain",
            QueueEvent::FoundToFit => "ForceActivate",
        }
    }
}

/// How many are in one sub-queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubQueueCounts {
    /// Pods, those of groups included.
    pub pods: usize,
    /// Pods without a group.
    pub single_pods: usize,
    /// Groups.
    pub groups: usize,
}

/// How many entered a sub-queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncomingCounts {
    /// Pods, those of groups included.
    pub pods: u64,
    /// Pods without a group, and groups.
    pub units: u64,
}

/// All counters of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounters {
    pending: [SubQueueCounts; SubQueue::ALL.len()],
    incoming: BTreeMap<(SubQueue, QueueEvent), IncomingCounts>,
}

/// A unit for counting.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedUnit {
    pub(super) is_group: bool,
    pub(super) pods: usize,
}

impl QueueCounters {
    pub(crate) fn of(&self, sub_queue: SubQueue) -> SubQueueCounts {
        self.pending[sub_queue as usize]
    }

    /// The counts since the last call.
    pub(crate) fn take_incoming(&mut self) -> BTreeMap<(SubQueue, QueueEvent), IncomingCounts> {
        std::mem::take(&mut self.incoming)
    }

    /// A unit moved between sub-queues; none: it is not in the queue.
    pub(super) fn record_move(
        &mut self,
        unit: CountedUnit,
        from: Option<SubQueue>,
        to: Option<SubQueue>,
        by: QueueEvent,
    ) {
        if from == to {
            return;
        }
        if let Some(sub_queue) = from {
            let counts = &mut self.pending[sub_queue as usize];
            counts.pods -= unit.pods;
            *counts.units_mut(unit.is_group) -= 1;
        }
        if let Some(sub_queue) = to {
            let counts = &mut self.pending[sub_queue as usize];
            counts.pods += unit.pods;
            *counts.units_mut(unit.is_group) += 1;
            let incoming = self.incoming.entry((sub_queue, by)).or_default();
            incoming.pods += unit.pods as u64;
            incoming.units += 1;
        }
    }

    /// A unit in this sub-queue has another number of pods.
    pub(super) fn record_resize(&mut self, sub_queue: SubQueue, from: usize, to: usize) {
        let counts = &mut self.pending[sub_queue as usize];
        counts.pods = counts.pods - from + to;
        if to > from {
            self.incoming.entry((sub_queue, QueueEvent::UnitChanged)).or_default().pods += (to - from) as u64;
        }
    }
}

impl SubQueueCounts {
    fn units_mut(&mut self, is_group: bool) -> &mut usize {
        if is_group { &mut self.groups } else { &mut self.single_pods }
    }
}
