//! A cordoned node takes no pods, except those that tolerate the taint that stands for it.

use super::{Filter, Kind, Load, NO_LIMIT, Parts, Reason, Wakes, tolerates};
use crate::classes::Class;
use crate::cluster::{Cluster, Effect, NodeIndex, Taint};
use crate::names::NameId;

pub(super) struct NodeUnschedulable;

/// The taint a cordoned node counts as having.
const CORDON: Taint = Taint { key: NameId::UNSCHEDULABLE_TAINT, value: NameId::EMPTY, effect: Effect::NoSchedule };

impl Filter for NodeUnschedulable {
    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn reads(&self) -> Parts {
        Parts::TOLERATIONS
    }

    fn wakes(&self, _: &Class) -> Wakes {
        Wakes::NODE_ADDED | Wakes::TAINTS
    }

    fn room(&self, class: &Class, node: NodeIndex, cluster: &Cluster, _: Load) -> u32 {
        let cordoned = cluster.node(node).unschedulable;
        let admitted = !cordoned || class.tolerations.iter().any(|toleration| tolerates(toleration, CORDON));
        if admitted { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeIndex, _: &Cluster, _: u32, say: &mut dyn FnMut(Reason)) {
        say(Reason::Unschedulable);
    }
}
