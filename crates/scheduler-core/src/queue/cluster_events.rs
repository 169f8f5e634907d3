//! Cluster events: kinds of change that can turn a filter's "no" into a "yes".

use std::ops::{BitOr, BitOrAssign};

/// A set of cluster events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterEvents(u8);

impl ClusterEvents {
    /// Nothing helps.
    pub const NONE: ClusterEvents = ClusterEvents(0);
    /// A node was added.
    pub const NODE_ADD: ClusterEvents = ClusterEvents(1);
    /// The allocatable resources of a node changed.
    pub const NODE_ALLOCATABLE: ClusterEvents = ClusterEvents(2);
    /// A node's labels changed.
    pub const NODE_LABELS: ClusterEvents = ClusterEvents(4);
    /// A node's taints changed, or it was cordoned or uncordoned.
    pub const NODE_TAINTS: ClusterEvents = ClusterEvents(8);
    /// A pod left a node, or uses less of it.
    pub const ASSIGNED_POD_DELETE: ClusterEvents = ClusterEvents(16);
    /// The declared features of a node changed.
    pub const NODE_DECLARED_FEATURES: ClusterEvents = ClusterEvents(32);
    /// A pod came to a node. Only filters that are not monotone need it.
    pub const ASSIGNED_POD_ADD: ClusterEvents = ClusterEvents(128);
    /// Every event that a filter may register.
    pub const ANY: ClusterEvents = ClusterEvents(63 | ClusterEvents::ASSIGNED_POD_ADD.0);
    /// The images of a node changed. No filter may register this: only scores read images.
    pub(crate) const NODE_IMAGES: ClusterEvents = ClusterEvents(64);

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether some event is in both.
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
