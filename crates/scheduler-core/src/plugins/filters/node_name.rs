//! A pod that names its node fits only there.

use super::{Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason, limit_slots_each};
use crate::cluster::{NodeRef, NodeRefs};
use crate::demand::classes::Class;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::queue::cluster_events::ClusterEvents;

#[derive(Debug)]
pub(crate) struct NodeName;

impl Filter for NodeName {
    fn name(&self) -> &str {
        "NodeName"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::NODE_NAME)
    }

    fn events_to_register(&self, _: &Class) -> ClusterEvents {
        ClusterEvents::NODE_ADD
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, _: LoadAssumption) -> u32 {
        match class.node_name {
            Some(name) if name != node.info().name => 0,
            _ => NO_LIMIT,
        }
    }

    fn limit_slots(&self, class: &Class, nodes: NodeRefs<'_>, load: LoadAssumption, slots: &mut [u32]) {
        if class.node_name.is_some() {
            limit_slots_each(self, class, nodes, load, slots);
        }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(Reason::NODE_NAME);
    }
}
