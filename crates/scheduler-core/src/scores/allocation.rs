//! Better where less is taken, or more, or along a line, as the profile asks. Containers that ask for no CPU or memory
//! count with stand-in amounts.

use smallvec::SmallVec;

use super::{Score, share};
use crate::classes::Class;
use crate::cluster::{Cluster, NodeIndex, NodeRef, NodeRefs, ResourceId};
use crate::filters::PluginKind;
use crate::reads::{PodSpecFields, ReadSet};

#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) strategy: AllocationStrategy,
    /// What is looked at, with weights.
    pub(crate) resources: Vec<(ResourceId, i64)>,
}

/// Which nodes are good.
#[derive(Clone, Debug)]
pub(crate) enum AllocationStrategy {
    /// Those with most left.
    Least,
    /// Those with least left.
    Most,
    /// By points of a line: used percent, and points from 0 to [`MAX_SCORE`](super::MAX_SCORE); by percent.
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
        let matters = self.weighted_resources(class, nodes.cluster);
        // A loop for each strategy, so that none asks again which it is.
        match &self.strategy {
            AllocationStrategy::Least => add_means(&matters, nodes, weight, sums, left),
            AllocationStrategy::Most => add_means(&matters, nodes, weight, sums, used),
            AllocationStrategy::Line(line) => {
                let each = nodes.nodes.iter().zip(sums);
                each.for_each(|(node, sum)| *sum += weight * mean_on_line(&matters, *node, line));
            }
        }
    }
}

/// A resource that has a say for a class.
#[derive(Clone, Copy)]
struct WeightedResource<'a> {
    /// What each node has of it.
    allocatable: &'a [i64],
    /// What is taken of it on each node.
    taken: &'a [i64],
    weight: i64,
    /// What a pod of the class takes of it.
    own: i64,
}

impl WeightedResource<'_> {
    /// What would be taken with the pod, and of how much; none where the node has nothing of it.
    #[inline(always)]
    fn with_pod(&self, node: NodeIndex) -> Option<(i64, i64)> {
        let allocatable = self.allocatable[node.at()];
        (allocatable > 0).then(|| (self.taken[node.at()] + self.own, allocatable))
    }
}

impl Allocation {
    /// Devices and the like that the pod does not ask for are no matter.
    fn weighted_resources<'a>(&self, class: &Class, cluster: &'a Cluster) -> SmallVec<[WeightedResource<'a>; 2]> {
        let own = |resource: ResourceId| match resource {
            ResourceId::CPU => class.usage.scored_before.cpu_milli,
            ResourceId::MEMORY => class.usage.scored_before.memory_bytes,
            _ => class.usage.requested(resource),
        };
        let asked = self.resources.iter().map(|(resource, weight)| (*resource, *weight, own(*resource)));
        let matters = asked.filter(|(resource, _, own)| *own > 0 || resource.is_builtin());
        let matter = |(resource, weight, own)| WeightedResource {
            allocatable: &cluster.column(resource).allocatable,
            taken: cluster.scored(resource),
            weight,
            own,
        };
        matters.map(matter).collect()
    }
}

fn add_means(
    matters: &[WeightedResource<'_>],
    nodes: NodeRefs<'_>,
    weight: i64,
    sums: &mut [i64],
    points: impl Fn(i64, i64) -> i64 + Copy,
) {
    let each = nodes.nodes.iter().zip(sums);
    // Nearly always these are CPU and memory.
    if let [one, other] = *matters {
        each.for_each(|(node, sum)| *sum += weight * mean(&[one, other], *node, points));
    } else {
        each.for_each(|(node, sum)| *sum += weight * mean(matters, *node, points));
    }
}

/// The weighted mean of the points for what is used of how much.
#[inline(always)]
fn mean(matters: &[WeightedResource<'_>], node: NodeIndex, points: impl Fn(i64, i64) -> i64) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for matter in matters {
        if let Some((used, allocatable)) = matter.with_pod(node) {
            sum += points(used, allocatable) * matter.weight;
            weights += matter.weight;
        }
    }
    if weights == 0 { 0 } else { sum / weights }
}

/// The same along a line. It may give nothing: such a resource has no say at all.
fn mean_on_line(matters: &[WeightedResource<'_>], node: NodeIndex, line: &[(i64, i64)]) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for matter in matters {
        let height = matter.with_pod(node).map_or(0, |(taken, of)| on_line(line, used(taken, of)));
        if height > 0 {
            sum += height * matter.weight;
            weights += matter.weight;
        }
    }
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

/// The percentage that is left.
#[inline]
fn left(used: i64, allocatable: i64) -> i64 {
    if used > allocatable { 0 } else { share(allocatable - used, allocatable) }
}

/// The percentage that is used.
#[inline]
fn used(used: i64, allocatable: i64) -> i64 {
    share(used.min(allocatable), allocatable)
}

/// The height of the line at `percent`: straight between its points, level beyond them.
fn on_line(points: &[(i64, i64)], percent: i64) -> i64 {
    let next = points.partition_point(|(at, _)| *at < percent);
    let before = next.checked_sub(1).map(|before| points[before]);
    match (before, points.get(next).copied()) {
        (None, Some((_, height))) | (Some((_, height)), None) => height,
        (Some((from, low)), Some((to, high))) => low + (high - low) * (percent - from) / (to - from),
        (None, None) => 0,
    }
}
