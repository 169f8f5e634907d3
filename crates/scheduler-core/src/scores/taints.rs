//! Better where fewer soft taints are untolerated.

use super::{Scale, Score};
use crate::classes::Class;
use crate::cluster::{Effect, NodeRef};
use crate::filters::{Kind, tolerates};
use crate::reads::{Parts, Reads};

#[derive(Debug)]
pub(crate) struct SoftTaints;

impl Score for SoftTaints {
    fn name(&self) -> &str {
        "TaintToleration"
    }

    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::TOLERATIONS)
    }

    fn scale(&self) -> Scale {
        Scale::LargestIsWorst
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        let soft = node.fixed().taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        soft.filter(|taint| !class.tolerations.iter().any(|own| tolerates(own, **taint))).count() as i64
    }
}
