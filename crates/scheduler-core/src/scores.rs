//! Where a class had better go: one file a score, with kube-scheduler's formulas and integer arithmetic
//! (facts: scheduler 7.4).
//!
//! Scores that depend on one node alone are kept summed. Those scaled by all feasible nodes are kept raw, and
//! weighed against the largest raw value when the total is asked for.

mod allocation;
mod balance;
mod images;
mod node_affinity;
mod taints;

use std::fmt::Debug;

pub(crate) use allocation::{Allocation, AllocationStrategy};
pub(crate) use balance::BalancedAllocation;
pub(crate) use images::ImageLocality;
pub(crate) use node_affinity::PreferredNodes;
pub(crate) use taints::SoftTaints;

use crate::classes::Class;
use crate::cluster::{Cluster, NodeRef, NodeRefs};
use crate::filters::PluginKind;
use crate::reads::ReadSet;

/// The best a node can get from one score, before its weight.
pub const MAX_SCORE: i64 = 100;

/// Says how well a node suits a class.
pub trait Score: Debug + Send + Sync {
    /// Its name, as configuration and explanations show it.
    fn name(&self) -> &str;

    /// [`Kind::Static`]: it changes only with the node itself. [`Kind::Counted`]: with the pods on the node, too.
    fn kind(&self) -> PluginKind;

    /// What it reads of a pod.
    fn reads(&self) -> ReadSet;

    /// Whether it has anything to say about pods of this class. If not, it gives every node 0.
    fn applies(&self, class: &Class) -> bool {
        let _ = class;
        true
    }

    /// How its raw values become points.
    fn normalization(&self) -> ScoreNormalization {
        ScoreNormalization::Points
    }

    /// The raw value of a node that takes at least one more pod of the class.
    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64;

    /// Adds the raw value of each node, times `weight`, to the sum at the same place: what [`raw`](Self::raw) says, of many
    /// nodes in one call. Worth writing only where something can be looked up once for all of them.
    fn add_weighted(&self, class: &Class, nodes: NodeRefs<'_>, weight: i64, sums: &mut [i64]) {
        for (node, sum) in nodes.iter().zip(sums) {
            *sum += weight * self.raw(class, node);
        }
    }

    /// Differs from an earlier value when something other than the node itself changed that [`raw`](Self::raw) reads.
    /// Asked only after some node changed in more than its pods.
    fn external_version(&self, class: &Class, nodes: AllNodes<'_>) -> u64 {
        let _ = (class, nodes);
        0
    }
}

/// All nodes together, for what a score reads beyond the one node.
#[derive(Clone, Copy, Debug)]
pub struct AllNodes<'a>(pub(crate) &'a Cluster);

impl AllNodes<'_> {
    /// How many nodes there are.
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

/// `100 * part / whole`, also where the product would not fit. Neither is below zero.
#[inline]
fn share(part: i64, whole: i64) -> i64 {
    let (part, whole) = (part.cast_unsigned(), whole.cast_unsigned());
    match part.checked_mul(MAX_SCORE.cast_unsigned()) {
        Some(product) => (product / whole).cast_signed(),
        None => (u128::from(part) * u128::from(MAX_SCORE.cast_unsigned()) / u128::from(whole)) as i64,
    }
}
