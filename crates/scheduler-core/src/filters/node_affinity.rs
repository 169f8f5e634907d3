//! `nodeSelector` and the required terms of node affinity.

use super::{Filter, Kind, Load, NO_LIMIT, Parts, Reason, Wakes};
use crate::classes::{Class, Operator, Requirement, Term};
use crate::cluster::{Cluster, Node, NodeIndex};
use crate::names::NameId;

pub(super) struct NodeAffinity;

impl Filter for NodeAffinity {
    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn reads(&self) -> Parts {
        Parts::REQUIRED_NODES
    }

    fn wakes(&self, class: &Class) -> Wakes {
        let looks_at_labels = !class.required.selector.is_empty() || class.required.terms.is_some();
        if looks_at_labels { Wakes::NODE_ADDED | Wakes::LABELS } else { Wakes::NONE }
    }

    fn room(&self, class: &Class, node: NodeIndex, cluster: &Cluster, _: Load) -> u32 {
        let node = cluster.node(node);
        let selected = class.required.selector.iter().all(|(key, value)| node.label(*key) == Some(*value));
        let wanted = class.required.terms.as_ref();
        let matches = selected && wanted.is_none_or(|terms| terms.iter().any(|term| term_matches(term, node, cluster)));
        if matches { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeIndex, _: &Cluster, _: u32, say: &mut dyn FnMut(Reason)) {
        say(Reason::NodeAffinity);
    }
}

/// Whether a node satisfies all of a term. A term without requirements matches nothing.
pub(crate) fn term_matches(term: &Term, node: &Node, cluster: &Cluster) -> bool {
    let labels = term.labels.iter().all(|want| holds(want, node.label(want.key), cluster));
    let names = term.names.iter().all(|want| holds(want, Some(node.name), cluster));
    !(term.labels.is_empty() && term.names.is_empty()) && labels && names
}

fn holds(want: &Requirement, value: Option<NameId>, cluster: &Cluster) -> bool {
    match want.operator {
        Operator::In => value.is_some_and(|value| want.values.contains(&value)),
        Operator::NotIn => value.is_none_or(|value| !want.values.contains(&value)),
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
