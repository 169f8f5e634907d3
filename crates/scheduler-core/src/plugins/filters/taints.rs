//! Only pods that tolerate all NoSchedule and NoExecute taints of a node fit on it.

use super::{Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason};
use crate::cluster::{Effect, NodeRef, Taint};
use crate::demand::classes::{Class, Toleration, TolerationOperator};
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::queue::cluster_events::ClusterEvents;

#[derive(Debug)]
pub(crate) struct Taints;

impl Filter for Taints {
    fn name(&self) -> &str {
        "TaintToleration"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::TOLERATIONS)
    }

    fn events_to_register(&self, _: &Class) -> ClusterEvents {
        ClusterEvents::NODE_ADD | ClusterEvents::NODE_TAINTS
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, _: LoadAssumption) -> u32 {
        let mut hard = node.info().taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
        let tolerated = |taint: &Taint| class.tolerations.iter().any(|toleration| tolerates(toleration, *taint));
        if hard.all(tolerated) { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(Reason::TAINTS);
    }
}

/// Whether a toleration matches a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: Taint) -> bool {
    toleration.effect.is_none_or(|effect| effect == taint.effect)
        && toleration.key.is_none_or(|key| key == taint.key)
        && match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => toleration.value == taint.value,
            TolerationOperator::Unknown => false,
        }
}
