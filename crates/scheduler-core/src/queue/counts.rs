//! How many units and pods stand where in the queue, and what brought them there. Kept up to date with every step, so that
//! asking costs nothing.

use std::collections::BTreeMap;

/// A part of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
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

impl Line {
    /// Every part.
    pub const ALL: [Line; 5] = [Line::Active, Line::Backoff, Line::Unschedulable, Line::Gated, Line::Incomplete];

    /// As kube-scheduler calls it.
    // Upstream: one more, `pending`, holds pods that come while their group is decided; here nothing comes meanwhile.
    pub fn name(self) -> &'static str {
        match self {
            Line::Active => "active",
            Line::Backoff => "backoff",
            Line::Unschedulable => "unschedulable",
            Line::Gated => "gated",
            Line::Incomplete => "incomplete",
        }
    }
}

/// What brings a unit into a part of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arrival {
    /// A pod of it, or its PodGroup, is new or different.
    Changed,
    /// It was tried, without success.
    Refused,
    /// Its wait after a failed bind is over.
    BackoffOver,
    /// A pod left its node.
    PodLeft,
    /// A node is new.
    NodeAdded,
    /// A node is different.
    NodeChanged,
    /// Time has passed: its numbers are counted anew.
    Recount,
    /// It was found to fit when it was explained, although it waited for a change.
    FoundToFit,
}

impl Arrival {
    /// As kube-scheduler calls it, where it has such an event.
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Changed => "UnscheduledPodAdd",
            Arrival::Refused => "ScheduleAttemptFailure",
            Arrival::BackoffOver => "BackoffComplete",
            Arrival::PodLeft => "AssignedPodDelete",
            Arrival::NodeAdded => "NodeAdd",
            Arrival::NodeChanged => "NodeUpdate",
            Arrival::Recount => "Recount",
            Arrival::FoundToFit => "ForceActivate",
        }
    }
}

/// How many stand in one part of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Pods, those of groups included.
    pub pods: usize,
    /// Pods without a group.
    pub single_pods: usize,
    /// Groups.
    pub groups: usize,
}

/// How many came into a part of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Pods, those of groups included.
    pub pods: u64,
    /// Pods without a group, and groups.
    pub units: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    standing: [Standing; Line::ALL.len()],
    came: BTreeMap<(Line, Arrival), Came>,
}

/// A unit as it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) is_group: bool,
    pub(super) pods: usize,
}

impl Counts {
    pub(crate) fn of(&self, line: Line) -> Standing {
        self.standing[line as usize]
    }

    /// Who came since this was last asked.
    pub(crate) fn take_came(&mut self) -> BTreeMap<(Line, Arrival), Came> {
        std::mem::take(&mut self.came)
    }

    /// A unit moved from one part to another; none: it is not in the queue.
    pub(super) fn moved(&mut self, unit: Counted, from: Option<Line>, to: Option<Line>, by: Arrival) {
        if from == to {
            return;
        }
        if let Some(line) = from {
            let standing = &mut self.standing[line as usize];
            standing.pods -= unit.pods;
            *standing.units(unit.is_group) -= 1;
        }
        if let Some(line) = to {
            let standing = &mut self.standing[line as usize];
            standing.pods += unit.pods;
            *standing.units(unit.is_group) += 1;
            let came = self.came.entry((line, by)).or_default();
            came.pods += unit.pods as u64;
            came.units += 1;
        }
    }

    /// A unit that stands there has another number of pods.
    pub(super) fn resized(&mut self, line: Line, from: usize, to: usize) {
        let standing = &mut self.standing[line as usize];
        standing.pods = standing.pods - from + to;
        if to > from {
            self.came.entry((line, Arrival::Changed)).or_default().pods += (to - from) as u64;
        }
    }
}

impl Standing {
    fn units(&mut self, is_group: bool) -> &mut usize {
        if is_group { &mut self.groups } else { &mut self.single_pods }
    }
}
