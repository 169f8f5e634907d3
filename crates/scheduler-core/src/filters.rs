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

use std::fmt::Debug;

pub(crate) use host_ports::HostPorts;
pub(crate) use node_affinity::{NodeAffinity, term_matches};
pub(crate) use node_name::NodeName;
pub(crate) use node_unschedulable::NodeUnschedulable;
pub(crate) use resources::Resources;
pub(crate) use taints::{Taints, tolerates};

use crate::classes::Class;
use crate::cluster::{Cluster, NodeRef, NodeRefs, ResourceId};
use crate::reads::Reads;
use crate::wakes::Wakes;

/// Says how many more pods of a class a node takes.
///
/// What a filter declares is held against what it does by [`declarations::check`](crate::declarations::check).
pub trait Filter: Debug + Send + Sync {
    /// Its name, as configuration and explanations show it.
    fn name(&self) -> &str;

    /// How its answer may be kept.
    fn kind(&self) -> Kind;

    /// What it reads of a pod. The union over the filters and scores of a profile is what tells classes apart; nothing
    /// else of a pod may reach an answer.
    fn reads(&self) -> Reads;

    /// Which changes can turn its "no" into "yes" for pods of this class.
    fn wakes(&self, class: &Class) -> Wakes;

    /// How many more pods of `class` the node takes under `load`, as far as this filter goes. [`NO_LIMIT`]: any number.
    /// A [`Kind::Static`] filter answers 0 or [`NO_LIMIT`]. An empty node takes at least as many as it does now.
    fn room(&self, class: &Class, node: NodeRef<'_>, load: Load) -> u32;

    /// Lowers each of `rooms` to what this filter leaves of the node at the same place: what [`room`](Self::room) says, of
    /// many nodes in one call. Worth writing only where something can be looked up once for all of them.
    fn lower(&self, class: &Class, nodes: NodeRefs<'_>, load: Load, rooms: &mut [u32]) {
        lower_each(self, class, nodes, load, rooms);
    }

    /// Why it refuses the node to one more pod, after `more` others of the class that are not counted there yet.
    /// Only asked where that is so.
    fn reasons(&self, class: &Class, node: NodeRef<'_>, more: u32, say: &mut dyn FnMut(Reason));
}

/// Asks a filter about one node after another.
fn lower_each<F: Filter + ?Sized>(filter: &F, class: &Class, nodes: NodeRefs<'_>, load: Load, rooms: &mut [u32]) {
    for (node, room) in nodes.iter().zip(rooms).filter(|(_, room)| **room > 0) {
        *room = (*room).min(filter.room(class, node, load));
    }
}

/// A filter that does not mind how many pods of the class come.
pub const NO_LIMIT: u32 = u32::MAX;

/// What kind of answer a filter or a score gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// About the node as it is, whatever pods are on it: a yes or a no.
    Static,
    /// A number of slots on a node, from what is taken there. Never rises when a pod is added.
    Counted,
    /// Depends on pods elsewhere: counters per term and domain (spread, inter-pod terms). No profile takes one yet.
    Coupled,
    /// Depends on an allocation for the whole group (shared claims, ReadWriteOncePod). No profile takes one yet.
    Global,
}

/// Which pods to reckon with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Those on the node now.
    Now,
    /// None: could the class ever fit here?
    Empty,
}

/// Why a node was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(Why);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Why {
    Text(&'static str),
    Insufficient(ResourceId),
    Held,
}

/// How the reason of a node begins that is kept free.
const HELD_FOR: &str = "node(s) were held for ";

/// Texts are those of kube-scheduler (facts: scheduler 7.3).
impl Reason {
    pub(crate) const NODE_NAME: Reason = Reason::new("node(s) didn't match the requested node name");
    pub(crate) const UNSCHEDULABLE: Reason = Reason::new("node(s) were unschedulable");
    pub(crate) const TAINTS: Reason = Reason::new("node(s) had untolerated taint(s)");
    pub(crate) const NODE_AFFINITY: Reason = Reason::new("node(s) didn't match Pod's node affinity/selector");
    pub(crate) const ADDED_AFFINITY: Reason = Reason::new("node(s) didn't match scheduler-enforced node affinity");
    pub(crate) const HOST_PORTS: Reason = Reason::new("node(s) didn't have free ports for the requested pod ports");
    pub(crate) const TOO_MANY_PODS: Reason = Reason::new("Too many pods");
    /// The node lacks the label that names its domain.
    // Upstream: such nodes are left out of the count, so the numbers do not add up to the cluster.
    pub(crate) const NO_TOPOLOGY_LABEL: Reason = Reason::new("node(s) didn't have the topology label of the group");
    /// The node has room, but its domain has not enough for the group.
    pub(crate) const DOMAIN_TOO_SMALL: Reason =
        Reason::new("node(s) were in a topology domain without room for the group");
    /// Members of the group have their place in another domain, and all have to share one.
    pub(crate) const OTHER_DOMAIN: Reason =
        Reason::new("node(s) were in another topology domain than the pods of the group that have a place");
    /// What the node has is kept free for a unit that has waited for long.
    pub(crate) const HELD: Reason = Reason(Why::Held);

    /// A reason in words that follow a number of nodes: "3 node(s) were on fire".
    pub const fn new(text: &'static str) -> Reason {
        Reason(Why::Text(text))
    }

    /// The plugin that gives a reason in these words, by kube-scheduler's name for it; none for a filter of one's own.
    pub fn plugin_of(text: &str) -> Option<&'static str> {
        if text.starts_with("Insufficient ") {
            return Some("NodeResourcesFit");
        }
        // Upstream: there are no holds, and so no name for them.
        if text.starts_with(HELD_FOR) {
            return Some("Hold");
        }
        let by = [
            (Reason::NODE_NAME, "NodeName"),
            (Reason::UNSCHEDULABLE, "NodeUnschedulable"),
            (Reason::TAINTS, "TaintToleration"),
            (Reason::NODE_AFFINITY, "NodeAffinity"),
            (Reason::ADDED_AFFINITY, "NodeAffinity"),
            (Reason::HOST_PORTS, "NodePorts"),
            (Reason::TOO_MANY_PODS, "NodeResourcesFit"),
            (Reason::NO_TOPOLOGY_LABEL, "TopologyPlacementGenerator"),
            (Reason::DOMAIN_TOO_SMALL, "TopologyPlacementGenerator"),
            (Reason::OTHER_DOMAIN, "TopologyPlacementGenerator"),
        ];
        by.iter().find(|(reason, _)| matches!(reason.0, Why::Text(known) if known == text)).map(|(_, plugin)| *plugin)
    }

    pub(crate) fn insufficient(resource: ResourceId) -> Reason {
        Reason(Why::Insufficient(resource))
    }

    pub(crate) fn text(self, cluster: &Cluster) -> String {
        match self.0 {
            Why::Text(text) => text.to_owned(),
            Why::Insufficient(resource) => format!("Insufficient {}", cluster.resource_name(resource)),
            Why::Held => format!("{HELD_FOR}{}", cluster.held_for()),
        }
    }
}
