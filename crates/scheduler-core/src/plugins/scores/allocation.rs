//! Prefers nodes that are used less, or more, or along a curve, as the profile configures. Containers without CPU or memory
//! requests count with default amounts.

use smallvec::SmallVec;

use super::{MAX_SCORE, Score, share};
use crate::cluster::{Cluster, NodeIndex, NodeRef, NodeRefs, ResourceId};
use crate::demand::classes::Class;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::plugins::filters::PluginKind;
use crate::plugins::profile::{FitArgs, FitStrategy};

#[derive(Debug)]
pub(crate) struct Allocation {
    strategy: AllocationStrategy,
    /// The scored resources, with weights.
    resources: Vec<(ResourceId, i64)>,
}

/// Which nodes are preferred.
#[derive(Clone, Debug)]
enum AllocationStrategy {
    /// Those with the most left.
    Least,
    /// Those with the least left.
    Most,
    /// By points of a curve: used percent, and points from 0 to [`MAX_SCORE`]; sorted by percent.
    Line(Vec<(i64, i64)>),
}

impl Score for Allocation {
    fn name(&self) -> &str {
        "NodeResourcesFit"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Counted
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::USAGE)
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        let mut points = [0];
        self.add_weighted(class, node.cluster.node_refs(&[node.index]), 1, &mut points);
        points[0]
    }

    fn add_weighted(&self, class: &Class, nodes: NodeRefs<'_>, weight: i64, sums: &mut [i64]) {
        let resources = self.weighted_resources(class, nodes.cluster);
        // One loop per strategy, so that the loop has no branch on it.
        match &self.strategy {
            AllocationStrategy::Least => add_means(&resources, nodes, weight, sums, left),
            AllocationStrategy::Most => add_means(&resources, nodes, weight, sums, used),
            AllocationStrategy::Line(line) => {
                let each = nodes.nodes.iter().zip(sums);
                each.for_each(|(node, sum)| *sum += weight * mean_on_line(&resources, *node, line));
            }
        }
    }
}

/// A resource that is scored for a class.
#[derive(Clone, Copy)]
struct WeightedResource<'a> {
    /// The allocatable amount on each node.
    allocatable: &'a [i64],
    /// The used amount on each node.
    used: &'a [i64],
    weight: i64,
    /// The amount that a pod of the class uses.
    own: i64,
}

impl WeightedResource<'_> {
    /// The used amount with the pod, and the allocatable amount; none if the node has none of the resource.
    #[inline(always)]
    fn with_pod(&self, node: NodeIndex) -> Option<(i64, i64)> {
        let allocatable = self.allocatable[node.at()];
        (allocatable > 0).then(|| (self.used[node.at()] + self.own, allocatable))
    }
}

impl Allocation {
    pub(super) fn of(args: &FitArgs, cluster: &mut Cluster) -> Allocation {
        // Scores in the configuration are from 0 to 10.
        let points = |(percent, score): &(i64, i64)| (*percent, score * MAX_SCORE / 10);
        Allocation {
            strategy: match &args.strategy {
                FitStrategy::LeastAllocated => AllocationStrategy::Least,
                FitStrategy::MostAllocated => AllocationStrategy::Most,
                FitStrategy::RequestedToCapacityRatio(line) => {
                    AllocationStrategy::Line(line.iter().map(points).collect())
                }
            },
            resources: args.resources.iter().map(|(name, weight)| (cluster.resource(name), *weight)).collect(),
        }
    }

    /// Extended resources that the pod does not request are not scored.
    fn weighted_resources<'a>(&self, class: &Class, cluster: &'a Cluster) -> SmallVec<[WeightedResource<'a>; 2]> {
        let own = |resource: ResourceId| match resource {
            ResourceId::CPU => class.usage.scored_before.cpu_milli,
            ResourceId::MEMORY => class.usage.scored_before.memory_bytes,
            _ => class.usage.requested(resource),
        };
        // Pushed one by one: this is called for every batch of nodes, and `collect` costs as much as the scores.
        let mut scored = SmallVec::new();
        for &(resource, weight) in &self.resources {
            let own = own(resource);
            if own > 0 || resource.is_builtin() {
                let (allocatable, used) = (&*cluster.column(resource).allocatable, cluster.scored(resource));
                scored.push(WeightedResource { allocatable, used, weight, own });
            }
        }
        scored
    }
}

fn add_means(
    resources: &[WeightedResource<'_>],
    nodes: NodeRefs<'_>,
    weight: i64,
    sums: &mut [i64],
    points: impl Fn(i64, i64) -> i64 + Copy,
) {
    let each = nodes.nodes.iter().zip(sums);
    // Nearly always CPU and memory.
    if let [one, other] = *resources {
        each.for_each(|(node, sum)| *sum += weight * mean(&[one, other], *node, points));
    } else {
        each.for_each(|(node, sum)| *sum += weight * mean(resources, *node, points));
    }
}

/// The weighted mean of the points for used and allocatable amounts.
#[inline(always)]
fn mean(resources: &[WeightedResource<'_>], node: NodeIndex, points: impl Fn(i64, i64) -> i64) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for resource in resources {
        if let Some((used, allocatable)) = resource.with_pod(node) {
            sum += points(used, allocatable) * resource.weight;
            weights += resource.weight;
        }
    }
    if weights == 0 { 0 } else { sum / weights }
}

/// The same along a curve. A resource with 0 points is left out of the mean.
fn mean_on_line(resources: &[WeightedResource<'_>], node: NodeIndex, line: &[(i64, i64)]) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for resource in resources {
        let height = resource.with_pod(node).map_or(0, |(used_amount, of)| on_line(line, used(used_amount, of)));
        if height > 0 {
            sum += height * resource.weight;
            weights += resource.weight;
        }
    }
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

/// The free percentage.
#[inline]
fn left(used: i64, allocatable: i64) -> i64 {
    if used > allocatable { 0 } else { share(allocatable - used, allocatable) }
}

/// The used percentage.
#[inline]
fn used(used: i64, allocatable: i64) -> i64 {
    share(used.min(allocatable), allocatable)
}

/// The height of the curve at `percent`: linear between its points, constant beyond them.
fn on_line(points: &[(i64, i64)], percent: i64) -> i64 {
    let next = points.partition_point(|(at, _)| *at < percent);
    let before = next.checked_sub(1).map(|before| points[before]);
    match (before, points.get(next).copied()) {
        (None, Some((_, height))) | (Some((_, height)), None) => height,
        (Some((from, low)), Some((to, high))) => low + (high - low) * (percent - from) / (to - from),
        (None, None) => 0,
    }
}
