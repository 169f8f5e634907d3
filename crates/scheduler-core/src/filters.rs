//! Where a class may go, and how often: one file a filter.
//!
//! A filter is handed the class, never the pod, and declares what it reads, of which kind it is and what can turn its
//! "no" into "yes". Everything else about it follows: the class key, the kept index, the wake-ups.

mod host_ports;
mod node_affinity;
mod node_name;
mod node_unschedulable;
mod resources;
mod taints;

use std::ops::{BitOr, BitOrAssign};

pub(crate) use node_affinity::term_matches;
pub(crate) use taints::tolerates;

use crate::classes::Class;
use crate::cluster::{Cluster, NodeIndex, ResourceId};

/// All filters, in the order they are asked; the first to refuse a node gives the reason.
pub(crate) static FILTERS: [&dyn Filter; 6] = [
    &node_name::NodeName,
    &node_unschedulable::NodeUnschedulable,
    &taints::Taints,
    &node_affinity::NodeAffinity,
    &host_ports::HostPorts,
    &resources::Resources,
];

/// Says how many more pods of a class a node takes.
pub(crate) trait Filter: Sync {
    /// How its answer may be kept.
    fn kind(&self) -> Kind;

    /// The parts of a pod it reads. The union over filters and scores is the class key.
    #[cfg_attr(not(test), expect(dead_code, reason = "the class key is checked against it by a test"))]
    fn reads(&self) -> Parts;

    /// Which changes can turn its "no" into "yes" for pods of this class.
    fn wakes(&self, class: &Class) -> Wakes;

    /// How many more pods of `class` the node takes under `load`, as far as this filter goes. [`NO_LIMIT`]: any number.
    fn room(&self, class: &Class, node: NodeIndex, cluster: &Cluster, load: Load) -> u32;

    /// Why it refuses the node to one more pod, after `more` others of the class that are not counted there yet.
    fn reasons(&self, class: &Class, node: NodeIndex, cluster: &Cluster, more: u32, say: &mut dyn FnMut(Reason));
}

/// A filter that does not mind how many pods of the class come.
pub(crate) const NO_LIMIT: u32 = u32::MAX;

/// What kind of answer a filter gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Yes or no for a node, whatever pods are on it.
    Static,
    /// A number of slots on a node, from what is taken there.
    Counted,
    /// Depends on pods elsewhere: counters per term and domain (spread, inter-pod terms).
    #[expect(dead_code, reason = "its place is kept for the filters that read inter-pod terms")]
    Coupled,
    /// Depends on an allocation for the whole group (shared claims, ReadWriteOncePod).
    #[expect(dead_code, reason = "its place is kept for the filters that allocate claims")]
    Global,
}

/// Which pods to reckon with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Those on the node now.
    Now,
    /// None: could the class ever fit here?
    Empty,
}

/// Why a node was refused. Texts are those of kube-scheduler (facts: scheduler 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    NodeName,
    Unschedulable,
    Taints,
    NodeAffinity,
    HostPorts,
    TooManyPods,
    Insufficient(ResourceId),
    /// The node lacks the label that names its domain.
    NoTopologyLabel,
    /// The node has room, but its domain has not enough for the group.
    DomainTooSmall,
}

impl Reason {
    pub(crate) fn text(self, cluster: &Cluster) -> String {
        match self {
            Reason::NodeName => "node(s) didn't match the requested node name".to_owned(),
            Reason::Unschedulable => "node(s) were unschedulable".to_owned(),
            Reason::Taints => "node(s) had untolerated taint(s)".to_owned(),
            Reason::NodeAffinity => "node(s) didn't match Pod's node affinity/selector".to_owned(),
            Reason::HostPorts => "node(s) didn't have free ports for the requested pod ports".to_owned(),
            Reason::TooManyPods => "Too many pods".to_owned(),
            Reason::Insufficient(resource) => format!("Insufficient {}", cluster.resource_name(resource)),
            // Upstream: such nodes are left out of the count, so the numbers do not add up to the cluster.
            Reason::NoTopologyLabel => "node(s) didn't have the topology label of the group".to_owned(),
            Reason::DomainTooSmall => "node(s) were in a topology domain without room for the group".to_owned(),
        }
    }
}

/// How many more pods of `class` a node takes, all filters together.
pub(crate) fn room(class: &Class, node: NodeIndex, cluster: &Cluster, load: Load) -> u32 {
    if !cluster.node(node).present {
        return 0;
    }
    let mut room = NO_LIMIT;
    for filter in FILTERS {
        room = room.min(filter.room(class, node, cluster, load));
        if room == 0 {
            break;
        }
    }
    room
}

/// A set of kinds of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wakes(u8);

impl Wakes {
    pub(crate) const NONE: Wakes = Wakes(0);
    /// A node came.
    pub(crate) const NODE_ADDED: Wakes = Wakes(1);
    /// What pods may use of a node changed.
    pub(crate) const ALLOCATABLE: Wakes = Wakes(2);
    /// A node's labels changed.
    pub(crate) const LABELS: Wakes = Wakes(4);
    /// A node's taints changed, or whether it is cordoned.
    pub(crate) const TAINTS: Wakes = Wakes(8);
    /// Whatever can change.
    pub(crate) const ANY: Wakes = Wakes(31);
    /// A pod left a node, or takes less of it.
    pub(crate) const POD_LEFT: Wakes = Wakes(16);

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn meets(self, other: Wakes) -> bool {
        self.0 & other.0 != 0
    }
}

/// A set of the parts of a pod that placement reads. Each is one field of [`Class`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(u8);

impl Parts {
    pub(crate) const USAGE: Parts = Parts(1);
    pub(crate) const TOLERATIONS: Parts = Parts(2);
    pub(crate) const REQUIRED_NODES: Parts = Parts(4);
    #[cfg(test)]
    pub(crate) const PREFERRED_NODES: Parts = Parts(8);
    pub(crate) const NODE_NAME: Parts = Parts(16);
    #[cfg(test)]
    pub(crate) const ALL: Parts = Parts(31);
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

impl BitOr for Parts {
    type Output = Parts;
    fn bitor(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_consists_of_exactly_what_filters_and_scores_read() {
        let read = FILTERS.iter().fold(crate::scores::reads(), |parts, filter| parts | filter.reads());
        assert_eq!(read, Parts::ALL);
    }

    #[test]
    fn static_filters_come_first_so_that_their_answer_can_be_kept() {
        let counted_from = FILTERS.iter().position(|filter| filter.kind() != Kind::Static);
        let statics = FILTERS.iter().filter(|filter| filter.kind() == Kind::Static).count();
        assert_eq!(counted_from, Some(statics));
    }
}
