//! Better where less is taken, or more, or along a line, as the profile asks. Containers that ask for no CPU or memory
//! count with stand-in amounts.

use smallvec::SmallVec;

use super::{MAX_SCORE, Score, share};
use crate::classes::Class;
use crate::cluster::{Cluster, Column, NodeRef, NodeRefs, ResourceId};
use crate::filters::Kind;
use crate::reads::{Parts, Reads};

#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) strategy: Strategy,
    /// What is looked at, with weights.
    pub(crate) resources: Vec<(ResourceId, i64)>,
}

/// Which nodes are good.
#[derive(Clone, Debug)]
pub(crate) enum Strategy {
    /// Those with most left.
    Least,
    /// Those with least left.
    Most,
    /// By points of a line: used percent, and points from 0 to [`MAX_SCORE`]; by percent.
    Line(Vec<(i64, i64)>),
}

impl Score for Allocation {
    fn name(&self) -> &str {
        "NodeResourcesFit"
    }

    fn kind(&self) -> Kind {
        Kind::Counted
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::USAGE)
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        self.points(&self.matters(class, node.cluster), node)
    }

    fn add(&self, class: &Class, nodes: NodeRefs<'_>, weight: i64, sums: &mut [i64]) {
        let matters = self.matters(class, nodes.cluster);
        nodes.iter().zip(sums).for_each(|(node, sum)| *sum += weight * self.points(&matters, node));
    }
}

/// A resource that has a say for a class.
struct Matter<'a> {
    resource: ResourceId,
    column: &'a Column,
    weight: i64,
    /// What a pod of the class takes of it.
    own: i64,
}

impl Allocation {
    /// Devices and the like that the pod does not ask for are no matter.
    fn matters<'a>(&self, class: &Class, cluster: &'a Cluster) -> SmallVec<[Matter<'a>; 2]> {
        let own = |resource: ResourceId| match resource {
            ResourceId::CPU => class.usage.scored_before.cpu_milli,
            ResourceId::MEMORY => class.usage.scored_before.memory_bytes,
            _ => class.usage.requested(resource),
        };
        let matters = self.resources.iter().map(|(resource, weight)| Matter {
            resource: *resource,
            column: cluster.column(*resource),
            weight: *weight,
            own: own(*resource),
        });
        matters.filter(|matter| matter.own > 0 || matter.resource.is_everybodys()).collect()
    }

    #[inline]
    fn points(&self, matters: &[Matter<'_>], node: NodeRef<'_>) -> i64 {
        let at = node.index.at();
        let scored = node.cluster.scored(node.index);
        let (mut sum, mut weights) = (0, 0);
        for matter in matters {
            let allocatable = matter.column.allocatable[at];
            if allocatable <= 0 {
                continue;
            }
            let taken = match matter.resource {
                ResourceId::CPU => scored.cpu_milli,
                ResourceId::MEMORY => scored.memory_bytes,
                _ => matter.column.requested[at],
            };
            let points = self.strategy.points(taken + matter.own, allocatable);
            // A line may give nothing: such a resource has no say at all.
            if points > 0 || !matches!(self.strategy, Strategy::Line(_)) {
                sum += points * matter.weight;
                weights += matter.weight;
            }
        }
        match (weights, &self.strategy) {
            (0, _) => 0,
            (_, Strategy::Line(_)) => (sum as f64 / weights as f64).round() as i64,
            _ => sum / weights,
        }
    }
}

impl Strategy {
    fn points(&self, used: i64, allocatable: i64) -> i64 {
        match self {
            Strategy::Least if used > allocatable => 0,
            Strategy::Least => share(allocatable - used, allocatable),
            Strategy::Most => share(used.min(allocatable), allocatable),
            Strategy::Line(points) if used > allocatable => on_line(points, MAX_SCORE),
            Strategy::Line(points) => on_line(points, share(used, allocatable)),
        }
    }
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
