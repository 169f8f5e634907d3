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
pub(crate) use resources::NodeResourcesFit;
pub(crate) use taints::{Taints, tolerates};

use crate::classes::Class;
use crate::cluster::{Cluster, NodeRef, NodeRefs, ResourceId};
use crate::cluster_events::ClusterEvents;
use crate::reads::ReadSet;

/// Says how many more pods of a class a node takes.
///
/// What a filter declares is held against what it does by [`declarations::check`](crate::declarations::check).
pub trait Filter: Debug + Send + Sync {
    /// Its name, as configuration and explanations show it.
    fn name(&self) -> &str;

    /// How its answer may be kept.
    fn kind(&self) -> PluginKind;

    /// What it reads of a pod. The union over the filters and scores of a profile is what tells classes apart; nothing
    /// else of a pod may reach an answer.
    fn reads(&self) -> ReadSet;

    /// Which changes can turn its "no" into "yes" for pods of this class.
    fn events_to_register(&self, class: &Class) -> ClusterEvents;

    /// How many more pods of `class` the node takes under `load`, as far as this filter goes. [`NO_LIMIT`]: any number.
    /// A [`Kind::Static`] filter answers 0 or [`NO_LIMIT`]. An empty node takes at least as many as it does now.
    fn slots(&self, class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32;

    /// Lowers each of `rooms` to what this filter leaves of the node at the same place: what [`room`](Self::room) says, of
    /// many nodes in one call. Worth writing only where something can be looked up once for all of them.
    fn limit_slots(&self, class: &Class, nodes: NodeRefs<'_>, load: LoadAssumption, rooms: &mut [u32]) {
        limit_slots_each(self, class, nodes, load, rooms);
    }

    /// Why it refuses the node to one more pod, after `more` others of the class that are not counted there yet.
    /// Only asked where that is so.
    fn reasons(&self, class: &Class, node: NodeRef<'_>, more: u32, report: &mut dyn FnMut(Reason));
}

/// Asks a filter about one node after another.
fn limit_slots_each<F: Filter + ?Sized>(
    filter: &F,
    class: &Class,
    nodes: NodeRefs<'_>,
    load: LoadAssumption,
    rooms: &mut [u32],
) {
    for (node, room) in nodes.iter().zip(rooms).filter(|(_, room)| **room > 0) {
        *room = (*room).min(filter.slots(class, node, load));
    }
}

/// A filter that does not mind how many pods of the class come.
pub const NO_LIMIT: u32 = u32::MAX;

/// What kind of answer a filter or a score gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginKind {
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
pub enum LoadAssumption {
    /// Those on the node now.
    Now,
    /// None: could the class ever fit here?
    Empty,
}

/// Why a node was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(ReasonKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ReasonKind {
    Text(&'static str),
    Insufficient(ResourceId),
    Reserved,
}

/// How the reason of a node begins that is kept free.
const RESERVED_FOR: &str = "node(s) were held for ";

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
    pub(crate) const RESERVED: Reason = Reason(ReasonKind::Reserved);

    /// A reason in words that follow a number of nodes: "3 node(s) were on fire".
    pub const fn new(text: &'static str) -> Reason {
        Reason(ReasonKind::Text(text))
    }

    /// The plugin that gives a reason in these words, by kube-scheduler's name for it; none for a filter of one's own.
    pub fn plugin_of(text: &str) -> Option<&'static str> {
        if text.starts_with("Insufficient ") {
            return Some("NodeResourcesFit");
        }
        // Upstream: there are no holds, and so no name for them.
        if text.starts_with(RESERVED_FOR) {
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
        by.iter()
            .find(|(reason, _)| matches!(reason.0, ReasonKind::Text(known) if known == text))
            .map(|(_, plugin)| *plugin)
    }

    pub(crate) fn insufficient(resource: ResourceId) -> Reason {
        Reason(ReasonKind::Insufficient(resource))
    }

    pub(crate) fn text(self, cluster: &Cluster) -> String {
        match self.0 {
            ReasonKind::Text(text) => text.to_owned(),
            ReasonKind::Insufficient(resource) => format!("Insufficient {}", cluster.resource_name(resource)),
            ReasonKind::Reserved => format!("{RESERVED_FOR}{}", cluster.reserved_for()),
        }
    }
}
