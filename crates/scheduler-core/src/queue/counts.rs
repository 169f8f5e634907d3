//! How many units and pods stand where in the queue, and what brought them there. Kept up to date with every step, so that
//! asking costs nothing.

use std::collections::BTreeMap;

/// A part of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubQueue {
    /// To be decided now.
    Active,
    /// After a failed bind.
    Backoff,
    /// For room.
    Unschedulable,
    /// For the rest of its pods, for gates of pods to open, or for something that this scheduler does not do.
    Gated,
    /// For its PodGroup to exist.
    Incomplete,
}

impl SubQueue {
    /// Every part.
    pub const ALL: [SubQueue; 5] =
        [SubQueue::Active, SubQueue::Backoff, SubQueue::Unschedulable, SubQueue::Gated, SubQueue::Incomplete];

    /// As kube-scheduler calls it.
    // Upstream: one more, `pending`, holds pods that come while their group is decided; here nothing comes meanwhile.
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

/// What brings a unit into a part of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueEvent {
    /// A pod of it, or its PodGroup, is new or different.
    UnitChanged,
    /// It was tried, without success.
    ScheduleAttemptFailure,
    /// Its wait after a failed bind is over.
    BackoffComplete,
    /// A pod left its node.
    AssignedPodDelete,
    /// A node is new.
    NodeAdd,
    /// A node is different.
    NodeUpdate,
    /// Time has passed: its numbers are counted anew.
    Recount,
    /// It was found to fit when it was explained, although it waited for a change.
    FoundToFit,
}

impl QueueEvent {
    /// As kube-scheduler calls it, where it has such an event.
    pub fn name(self) -> &'static str {
        match self {
            QueueEvent::UnitChanged => "UnscheduledPodAdd",
            QueueEvent::ScheduleAttemptFailure => "ScheduleAttemptFailure",
            QueueEvent::BackoffComplete => "BackoffComplete",
            QueueEvent::AssignedPodDelete => "AssignedPodDelete",
            QueueEvent::NodeAdd => "NodeAdd",
            QueueEvent::NodeUpdate => "NodeUpdate",
            QueueEvent::Recount => "Recount",
            QueueEvent::FoundToFit => "ForceActivate",
        }
    }
}

/// How many stand in one part of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubQueueCounts {
    /// Pods, those of groups included.
    pub pods: usize,
    /// Pods without a group.
    pub single_pods: usize,
    /// Groups.
    pub groups: usize,
}

/// How many came into a part of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncomingCounts {
    /// Pods, those of groups included.
    pub pods: u64,
    /// Pods without a group, and groups.
    pub units: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounters {
    pending: [SubQueueCounts; SubQueue::ALL.len()],
    incoming: BTreeMap<(SubQueue, QueueEvent), IncomingCounts>,
}

/// A unit as it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedUnit {
    pub(super) is_group: bool,
    pub(super) pods: usize,
}

impl QueueCounters {
    pub(crate) fn of(&self, line: SubQueue) -> SubQueueCounts {
        self.pending[line as usize]
    }

    /// Who came since this was last asked.
    pub(crate) fn take_incoming(&mut self) -> BTreeMap<(SubQueue, QueueEvent), IncomingCounts> {
        std::mem::take(&mut self.incoming)
    }

    /// A unit moved from one part to another; none: it is not in the queue.
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
        if let Some(line) = from {
            let standing = &mut self.pending[line as usize];
            standing.pods -= unit.pods;
            *standing.units_mut(unit.is_group) -= 1;
        }
        if let Some(line) = to {
            let standing = &mut self.pending[line as usize];
            standing.pods += unit.pods;
            *standing.units_mut(unit.is_group) += 1;
            let came = self.incoming.entry((line, by)).or_default();
            came.pods += unit.pods as u64;
            came.units += 1;
        }
    }

    /// A unit that stands there has another number of pods.
    pub(super) fn record_resize(&mut self, line: SubQueue, from: usize, to: usize) {
        let standing = &mut self.pending[line as usize];
        standing.pods = standing.pods - from + to;
        if to > from {
            self.incoming.entry((line, QueueEvent::UnitChanged)).or_default().pods += (to - from) as u64;
        }
    }
}

impl SubQueueCounts {
    fn units_mut(&mut self, is_group: bool) -> &mut usize {
        if is_group { &mut self.groups } else { &mut self.single_pods }
    }
}
