//! Who has to leave a node that was given more pods than it has room for. Pure.
//!
//! On a server that looks at no bind two schedulers may both give away the same room. Whoever was bound beyond what there
//! is makes way; whoever came first keeps its place, and a gang counts as one that came when its first pod did.

use std::collections::BTreeMap;
use std::fmt;

use types::requests;

use crate::cluster::{Cluster, NodeIndex, ResourceId};
use crate::filters::NodeResourcesFit;
use crate::requests::Usage;

/// A node whose pods ask for more of something than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overcommit {
    /// The node.
    pub node: String,
    /// What is short: `cpu`, `nvidia.com/gpu`, or `pods`.
    pub resource: String,
    /// What its pods ask for together; thousandths of a CPU, otherwise whole units.
    pub requested: i64,
    /// What there is.
    pub allocatable: i64,
}

impl fmt::Display for Overcommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overcommit { node, resource, requested, allocatable } = self;
        let [requested, allocatable] =
            [requested, allocatable].map(|amount| requests::format_amount(resource, *amount));
        write!(f, "node {node} has {allocatable} {resource}, and its pods ask for {requested}")
    }
}

/// What of a node is taken by those of its pods that were counted.
#[derive(Debug)]
pub(crate) struct NodeUsage<'a> {
    cluster: &'a Cluster,
    node: NodeIndex,
    pods_count: i64,
    requested: BTreeMap<ResourceId, i64>,
}

/// Something of which there is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingResource {
    /// The node allows no more pods.
    Pods,
    Resource(ResourceId),
}

impl<'a> NodeUsage<'a> {
    /// Nothing is taken yet.
    pub(crate) fn of(cluster: &'a Cluster, node: NodeIndex) -> NodeUsage<'a> {
        NodeUsage { cluster, node, pods_count: 0, requested: BTreeMap::new() }
    }

    /// Counts one more pod.
    pub(crate) fn take(&mut self, usage: &Usage) {
        self.pods_count += 1;
        for (resource, amount) in &usage.requests {
            let sum = self.requested.entry(*resource).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// What there is not enough of for one more pod that is judged by `fit`.
    pub(crate) fn missing_for(&self, usage: &Usage, fit: &NodeResourcesFit) -> Option<MissingResource> {
        if self.pods_count >= self.cluster.pods_allowed(self.node) {
            return Some(MissingResource::Pods);
        }
        let counted = |(resource, _): &&(ResourceId, i64)| fit.counts(*resource, self.cluster.node_ref(self.node));
        let mut asked = usage.requests.iter().filter(counted);
        let lacking = asked
            .find(|(resource, amount)| self.taken(*resource).saturating_add(*amount) > self.allocatable(*resource));
        lacking.map(|(resource, _)| MissingResource::Resource(*resource))
    }

    /// The node in these terms.
    pub(crate) fn overcommit(&self, short: MissingResource) -> Overcommit {
        let (resource, requested, allocatable) = match short {
            MissingResource::Pods => ("pods", self.pods_count, self.cluster.pods_allowed(self.node)),
            MissingResource::Resource(resource) => {
                (self.cluster.resource_name(resource), self.taken(resource), self.allocatable(resource))
            }
        };
        let (node, resource) = (self.cluster.node_name(self.node).to_owned(), resource.to_owned());
        Overcommit { node, resource, requested, allocatable }
    }

    fn taken(&self, resource: ResourceId) -> i64 {
        self.requested.get(&resource).copied().unwrap_or(0)
    }

    fn allocatable(&self, resource: ResourceId) -> i64 {
        self.cluster.allocatable(resource, self.node)
    }
}

/// A pod that may have to leave.
#[derive(Debug)]
pub(crate) struct ReleaseCandidate<'a, T> {
    pub(crate) id: T,
    pub(crate) usage: &'a Usage,
    /// How it is judged whether it fits.
    pub(crate) fit: &'a NodeResourcesFit,
}

/// Those of the suspects that do not fit beside whom `ledger` counts, and what each is short of. `suspects` stand in the
/// order they came: each keeps its place unless those before it left too little.
pub(crate) fn pods_to_release<'a, T>(
    mut ledger: NodeUsage<'_>,
    suspects: impl IntoIterator<Item = ReleaseCandidate<'a, T>>,
) -> Vec<(T, MissingResource)> {
    let mut leave = Vec::new();
    for ReleaseCandidate { id: who, usage, fit } in suspects {
        match ledger.missing_for(usage, fit) {
            None => ledger.take(usage),
            Some(short) => leave.push((who, short)),
        }
    }
    leave
}
