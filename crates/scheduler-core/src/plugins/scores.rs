//! Which nodes are preferred for a class: one file per score, with kube-scheduler's formulas and integer arithmetic
//! (facts: scheduler 7.4).
//!
//! Scores that depend on one node alone are stored as sums. Those that are normalized over all feasible nodes are
//! stored raw, and normalized by the largest raw value when the total is computed.

mod allocation;
mod balance;
mod images;
mod node_affinity;
mod taints;

use std::fmt::Debug;
use std::sync::Arc;

use allocation::Allocation;
use balance::BalancedAllocation;
use images::ImageLocality;
use node_affinity::PreferredNodes;
use taints::SoftTaints;

use crate::cluster::{Cluster, NodeRef, NodeRefs};
use crate::demand::classes::Class;
use crate::demand::reads::ReadSet;
use crate::plugins::filters::PluginKind;
use crate::plugins::id::PluginId;
use crate::plugins::profile::PluginArgs;

/// A built-in score, as a line of the table.
#[derive(Debug)]
pub struct BuiltInScore {
    /// Its identity in configuration, metrics and explanations.
    pub id: PluginId,
    /// Its weight in the default profile.
    pub default_weight: i64,
    /// Whether kube-scheduler's plugin needs its preScore for its score.
    pub needs_pre_score: bool,
    pub(crate) new: fn(&PluginArgs, &mut Cluster) -> Arc<dyn Score>,
}

/// All built-in scores. Profiles, configuration and reports take names and weights from here.
pub static BUILT_IN_SCORES: &[BuiltInScore] = &[
    BuiltInScore {
        id: PluginId::TAINT_TOLERATION,
        default_weight: 3,
        needs_pre_score: true,
        new: |_, _| Arc::new(SoftTaints),
    },
    BuiltInScore {
        id: PluginId::NODE_AFFINITY,
        default_weight: 2,
        needs_pre_score: true,
        new: |args, cluster| Arc::new(PreferredNodes::of(&args.node_affinity, cluster)),
    },
    BuiltInScore {
        id: PluginId::NODE_RESOURCES_FIT,
        default_weight: 1,
        needs_pre_score: true,
        new: |args, cluster| Arc::new(Allocation::of(&args.fit, cluster)),
    },
    BuiltInScore {
        id: PluginId::BALANCED_ALLOCATION,
        default_weight: 1,
        needs_pre_score: true,
        new: |args, cluster| Arc::new(BalancedAllocation::of(&args.balance, cluster)),
    },
    BuiltInScore {
        id: PluginId::IMAGE_LOCALITY,
        default_weight: 1,
        needs_pre_score: false,
        new: |_, _| Arc::new(ImageLocality),
    },
];

/// The highest score of a node from one plugin, before its weight.
pub const MAX_SCORE: i64 = 100;

/// Rates how well a node suits a class.
pub trait Score: Debug + Send + Sync {
    /// Its name in configuration and explanations.
    fn name(&self) -> &str;

    /// [`PluginKind::Static`]: it changes only with the node itself. [`PluginKind::Counted`]: also with the pods on
    /// the node.
    fn kind(&self) -> PluginKind;

    /// What it reads of a pod.
    fn reads(&self) -> ReadSet;

    /// Whether it applies to pods of this class. If not, it gives every node 0.
    fn applies(&self, class: &Class) -> bool {
        let _ = class;
        true
    }

    /// How its raw values become points.
    fn normalization(&self) -> ScoreNormalization {
        ScoreNormalization::Points
    }

    /// The raw value of a node with at least one slot for the class.
    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64;

    /// Adds the raw value of each node, times `weight`, to the sum at the same position: [`raw`](Self::raw) for many
    /// nodes in one call. Worth implementing only if something can be looked up once for all of them.
    fn add_weighted(&self, class: &Class, nodes: NodeRefs<'_>, weight: i64, sums: &mut [i64]) {
        for (node, sum) in nodes.iter().zip(sums) {
            *sum += weight * self.raw(class, node);
        }
    }

    /// Changes when something other than the node itself changes that [`raw`](Self::raw) reads. Called only after
    /// some node changed in more than its pods.
    fn external_version(&self, class: &Class, nodes: AllNodes<'_>) -> u64 {
        let _ = (class, nodes);
        0
    }
}

/// All nodes together, for what a score reads beyond the one node.
#[derive(Clone, Copy, Debug)]
pub struct AllNodes<'a>(pub(crate) &'a Cluster);

impl AllNodes<'_> {
    /// The number of nodes.
    pub fn count(self) -> usize {
        self.0.present_count()
    }
}

/// How raw values become points from 0 to [`MAX_SCORE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScoreNormalization {
    /// They are points already.
    Points,
    /// In proportion to the largest among feasible nodes, which gets all points.
    Largest,
    /// The other way round: the largest gets none, 0 gets all.
    LargestIsWorst,
}

impl ScoreNormalization {
    /// The points of a node, given the largest raw value among feasible nodes.
    pub(crate) fn points(self, raw: i64, largest: i64) -> i64 {
        match self {
            ScoreNormalization::Points => raw,
            ScoreNormalization::Largest if largest == 0 => 0,
            ScoreNormalization::Largest => MAX_SCORE * raw / largest,
            ScoreNormalization::LargestIsWorst if largest == 0 => MAX_SCORE,
            ScoreNormalization::LargestIsWorst => MAX_SCORE - MAX_SCORE * raw / largest,
        }
    }
}

/// `100 * part / whole`, also if the product overflows. Neither is negative.
#[inline]
fn share(part: i64, whole: i64) -> i64 {
    let (part, whole) = (part.cast_unsigned(), whole.cast_unsigned());
    match part.checked_mul(MAX_SCORE.cast_unsigned()) {
        Some(product) => (product / whole).cast_signed(),
        None => (u128::from(part) * u128::from(MAX_SCORE.cast_unsigned()) / u128::from(whole)) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::BUILT_IN_SCORES;
    use crate::cluster::Cluster;
    use crate::plugins::profile::PluginArgs;

    #[test]
    fn the_table_has_the_names_of_the_scores() {
        let mut cluster = Cluster::default();
        for built_in in BUILT_IN_SCORES {
            assert_eq!((built_in.new)(&PluginArgs::default(), &mut cluster).name(), built_in.id.name());
        }
    }
}
