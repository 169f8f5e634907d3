//! Where a class had better go: the scores of the default kube-scheduler profile, with its formulas, weights and
//! integer arithmetic (facts: scheduler 7.4).
//!
//! Scores that depend on one node alone are kept summed. Those normalised over all feasible nodes are kept raw, and
//! weighed against the largest raw value when the total is asked for.

use crate::classes::Class;
use crate::cluster::{Cluster, Effect, NodeIndex, ResourceId};
#[cfg(test)]
use crate::filters::Parts;
use crate::filters::{term_matches, tolerates};

/// What scores read of a pod.
#[cfg(test)]
pub(crate) fn reads() -> Parts {
    Parts::USAGE | Parts::TOLERATIONS | Parts::PREFERRED_NODES
}

const MAX: i64 = 100;
const WEIGHT_TAINTS: i64 = 3;
const WEIGHT_NODE_AFFINITY: i64 = 2;

/// The raw values of normalised scores on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw {
    /// Soft taints that the class does not tolerate.
    pub(crate) taints: i64,
    /// Weights of the preferred terms that match.
    pub(crate) affinity: i64,
}

impl Raw {
    pub(crate) fn of(class: &Class, node: NodeIndex, cluster: &Cluster) -> Raw {
        let node = cluster.node(node);
        let soft = node.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        let untolerated = soft.filter(|taint| !class.tolerations.iter().any(|own| tolerates(own, **taint)));
        let liked = class.preferred.iter().filter(|(_, term)| term_matches(term, node, cluster));
        Raw { taints: untolerated.count() as i64, affinity: liked.map(|(weight, _)| i64::from(*weight)).sum() }
    }

    /// The weighted, normalised sum, given the largest raw values among feasible nodes.
    pub(crate) fn weighed(self, largest: Raw) -> i64 {
        let taints = if largest.taints == 0 { MAX } else { MAX - MAX * self.taints / largest.taints };
        let affinity = if largest.affinity == 0 { 0 } else { MAX * self.affinity / largest.affinity };
        WEIGHT_TAINTS * taints + WEIGHT_NODE_AFFINITY * affinity
    }
}

/// The scores that depend on what is taken from a node: least allocated, and balanced.
pub(crate) fn by_usage(class: &Class, node: NodeIndex, cluster: &Cluster) -> i64 {
    least_allocated(class, node, cluster) + balanced_allocation(class, node, cluster)
}

/// The mean over CPU and memory of the free share, with the pod on the node. Containers that ask for nothing count.
fn least_allocated(class: &Class, node: NodeIndex, cluster: &Cluster) -> i64 {
    let (taken, own) = (cluster.scored(node), class.usage.scored);
    let mut sum = 0;
    let mut resources_count = 0;
    for (resource, used) in [
        (ResourceId::CPU, taken.cpu_milli + own.cpu_milli),
        (ResourceId::MEMORY, taken.memory_bytes + own.memory_bytes),
    ] {
        let allocatable = cluster.allocatable(resource, node);
        if allocatable > 0 {
            resources_count += 1;
            sum += if used > allocatable { 0 } else { share(allocatable - used, allocatable) };
        }
    }
    if resources_count == 0 { 0 } else { sum / resources_count }
}

/// `100 * part / whole`, also where the product would not fit.
fn share(part: i64, whole: i64) -> i64 {
    match part.checked_mul(MAX) {
        Some(product) => product / whole,
        None => (i128::from(part) * i128::from(MAX) / i128::from(whole)) as i64,
    }
}

/// Better where the pod brings the used shares of CPU and memory closer together. Pods that request neither have no say.
fn balanced_allocation(class: &Class, node: NodeIndex, cluster: &Cluster) -> i64 {
    let own = [class.usage.requested(ResourceId::CPU), class.usage.requested(ResourceId::MEMORY)];
    if own == [0, 0] {
        return 0;
    }
    let with = balance(own, node, cluster);
    let without = balance([0, 0], node, cluster);
    MAX / 2 + (MAX / 2 + with - without) / 2
}

fn balance(own: [i64; 2], node: NodeIndex, cluster: &Cluster) -> i64 {
    let fraction = |resource, own: i64| {
        let allocatable = cluster.allocatable(resource, node);
        let used = cluster.requested(resource, node) + own;
        (allocatable > 0).then(|| (used as f64 / allocatable as f64).min(1.0))
    };
    let deviation = match (fraction(ResourceId::CPU, own[0]), fraction(ResourceId::MEMORY, own[1])) {
        (Some(cpu), Some(memory)) => (cpu - memory).abs() / 2.0,
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX as f64) as i64
}
