//! A pod that names its node goes there or nowhere.

use super::{Filter, Kind, Load, NO_LIMIT, Reason, lower_each};
use crate::classes::Class;
use crate::cluster::{NodeRef, NodeRefs};
use crate::reads::{Parts, Reads};
use crate::wakes::Wakes;

#[derive(Debug)]
pub(crate) struct NodeName;

impl Filter for NodeName {
    fn name(&self) -> &str {
        "NodeName"
    }

    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::NODE_NAME)
    }

    fn wakes(&self, _: &Class) -> Wakes {
        Wakes::NODE_ADDED
    }

    fn room(&self, class: &Class, node: NodeRef<'_>, _: Load) -> u32 {
        match class.node_name {
            Some(name) if name != node.fixed().name => 0,
            _ => NO_LIMIT,
        }
    }

    fn lower(&self, class: &Class, nodes: NodeRefs<'_>, load: Load, rooms: &mut [u32]) {
        if class.node_name.is_some() {
            lower_each(self, class, nodes, load, rooms);
        }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, say: &mut dyn FnMut(Reason)) {
        say(Reason::NODE_NAME);
    }
}
