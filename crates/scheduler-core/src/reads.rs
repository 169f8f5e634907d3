//! What filters and scores read of a pod. Whatever none of them reads does not tell two pods apart.

use std::collections::BTreeSet;
use std::ops::BitOr;

/// What a filter or score reads of a pod: parts of its spec, and labels and annotations by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub(crate) parts: Parts,
    pub(crate) labels: BTreeSet<String>,
    pub(crate) annotations: BTreeSet<String>,
}

impl Reads {
    /// Only these parts; [`Parts::NONE`] for nothing at all.
    pub fn parts(parts: Parts) -> Reads {
        Reads { parts, ..Reads::default() }
    }

    /// The value of the pod's label `key` as well.
    pub fn and_label(mut self, key: &str) -> Reads {
        self.labels.insert(key.to_owned());
        self
    }

    /// The value of the pod's annotation `key` as well.
    pub fn and_annotation(mut self, key: &str) -> Reads {
        self.annotations.insert(key.to_owned());
        self
    }

    /// What either reads.
    pub(crate) fn union(mut self, other: &Reads) -> Reads {
        self.parts = self.parts | other.parts;
        self.labels.extend(other.labels.iter().cloned());
        self.annotations.extend(other.annotations.iter().cloned());
        self
    }
}

/// A set of the parts of a pod's spec that placement reads. Each is one field of [`Class`](crate::Class).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts(u8);

impl Parts {
    /// None of them.
    pub const NONE: Parts = Parts(0);
    /// Requested resources and host ports.
    pub const USAGE: Parts = Parts(1);
    /// Tolerations.
    pub const TOLERATIONS: Parts = Parts(2);
    /// The node selector and the required terms of node affinity.
    pub const REQUIRED_NODES: Parts = Parts(4);
    /// The preferred terms of node affinity.
    pub const PREFERRED_NODES: Parts = Parts(8);
    /// The node the pod names.
    pub const NODE_NAME: Parts = Parts(16);
    /// Container images.
    pub const IMAGES: Parts = Parts(32);

    /// All of them.
    pub(crate) const ALL: Parts = Parts(63);

    pub(crate) fn contains(self, other: Parts) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Parts {
    type Output = Parts;
    fn bitor(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }
}
