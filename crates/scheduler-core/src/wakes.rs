//! Kinds of change that can turn a filter's "no" into "yes".

use std::ops::{BitOr, BitOrAssign};

/// A set of kinds of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes(u8);

impl Wakes {
    /// Nothing helps.
    pub const NONE: Wakes = Wakes(0);
    /// A node came.
    pub const NODE_ADDED: Wakes = Wakes(1);
    /// What pods may use of a node changed.
    pub const ALLOCATABLE: Wakes = Wakes(2);
    /// A node's labels changed.
    pub const LABELS: Wakes = Wakes(4);
    /// A node's taints changed, or whether it is cordoned.
    pub const TAINTS: Wakes = Wakes(8);
    /// A pod left a node, or takes less of it.
    pub const POD_LEFT: Wakes = Wakes(16);
    /// Whatever can change.
    pub const ANY: Wakes = Wakes(31);
    /// The images on a node's disk changed. No filter may wait for it: only scores read them.
    pub(crate) const IMAGES: Wakes = Wakes(32);

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether some kind is in both.
    pub fn meets(self, other: Wakes) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Wakes {
    type Output = Wakes;
    fn bitor(self, other: Wakes) -> Wakes {
        Wakes(self.0 | other.0)
    }
}

impl BitOrAssign for Wakes {
    fn bitor_assign(&mut self, other: Wakes) {
        self.0 |= other.0;
    }
}
