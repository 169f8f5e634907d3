//! A cordoned node takes no pods, except those that tolerate the taint that stands for it.

use super::{Filter, Kind, Load, NO_LIMIT, Reason, tolerates};
use crate::classes::Class;
use crate::cluster::{Effect, NodeRef, Taint};
use crate::names::NameId;
use crate::reads::{Parts, Reads};
use crate::wakes::Wakes;

#[derive(Debug)]
pub(crate) struct NodeUnschedulable;

/// The taint a cordoned node counts as having.
const CORDON: Taint = Taint { key: NameId::UNSCHEDULABLE_TAINT, value: NameId::EMPTY, effect: Effect::NoSchedule };

impl Filter for NodeUnschedulable {
    fn name(&self) -> &str {
        "NodeUnschedulable"
    }

    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::TOLERATIONS)
    }

    fn wakes(&self, _: &Class) -> Wakes {
        Wakes::NODE_ADDED | Wakes::TAINTS
    }

    fn room(&self, class: &Class, node: NodeRef<'_>, _: Load) -> u32 {
        let cordoned = node.fixed().unschedulable;
        let admitted = !cordoned || class.tolerations.iter().any(|toleration| tolerates(toleration, CORDON));
        if admitted { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, say: &mut dyn FnMut(Reason)) {
        say(Reason::UNSCHEDULABLE);
    }
}
