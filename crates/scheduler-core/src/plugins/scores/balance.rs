//! Prefers nodes where the pod brings the used shares of the resources closer together.

use smallvec::SmallVec;

use super::{MAX_SCORE, Score};
use crate::cluster::{Cluster, NodeIndex, NodeRef, NodeRefs, ResourceColumn, ResourceId};
use crate::demand::classes::Class;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::plugins::filters::PluginKind;
use crate::plugins::profile::BalanceArgs;

#[derive(Debug)]
pub(crate) struct BalancedAllocation {
    resources: Vec<ResourceId>,
}

impl Score for BalancedAllocation {
    fn name(&self) -> &str {
        "NodeResourcesBalancedAllocation"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Counted
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::USAGE)
    }

    /// It does not apply to pods that request none of the resources.
    fn applies(&self, class: &Class) -> bool {
        self.resources.iter().any(|resource| class.usage.requested(*resource) > 0)
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        let mut points = [0];
        self.add_weighted(class, node.cluster.node_refs(&[node.index]), 1, &mut points);
        points[0]
    }

    fn add_weighted(&self, class: &Class, nodes: NodeRefs<'_>, weight: i64, sums: &mut [i64]) {
        let resources = self.balanced_resources(class, nodes.cluster);
        let each = nodes.nodes.iter().zip(sums);
        let several = |node: NodeIndex| {
            balance_score(&resources.iter().filter_map(|one| one.shares(node)).collect::<UsedShares>())
        };
        // Nearly always CPU and memory.
        if let [one, other] = *resources {
            each.for_each(|(node, sum)| {
                let points = match (one.shares(*node), other.shares(*node)) {
                    (Some(one), Some(other)) => balance_score(&[one, other]),
                    _ => several(*node),
                };
                *sum += weight * points;
            });
        } else {
            each.for_each(|(node, sum)| *sum += weight * several(*node));
        }
    }
}

/// A resource that is scored for a class.
#[derive(Clone, Copy)]
struct BalancedResource<'a> {
    /// The allocatable amount on each node.
    allocatable: &'a [i64],
    /// The requested amount on each node.
    requested: &'a [i64],
    /// The amount that a pod of the class uses.
    own: i64,
}

/// The used share of each resource, with the pod and without it.
type UsedShares = SmallVec<[(f64, f64); 4]>;

impl BalancedResource<'_> {
    /// The used share of a node that has some of the resource, with the pod and without it.
    #[inline(always)]
    fn shares(&self, node: NodeIndex) -> Option<(f64, f64)> {
        let (allocatable, used) = (self.allocatable[node.at()], self.requested[node.at()]);
        let whole = allocatable as f64;
        // Not `min`, which also checks for NaN.
        let at_most_all = |share: f64| if share < 1.0 { share } else { 1.0 };
        let share = |amount: i64| at_most_all(amount as f64 / whole);
        (allocatable > 0).then(|| (share(used + self.own), share(used)))
    }
}

impl BalancedAllocation {
    pub(super) fn of(args: &BalanceArgs, cluster: &mut Cluster) -> BalancedAllocation {
        BalancedAllocation { resources: args.resources.iter().map(|name| cluster.resource(name)).collect() }
    }

    fn balanced_resources<'a>(&self, class: &Class, cluster: &'a Cluster) -> SmallVec<[BalancedResource<'a>; 4]> {
        let all = self.resources.iter().map(|resource| (*resource, class.usage.requested(*resource)));
        let scored = all.filter(|(resource, own)| *own > 0 || resource.is_builtin());
        let balanced = |(ResourceColumn { allocatable, requested, .. }, own): (&'a ResourceColumn, i64)| {
            BalancedResource { allocatable, requested, own }
        };
        scored.map(|(resource, own)| balanced((cluster.column(resource), own))).collect()
    }
}

#[inline]
fn balance_score(shares: &[(f64, f64)]) -> i64 {
    let (with, without) = match shares {
        [] | [_] => (0.0, 0.0),
        [one, other] => ((one.0 - other.0).abs() / 2.0, (one.1 - other.1).abs() / 2.0),
        more => (deviation(more.iter().map(|share| share.0)), deviation(more.iter().map(|share| share.1))),
    };
    // The maximum if all shares are equal.
    let balance = |deviation: f64| ((1.0 - deviation) * MAX_SCORE as f64) as i64;
    MAX_SCORE / 2 + (MAX_SCORE / 2 + balance(with) - balance(without)) / 2
}

/// The standard deviation of the shares.
fn deviation(shares: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = shares.len() as f64;
    let mean = shares.clone().sum::<f64>() / count;
    (shares.map(|share| (share - mean) * (share - mean)).sum::<f64>() / count).sqrt()
}
