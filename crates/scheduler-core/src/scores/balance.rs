//! Better where the pod brings the used shares of the node's resources closer together.

use smallvec::SmallVec;

use super::{MAX_SCORE, Score};
use crate::classes::Class;
use crate::cluster::{Cluster, Column, NodeRef, NodeRefs, ResourceId};
use crate::filters::Kind;
use crate::reads::{Parts, Reads};

#[derive(Debug)]
pub(crate) struct Balance {
    pub(crate) resources: Vec<ResourceId>,
}

impl Score for Balance {
    fn name(&self) -> &str {
        "NodeResourcesBalancedAllocation"
    }

    fn kind(&self) -> Kind {
        Kind::Counted
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::USAGE)
    }

    /// Pods that request none of the resources have no say.
    fn applies(&self, class: &Class) -> bool {
        self.resources.iter().any(|resource| class.usage.requested(*resource) > 0)
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        points(&self.matters(class, node.cluster), node)
    }

    fn add(&self, class: &Class, nodes: NodeRefs<'_>, weight: i64, sums: &mut [i64]) {
        let matters = self.matters(class, nodes.cluster);
        nodes.iter().zip(sums).for_each(|(node, sum)| *sum += weight * points(&matters, node));
    }
}

impl Balance {
    /// Resources that have a say for a class, each with what a pod of it takes.
    fn matters<'a>(&self, class: &Class, cluster: &'a Cluster) -> SmallVec<[(&'a Column, i64); 4]> {
        let own = self.resources.iter().map(|resource| (*resource, class.usage.requested(*resource)));
        let matters = own.filter(|(resource, own)| *own > 0 || resource.is_everybodys());
        matters.map(|(resource, own)| (cluster.column(resource), own)).collect()
    }
}

#[inline]
fn points(matters: &[(&Column, i64)], node: NodeRef<'_>) -> i64 {
    // With the pod, and without it.
    let shares_of = |(column, own): &(&Column, i64)| {
        let (allocatable, taken) = (column.allocatable[node.index.at()], column.requested[node.index.at()]);
        let share = |used: i64| (used as f64 / allocatable as f64).min(1.0);
        (allocatable > 0).then(|| (share(taken + own), share(taken)))
    };
    // Nearly always these are CPU and memory.
    if let [one, other] = matters
        && let (Some(one), Some(other)) = (shares_of(one), shares_of(other))
    {
        return rated(&[one, other]);
    }
    rated(&matters.iter().filter_map(shares_of).collect::<SmallVec<[_; 4]>>())
}

#[inline]
fn rated(shares: &[(f64, f64)]) -> i64 {
    let (with, without) = match shares {
        [] | [_] => (0.0, 0.0),
        [one, other] => ((one.0 - other.0).abs() / 2.0, (one.1 - other.1).abs() / 2.0),
        more => (deviation(more.iter().map(|share| share.0)), deviation(more.iter().map(|share| share.1))),
    };
    // All points where all shares are equal.
    let balance = |deviation: f64| ((1.0 - deviation) * MAX_SCORE as f64) as i64;
    MAX_SCORE / 2 + (MAX_SCORE / 2 + balance(with) - balance(without)) / 2
}

/// How far the shares are from their mean.
fn deviation(shares: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = shares.len() as f64;
    let mean = shares.clone().sum::<f64>() / count;
    (shares.map(|share| (share - mean) * (share - mean)).sum::<f64>() / count).sqrt()
}
