//! Better where the pod brings the used shares of the node's resources closer together.

use smallvec::SmallVec;

use super::{MAX_SCORE, Score};
use crate::classes::Class;
use crate::cluster::{NodeRef, ResourceId};
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
        // With the pod, and without it.
        let mut shares: SmallVec<[(f64, f64); 4]> = SmallVec::new();
        for resource in &self.resources {
            let allocatable = node.cluster.allocatable(*resource, node.index);
            let own = class.usage.requested(*resource);
            if allocatable > 0 && (own > 0 || resource.is_everybodys()) {
                let taken = node.cluster.requested(*resource, node.index);
                let share = |used: i64| (used as f64 / allocatable as f64).min(1.0);
                shares.push((share(taken + own), share(taken)));
            }
        }
        let (with, without) = match shares.as_slice() {
            [] | [_] => (0.0, 0.0),
            [one, other] => ((one.0 - other.0).abs() / 2.0, (one.1 - other.1).abs() / 2.0),
            more => (deviation(more.iter().map(|share| share.0)), deviation(more.iter().map(|share| share.1))),
        };
        // All points where all shares are equal.
        let balance = |deviation: f64| ((1.0 - deviation) * MAX_SCORE as f64) as i64;
        MAX_SCORE / 2 + (MAX_SCORE / 2 + balance(with) - balance(without)) / 2
    }
}

/// How far the shares are from their mean.
fn deviation(shares: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = shares.len() as f64;
    let mean = shares.clone().sum::<f64>() / count;
    (shares.map(|share| (share - mean) * (share - mean)).sum::<f64>() / count).sqrt()
}
