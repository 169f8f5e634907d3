//! A pod with host ports cannot share its node with a pod that has one of them. So a node has one slot for equal
//! pods.

use super::{Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason, limit_slots_each};
use crate::cluster::{NodeRef, NodeRefs};
use crate::demand::classes::Class;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::queue::cluster_events::ClusterEvents;

#[derive(Debug)]
pub(crate) struct HostPorts;

impl Filter for HostPorts {
    fn name(&self) -> &str {
        "NodePorts"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Counted
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::USAGE)
    }

    fn events_to_register(&self, class: &Class) -> ClusterEvents {
        if class.usage.ports.is_empty() {
            ClusterEvents::NONE
        } else {
            ClusterEvents::NODE_ADD | ClusterEvents::ASSIGNED_POD_DELETE
        }
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
        let wanted = &class.usage.ports;
        if wanted.is_empty() {
            return NO_LIMIT;
        }
        let used = if load == LoadAssumption::Now { node.cluster.ports(node.index) } else { &[] };
        let conflicts = wanted.iter().any(|port| used.iter().any(|other| port.conflicts_with(*other)));
        u32::from(!conflicts)
    }

    fn limit_slots(&self, class: &Class, nodes: NodeRefs<'_>, load: LoadAssumption, slots: &mut [u32]) {
        if !class.usage.ports.is_empty() {
            limit_slots_each(self, class, nodes, load, slots);
        }
    }

    fn reasons(&self, class: &Class, node: NodeRef<'_>, more: u32, report: &mut dyn FnMut(Reason)) {
        if self.slots(class, node, LoadAssumption::Now) <= more {
            report(Reason::HOST_PORTS);
        }
    }
}
