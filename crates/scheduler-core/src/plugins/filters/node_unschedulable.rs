//! No pods fit on a cordoned node, except those that tolerate its taint.

use super::{Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason, tolerates};
use crate::cluster::names::NameId;
use crate::cluster::{Effect, NodeRef, Taint};
use crate::demand::classes::Class;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::queue::cluster_events::ClusterEvents;

#[derive(Debug)]
pub(crate) struct NodeUnschedulable;

/// The taint that a cordoned node is treated as having.
const CORDON: Taint = Taint { key: NameId::UNSCHEDULABLE_TAINT, value: NameId::EMPTY, effect: Effect::NoSchedule };

impl Filter for NodeUnschedulable {
    fn name(&self) -> &str {
        "NodeUnschedulable"
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
        let cordoned = node.info().unschedulable;
        let admitted = !cordoned || class.tolerations.iter().any(|toleration| tolerates(toleration, CORDON));
        if admitted { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(Reason::UNSCHEDULABLE);
    }
}
