//! The index of a class that names its nodes, as the pods of a DaemonSet do: each pod is a class of its own, and only
//! the named nodes are evaluated.

use super::batch::{BATCH, batches};
use super::batch_slots::BatchSlots;
use super::{RefusingFilter, tree_key};
use crate::cluster::names::NameId;
use crate::cluster::{Cluster, NodeIndex};
use crate::demand::classes::{Class, Operator, RequiredNodes, Requirement};
use crate::plugins::Plugins;
use crate::plugins::filters::LoadAssumption;

/// A class that names more nodes has an index over all nodes.
const MAX_NODES: usize = BATCH;

/// The nodes that a class names, evaluated. All other nodes are refused by node affinity.
#[derive(Debug)]
pub(super) struct NamedNodes {
    named_by: NodeNames,
    /// The position of the filter NodeAffinity in the profile.
    affinity: RefusingFilter,
    /// Sorted by node; nodes that were never observed are left out.
    nodes: Vec<NamedNode>,
}

/// How a class names its nodes: it fits on no other.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeNames {
    /// By `metadata.name`.
    Names(Vec<NameId>),
    /// By the label `kubernetes.io/hostname`.
    Hostnames(Vec<NameId>),
}

impl NodeNames {
    fn of(required: &RequiredNodes) -> Option<NodeNames> {
        let selected = required.selector.iter().find(|(key, _)| *key == NameId::HOSTNAME);
        if let Some((_, hostname)) = selected {
            return Some(NodeNames::Hostnames(vec![*hostname]));
        }
        // One term must match, so each must name nodes.
        let terms = required.terms.as_ref()?;
        let is_list = |requirement: &&Requirement| requirement.operator == Operator::In;
        let names = terms.iter().map(|term| Some(&term.names.iter().find(is_list)?.values));
        let is_hostname = |requirement: &&Requirement| requirement.key == NameId::HOSTNAME && is_list(requirement);
        let hostnames = terms.iter().map(|term| Some(&term.labels.iter().find(is_hostname)?.values));
        let all = |values: Vec<&Vec<NameId>>| values.into_iter().flatten().copied().collect();
        let names = names.collect::<Option<Vec<_>>>().map(|names| NodeNames::Names(all(names)));
        names.or_else(|| Some(NodeNames::Hostnames(all(hostnames.collect::<Option<Vec<_>>>()?))))
    }

    /// The nodes that have one of the names, sorted.
    fn nodes(&self, cluster: &Cluster) -> Vec<NodeIndex> {
        let mut nodes: Vec<NodeIndex> = match self {
            NodeNames::Names(names) => names.iter().filter_map(|name| cluster.find_named(*name)).collect(),
            NodeNames::Hostnames(names) => {
                names.iter().flat_map(|name| cluster.nodes_with_hostname(*name)).copied().collect()
            }
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// One node as an index has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedNode {
    pub(super) node: NodeIndex,
    pub(super) slots: u32,
    pub(super) refuser: RefusingFilter,
    /// Its key in the order of nodes; 0 without slots.
    pub(super) tree_key: u32,
}

impl NamedNodes {
    /// The nodes that a class names; `None` if it can use nodes that it does not name, or names many.
    pub(super) fn of(class: &Class, plugins: &Plugins, cluster: &Cluster) -> Option<NamedNodes> {
        let affinity = plugins.static_filters().find(|(_, filter)| filter.name() == "NodeAffinity")?.0;
        let named_by = NodeNames::of(&class.required)?;
        let mut named = NamedNodes { named_by, affinity: RefusingFilter(affinity as u8), nodes: Vec::new() };
        if named.named_by.nodes(cluster).len() > MAX_NODES {
            return None;
        }
        named.evaluate(class, plugins, cluster);
        Some(named)
    }

    /// Finds the named nodes and evaluates them.
    pub(super) fn evaluate(&mut self, class: &Class, plugins: &Plugins, cluster: &Cluster) {
        self.nodes.clear();
        for batch in batches(self.named_by.nodes(cluster).into_iter()) {
            let mut slots = BatchSlots::unlimited();
            slots.refuse_absent(cluster, &batch);
            slots.apply_filters(plugins.static_filters(), class, cluster.node_refs(&batch), LoadAssumption::Now);
            slots.apply_filters(plugins.counted_filters(), class, cluster.node_refs(&batch), LoadAssumption::Now);
            let each = batch.iter().zip(slots.slots).zip(slots.refusers);
            self.nodes.extend(each.map(|((node, slots), refuser)| NamedNode {
                node: *node,
                slots,
                refuser,
                tree_key: 0,
            }));
        }
        let points = self.points(class, plugins, cluster);
        for (at, node) in self.nodes.iter_mut().filter(|node| node.slots > 0).enumerate() {
            node.tree_key = tree_key(points.iter().map(|(_, points)| points[at]).sum());
        }
    }

    /// The weighted points of each score that applies, by its position in the profile: one for each node with slots.
    pub(super) fn points(&self, class: &Class, plugins: &Plugins, cluster: &Cluster) -> Vec<(usize, Vec<i64>)> {
        let nodes: Vec<NodeIndex> = self.with_slots().map(|node| node.node).collect();
        let applied = plugins.scores.iter().enumerate().filter(|(_, (score, _))| score.applies(class));
        let points = applied.map(|(position, (score, weight))| {
            let mut points = vec![0; nodes.len()];
            score.add_weighted(class, cluster.node_refs(&nodes), 1, &mut points);
            let largest = points.iter().copied().fold(0, i64::max);
            points.iter_mut().for_each(|raw| *raw = weight * score.normalization().points(*raw, largest));
            (position, points)
        });
        points.collect()
    }

    /// How many pods of the class would fit on each named node without any pods on it.
    pub(super) fn slots_when_empty(
        &self,
        class: &Class,
        plugins: &Plugins,
        cluster: &Cluster,
    ) -> Vec<(NodeIndex, u32)> {
        let open = self.nodes.iter().filter(|named| !named.refuser.is_static(plugins)).map(|named| named.node);
        let mut empty = Vec::with_capacity(self.nodes.len());
        for batch in batches(open) {
            let mut slots = BatchSlots::unlimited();
            slots.apply_filters(plugins.counted_filters(), class, cluster.node_refs(&batch), LoadAssumption::Empty);
            empty.extend(batch.iter().copied().zip(slots.slots).filter(|(_, slots)| *slots > 0));
        }
        empty
    }

    /// A named node.
    pub(super) fn get(&self, node: NodeIndex) -> Option<&NamedNode> {
        self.nodes.binary_search_by_key(&node, |named| named.node).ok().map(|at| &self.nodes[at])
    }

    /// All named nodes.
    pub(super) fn nodes(&self) -> &[NamedNode] {
        &self.nodes
    }

    /// Those with slots.
    pub(super) fn with_slots(&self) -> impl Iterator<Item = &NamedNode> {
        self.nodes.iter().filter(|node| node.slots > 0)
    }

    /// What refuses a node. Node affinity refuses every node that is not named.
    // Upstream: it is "node(s) didn't satisfy plugin(s) [NodeAffinity]" for nodes that `metadata.name` excludes.
    pub(super) fn refuser(&self, node: NodeIndex) -> RefusingFilter {
        self.get(node).map_or(self.affinity, |named| named.refuser)
    }

    /// What refuses all other nodes.
    pub(super) fn affinity(&self) -> RefusingFilter {
        self.affinity
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<NamedNodes>() + self.nodes.capacity() * size_of::<NamedNode>()
    }
}
