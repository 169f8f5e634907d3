//! `nodeSelector`, the required terms of node affinity, and terms that the profile adds for all its pods.

use super::{Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason, limit_slots_each};
use crate::cluster::names::NameId;
use crate::cluster::{Cluster, NodeInfo, NodeRef, NodeRefs};
use crate::demand::classes::{Class, Operator, Requirement, Term};
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::plugins::profile::NodeAffinityArgs;
use crate::queue::cluster_events::ClusterEvents;

#[derive(Debug, Default)]
pub(crate) struct NodeAffinity {
    /// One of these must match as well; `None`: nothing is added.
    added: Option<Vec<Term>>,
}

impl NodeAffinity {
    pub(super) fn of(args: &NodeAffinityArgs, cluster: &mut Cluster) -> NodeAffinity {
        let added = args.added_affinity.as_ref();
        let required = added.and_then(|added| added.required_during_scheduling_ignored_during_execution.as_ref());
        NodeAffinity { added: required.map(|any| Term::all_of(&any.node_selector_terms, &mut cluster.names)) }
    }

    fn reads_labels(&self, class: &Class) -> bool {
        !class.required.selector.is_empty() || class.required.terms.is_some() || self.added.is_some()
    }

    fn matches_added(&self, node: NodeRef<'_>) -> bool {
        self.added.as_ref().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node.info(), node.cluster)))
    }
}

impl Filter for NodeAffinity {
    fn name(&self) -> &str {
        "NodeAffinity"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::REQUIRED_NODES)
    }

    fn events_to_register(&self, class: &Class) -> ClusterEvents {
        if self.reads_labels(class) {
            ClusterEvents::NODE_ADD | ClusterEvents::NODE_LABELS
        } else {
            ClusterEvents::NONE
        }
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, _: LoadAssumption) -> u32 {
        let info = node.info();
        let is_selected = class.required.selector.iter().all(|(key, value)| info.label(*key) == Some(*value));
        let terms = class.required.terms.as_ref();
        let matches =
            is_selected && terms.is_none_or(|terms| terms.iter().any(|term| term_matches(term, info, node.cluster)));
        if matches && self.matches_added(node) { NO_LIMIT } else { 0 }
    }

    fn limit_slots(&self, class: &Class, nodes: NodeRefs<'_>, load: LoadAssumption, slots: &mut [u32]) {
        if self.reads_labels(class) {
            limit_slots_each(self, class, nodes, load, slots);
        }
    }

    fn reasons(&self, _: &Class, node: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(if self.matches_added(node) { Reason::NODE_AFFINITY } else { Reason::ADDED_AFFINITY });
    }
}

/// Whether a node matches all requirements of a term. A term without requirements matches nothing.
pub(crate) fn term_matches(term: &Term, node: &NodeInfo, cluster: &Cluster) -> bool {
    let labels =
        term.labels.iter().all(|requirement| requirement_matches(requirement, node.label(requirement.key), cluster));
    let names = term.names.iter().all(|requirement| requirement_matches(requirement, Some(node.name), cluster));
    !(term.labels.is_empty() && term.names.is_empty()) && labels && names
}

fn requirement_matches(requirement: &Requirement, value: Option<NameId>, cluster: &Cluster) -> bool {
    match requirement.operator {
        Operator::In => value.is_some_and(|value| requirement.values.contains(&value)),
        Operator::NotIn => value.is_none_or(|value| !requirement.values.contains(&value)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt(bound) => number(value, cluster).is_some_and(|number| number > bound),
        Operator::Lt(bound) => number(value, cluster).is_some_and(|number| number < bound),
        Operator::Unknown => false,
    }
}

fn number(value: Option<NameId>, cluster: &Cluster) -> Option<i64> {
    cluster.names.text(value?).parse().ok()
}
