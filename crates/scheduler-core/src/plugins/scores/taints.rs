//! Prefers nodes with fewer untolerated soft taints.

use super::{Score, ScoreNormalization};
use crate::cluster::{Effect, NodeRef};
use crate::demand::classes::Class;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::plugins::filters::{PluginKind, tolerates};

#[derive(Debug)]
pub(crate) struct SoftTaints;

impl Score for SoftTaints {
    fn name(&self) -> &str {
        "TaintToleration"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::TOLERATIONS)
    }

    fn normalization(&self) -> ScoreNormalization {
        ScoreNormalization::LargestIsWorst
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        let soft = node.info().taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        soft.filter(|taint| !class.tolerations.iter().any(|own| tolerates(own, **taint))).count() as i64
    }
}
