//! How many pods of a class fit on a node: one file per filter.
//!
//! A filter gets the class, never the pod. It declares what it reads, its kind, and which cluster events can turn its
//! "no" into a "yes". Everything else follows from that: the class key, the cached index, the wake-ups.

mod host_ports;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_unschedulable;
mod resources;
mod taints;

use std::fmt::Debug;
use std::sync::Arc;

use host_ports::HostPorts;
use node_affinity::NodeAffinity;
pub(crate) use node_affinity::term_matches;
use node_declared_features::NodeDeclaredFeatures;
use node_name::NodeName;
use node_unschedulable::NodeUnschedulable;
pub(crate) use resources::NodeResourcesFit;
use taints::Taints;
pub(crate) use taints::tolerates;

use crate::cluster::ghosts::{GhostPurpose, GhostSetId};
use crate::cluster::{Cluster, NodeRef, NodeRefs, PodCounter, ResourceId};
use crate::demand::classes::Class;
use crate::demand::reads::ReadSet;
use crate::plugins::id::PluginId;
use crate::plugins::profile::PluginArgs;
use crate::queue::cluster_events::ClusterEvents;

/// A built-in filter, as a line of the table.
#[derive(Debug)]
pub struct BuiltInFilter {
    /// Its identity in configuration, metrics and explanations.
    pub id: PluginId,
    /// Whether kube-scheduler's plugin needs its preFilter for its filter.
    pub needs_pre_filter: bool,
    /// Whether its slots follow from requests, host ports and the number of pods alone.
    pub(crate) counts_usage: bool,
    pub(crate) new: fn(&PluginArgs, &mut Cluster) -> Arc<dyn Filter>,
}

/// All built-in filters, in the order they are applied: static ones, then counted ones. Profiles, configuration and
/// reports take names and order from here.
pub static BUILT_IN_FILTERS: &[BuiltInFilter] = &[
    BuiltInFilter {
        id: PluginId::NODE_NAME,
        needs_pre_filter: false,
        counts_usage: false,
        new: |_, _| Arc::new(NodeName),
    },
    BuiltInFilter {
        id: PluginId::NODE_UNSCHEDULABLE,
        needs_pre_filter: false,
        counts_usage: false,
        new: |_, _| Arc::new(NodeUnschedulable),
    },
    BuiltInFilter {
        id: PluginId::TAINT_TOLERATION,
        needs_pre_filter: false,
        counts_usage: false,
        new: |_, _| Arc::new(Taints),
    },
    BuiltInFilter {
        id: PluginId::NODE_AFFINITY,
        needs_pre_filter: true,
        counts_usage: false,
        new: |args, cluster| Arc::new(NodeAffinity::of(&args.node_affinity, cluster)),
    },
    BuiltInFilter {
        id: PluginId::NODE_DECLARED_FEATURES,
        needs_pre_filter: true,
        counts_usage: false,
        new: |_, cluster| Arc::new(NodeDeclaredFeatures::of(cluster)),
    },
    BuiltInFilter {
        id: PluginId::NODE_PORTS,
        needs_pre_filter: true,
        counts_usage: true,
        new: |_, _| Arc::new(HostPorts),
    },
    BuiltInFilter {
        id: PluginId::NODE_RESOURCES_FIT,
        needs_pre_filter: true,
        counts_usage: true,
        new: |args, _| Arc::new(NodeResourcesFit::of(&args.fit)),
    },
];

/// Returns how many more pods of a class fit on a node.
///
/// [`declarations::check`](crate::plugins::declarations::check) checks what a filter declares against what it does.
pub trait Filter: Debug + Send + Sync {
    /// Its name in configuration and explanations.
    fn name(&self) -> &str;

    /// How its result may be cached.
    fn kind(&self) -> PluginKind;

    /// What it reads of a pod. The union over the filters and scores of a profile distinguishes classes. A filter's
    /// result must not depend on anything else of a pod.
    fn reads(&self) -> ReadSet;

    /// Which cluster events can turn its "no" into a "yes" for pods of this class.
    fn events_to_register(&self, class: &Class) -> ClusterEvents;

    /// What it wants summed over the pods of each node: [`NodeRef::counted`] reads the sums. The core keeps them, so
    /// they include pods that are placed tentatively.
    fn counters(&self) -> Vec<PodCounter> {
        Vec::new()
    }

    /// Whether more pods on a node never give it more slots. Without that, as for affinity to other pods, no refusal is
    /// proven, and the filter must register [`ClusterEvents::ASSIGNED_POD_ADD`].
    fn is_monotone(&self) -> bool {
        true
    }

    /// How many more pods of `class` this filter allows on the node under `load`. [`NO_LIMIT`]: any number. A
    /// [`PluginKind::Static`] filter returns 0 or [`NO_LIMIT`]. A monotone one allows at least as many on an empty node
    /// as on the node now.
    fn slots(&self, class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32;

    /// Lowers each of `slots` to what this filter allows on the node at the same position: [`slots`](Self::slots) for
    /// many nodes in one call. Worth implementing only if something can be looked up once for all of them.
    fn limit_slots(&self, class: &Class, nodes: NodeRefs<'_>, load: LoadAssumption, slots: &mut [u32]) {
        limit_slots_each(self, class, nodes, load, slots);
    }

    /// Why it refuses the node to one more pod, after `more` others of the class that are not counted there yet.
    /// Called only if it does.
    fn reasons(&self, class: &Class, node: NodeRef<'_>, more: u32, report: &mut dyn FnMut(Reason));
}

/// Applies a filter to one node after another.
fn limit_slots_each<F: Filter + ?Sized>(
    filter: &F,
    class: &Class,
    nodes: NodeRefs<'_>,
    load: LoadAssumption,
    slots: &mut [u32],
) {
    for (node, slots) in nodes.iter().zip(slots).filter(|(_, slots)| **slots > 0) {
        *slots = (*slots).min(filter.slots(class, node, load));
    }
}

/// The filter does not limit the number of pods of the class.
pub const NO_LIMIT: u32 = u32::MAX;

/// What the result of a filter or score depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginKind {
    /// The node itself, whatever pods are on it: a yes or a no.
    Static,
    /// The pods on the node: a number of slots. Never rises when a pod is added, unless the filter is not monotone.
    Counted,
    /// Pods elsewhere: counters per term and domain (spread, inter-pod terms). No profile accepts one yet.
    Coupled,
    /// An allocation for the whole group (shared claims, ReadWriteOncePod). No profile accepts one yet.
    Global,
}

/// Which pods count on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadAssumption {
    /// Those on the node now.
    Now,
    /// None: could the class ever fit here?
    Empty,
}

/// Why a node is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(ReasonKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ReasonKind {
    Text(&'static str),
    Insufficient(ResourceId),
    Reserved(GhostSetId),
}

/// Texts are those of kube-scheduler (facts: scheduler 7.3).
impl Reason {
    pub(crate) const NODE_NAME: Reason = Reason::new("node(s) didn't match the requested node name");
    pub(crate) const UNSCHEDULABLE: Reason = Reason::new("node(s) were unschedulable");
    pub(crate) const TAINTS: Reason = Reason::new("node(s) had untolerated taint(s)");
    pub(crate) const NODE_AFFINITY: Reason = Reason::new("node(s) didn't match Pod's node affinity/selector");
    pub(crate) const ADDED_AFFINITY: Reason = Reason::new("node(s) didn't match scheduler-enforced node affinity");
    pub(crate) const DECLARED_FEATURES: Reason = Reason::new("node(s) didn't match Pod's required features");
    pub(crate) const HOST_PORTS: Reason = Reason::new("node(s) didn't have free ports for the requested pod ports");
    pub(crate) const TOO_MANY_PODS: Reason = Reason::new("Too many pods");
    /// The node lacks the label of the group's topology key.
    // Upstream: such nodes are left out of the count, so the numbers do not add up to the cluster.
    pub(crate) const NO_TOPOLOGY_LABEL: Reason = Reason::new("node(s) didn't have the topology label of the group");
    /// The node has slots, but its domain has too few for the group.
    pub(crate) const DOMAIN_TOO_SMALL: Reason =
        Reason::new("node(s) were in a topology domain without capacity for the group");
    /// Members of the group are placed in another domain, and all must share one.
    pub(crate) const OTHER_DOMAIN: Reason =
        Reason::new("node(s) were in another topology domain than the placed pods of the group");
    /// A reason as text that follows a number of nodes: "3 node(s) were on fire".
    pub const fn new(text: &'static str) -> Reason {
        Reason(ReasonKind::Text(text))
    }

    /// The node would have room without the ghosts of this set.
    pub(crate) fn reserved(ghosts: GhostSetId) -> Reason {
        Reason(ReasonKind::Reserved(ghosts))
    }

    pub(crate) fn insufficient(resource: ResourceId) -> Reason {
        Reason(ReasonKind::Insufficient(resource))
    }

    pub(crate) fn text(self, cluster: &Cluster) -> String {
        match self.0 {
            ReasonKind::Text(text) => text.to_owned(),
            ReasonKind::Insufficient(resource) => format!("Insufficient {}", cluster.resource_name(resource)),
            ReasonKind::Reserved(ghosts) => match cluster.ghost_purpose(ghosts) {
                Some(GhostPurpose::Reservation { reserved_for }) => format!("node(s) were reserved for {reserved_for}"),
                Some(GhostPurpose::Nomination) | None => "node(s) had room only for nominated pods".to_owned(),
            },
        }
    }

    /// The resource of which the node has too little, if that is the reason.
    pub(crate) fn resource(self) -> Option<ResourceId> {
        match self.0 {
            ReasonKind::Insufficient(resource) => Some(resource),
            ReasonKind::Text(_) | ReasonKind::Reserved(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUILT_IN_FILTERS, PluginKind};
    use crate::cluster::Cluster;
    use crate::plugins::profile::PluginArgs;

    #[test]
    fn the_table_has_the_names_of_the_filters_and_static_ones_first() {
        let mut cluster = Cluster::default();
        let mut is_counted = false;
        for built_in in BUILT_IN_FILTERS {
            let filter = (built_in.new)(&PluginArgs::default(), &mut cluster);
            assert_eq!(filter.name(), built_in.id.name());
            assert!(filter.kind() != PluginKind::Static || !is_counted, "{} comes too late", built_in.id);
            is_counted = filter.kind() != PluginKind::Static;
        }
    }
}
