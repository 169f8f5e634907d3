//! A pod with host ports shares its node with no other pod that has one of them; equal pods, then, come one a node.

use super::{Filter, Kind, Load, NO_LIMIT, Reason, lower_each};
use crate::classes::Class;
use crate::cluster::{NodeRef, NodeRefs};
use crate::reads::{Parts, Reads};
use crate::wakes::Wakes;

#[derive(Debug)]
pub(crate) struct HostPorts;

impl Filter for HostPorts {
    fn name(&self) -> &str {
        "NodePorts"
    }

    fn kind(&self) -> Kind {
        Kind::Counted
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::USAGE)
    }

    fn wakes(&self, class: &Class) -> Wakes {
        if class.usage.ports.is_empty() { Wakes::NONE } else { Wakes::NODE_ADDED | Wakes::POD_LEFT }
    }

    fn room(&self, class: &Class, node: NodeRef<'_>, load: Load) -> u32 {
        let wanted = &class.usage.ports;
        if wanted.is_empty() {
            return NO_LIMIT;
        }
        let used = if load == Load::Now { node.cluster.ports(node.index) } else { &[] };
        let taken = wanted.iter().any(|port| used.iter().any(|other| port.conflicts_with(*other)));
        u32::from(!taken)
    }

    fn lower(&self, class: &Class, nodes: NodeRefs<'_>, load: Load, rooms: &mut [u32]) {
        if !class.usage.ports.is_empty() {
            lower_each(self, class, nodes, load, rooms);
        }
    }

    fn reasons(&self, class: &Class, node: NodeRef<'_>, more: u32, say: &mut dyn FnMut(Reason)) {
        if self.room(class, node, Load::Now) <= more {
            say(Reason::HOST_PORTS);
        }
    }
}
