//! A tainted node takes only pods that tolerate all its hard taints.

use super::{Filter, Kind, Load, NO_LIMIT, Reason};
use crate::classes::{Class, Toleration, TolerationOperator};
use crate::cluster::{Effect, NodeRef, Taint};
use crate::reads::{Parts, Reads};
use crate::wakes::Wakes;

#[derive(Debug)]
pub(crate) struct Taints;

impl Filter for Taints {
    fn name(&self) -> &str {
        "TaintToleration"
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
        let mut hard = node.fixed().taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
        let tolerated = |taint: &Taint| class.tolerations.iter().any(|toleration| tolerates(toleration, *taint));
        if hard.all(tolerated) { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, say: &mut dyn FnMut(Reason)) {
        say(Reason::TAINTS);
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
