//! Better where less is taken, or more, or along a line, as the profile asks. Containers that ask for no CPU or memory
//! count with stand-in amounts.

use super::{MAX_SCORE, Score, share};
use crate::classes::Class;
use crate::cluster::{NodeRef, ResourceId};
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
        let (mut sum, mut weights) = (0, 0);
        for (resource, weight) in &self.resources {
            let allocatable = node.cluster.allocatable(*resource, node.index);
            let Some(used) = used(*resource, class, node).filter(|_| allocatable > 0) else { continue };
            let points = self.strategy.points(used, allocatable);
            // A line may give nothing: such a resource has no say at all.
            if points > 0 || !matches!(self.strategy, Strategy::Line(_)) {
                sum += points * weight;
                weights += weight;
            }
        }
        match (weights, &self.strategy) {
            (0, _) => 0,
            (_, Strategy::Line(_)) => (sum as f64 / weights as f64).round() as i64,
            _ => sum / weights,
        }
    }
}

/// What would be taken of a resource with the pod there. Devices and the like that the pod does not ask
/// for are no matter.
fn used(resource: ResourceId, class: &Class, node: NodeRef<'_>) -> Option<i64> {
    let (taken, own) = (node.cluster.scored(node.index), class.usage.scored_before);
    match resource {
        ResourceId::CPU => Some(taken.cpu_milli + own.cpu_milli),
        ResourceId::MEMORY => Some(taken.memory_bytes + own.memory_bytes),
        _ => {
            let own = class.usage.requested(resource);
            (own > 0 || resource.is_everybodys()).then(|| node.cluster.requested(resource, node.index) + own)
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
