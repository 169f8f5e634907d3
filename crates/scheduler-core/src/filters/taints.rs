//! A tainted node takes only pods that tolerate all its hard taints.

use super::{Filter, Kind, Load, NO_LIMIT, Parts, Reason, Wakes};
use crate::classes::{Class, Toleration, TolerationOperator};
use crate::cluster::{Cluster, Effect, NodeIndex, Taint};

pub(super) struct Taints;

impl Filter for Taints {
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
        let mut hard = cluster.node(node).taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
        let tolerated = |taint: &Taint| class.tolerations.iter().any(|toleration| tolerates(toleration, *taint));
        if hard.all(tolerated) { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeIndex, _: &Cluster, _: u32, say: &mut dyn FnMut(Reason)) {
        say(Reason::Taints);
    }
}

/// Whether a toleration covers a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: Taint) -> bool {
    toleration.effect.is_none_or(|effect| effect == taint.effect)
        && toleration.key.is_none_or(|key| key == taint.key)
        && match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => toleration.value == taint.value,
            TolerationOperator::Unknown => false,
        }
}
