//! A pod that names its node goes there or nowhere.

use super::{Filter, Kind, Load, NO_LIMIT, Parts, Reason, Wakes};
use crate::classes::Class;
use crate::cluster::{Cluster, NodeIndex};

pub(super) struct NodeName;

impl Filter for NodeName {
    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn reads(&self) -> Parts {
        Parts::NODE_NAME
    }

    fn wakes(&self, _: &Class) -> Wakes {
        Wakes::NODE_ADDED
    }

    fn room(&self, class: &Class, node: NodeIndex, cluster: &Cluster, _: Load) -> u32 {
        match class.node_name {
            Some(name) if name != cluster.node(node).name => 0,
            _ => NO_LIMIT,
        }
    }

    fn reasons(&self, _: &Class, _: NodeIndex, _: &Cluster, _: u32, say: &mut dyn FnMut(Reason)) {
        say(Reason::NodeName);
    }
}
