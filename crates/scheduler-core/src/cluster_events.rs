//! Kinds of change that can turn a filter's "no" into "yes".

use std::ops::{BitOr, BitOrAssign};

/// A set of kinds of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterEvents(u8);

impl ClusterEvents {
    /// Nothing helps.
    pub const NONE: ClusterEvents = ClusterEvents(0);
    /// A node came.
    pub const NODE_ADD: ClusterEvents = ClusterEvents(1);
    /// What pods may use of a node changed.
    pub const NODE_ALLOCATABLE: ClusterEvents = ClusterEvents(2);
    /// A node's labels changed.
    pub const NODE_LABELS: ClusterEvents = ClusterEvents(4);
    /// A node's taints changed, or whether it is cordoned.
    pub const NODE_TAINTS: ClusterEvents = ClusterEvents(8);
    /// A pod left a node, or takes less of it.
    pub const ASSIGNED_POD_DELETE: ClusterEvents = ClusterEvents(16);
    /// Whatever can change.
    pub const ANY: ClusterEvents = ClusterEvents(31);
    /// The images on a node's disk changed. No filter may wait for it: only scores read them.
    pub(crate) const NODE_IMAGES: ClusterEvents = ClusterEvents(32);

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether some kind is in both.
    pub fn intersects(self, other: ClusterEvents) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for ClusterEvents {
    type Output = ClusterEvents;
    fn bitor(self, other: ClusterEvents) -> ClusterEvents {
        ClusterEvents(self.0 | other.0)
    }
}

impl BitOrAssign for ClusterEvents {
    fn bitor_assign(&mut self, other: ClusterEvents) {
        self.0 |= other.0;
    }
}
