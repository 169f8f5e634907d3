//! Which pods must leave an over-committed node. Pure.
//!
//! On a server that does not check binds, two schedulers may both use the same capacity. The pods that were bound
//! beyond it are released. Pods that were bound earlier stay, and a gang counts as bound when its first pod was.

use std::collections::BTreeMap;
use std::fmt;

use types::requests;

use crate::cluster::{Cluster, NodeIndex, ResourceId};
use crate::demand::requests::Usage;
use crate::plugins::filters::NodeResourcesFit;

/// A node whose pods request more of a resource than it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overcommit {
    /// The node.
    pub node: String,
    /// The resource that is exceeded: `cpu`, `nvidia.com/gpu`, or `pods`.
    pub resource: String,
    /// What its pods request together; thousandths of a CPU, otherwise whole units.
    pub requested: i64,
    /// What the node has.
    pub allocatable: i64,
}

impl fmt::Display for Overcommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overcommit { node, resource, requested, allocatable } = self;
        let [requested, allocatable] =
            [requested, allocatable].map(|amount| requests::format_amount(resource, *amount));
        write!(f, "node {node} has {allocatable} {resource}, and its pods request {requested}")
    }
}

/// The usage of a node by those of its pods that were counted.
#[derive(Debug)]
pub(crate) struct NodeUsage<'a> {
    cluster: &'a Cluster,
    node: NodeIndex,
    pods_count: i64,
    requested: BTreeMap<ResourceId, i64>,
}

/// A resource that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingResource {
    /// The node allows no more pods.
    Pods,
    Resource(ResourceId),
}

impl<'a> NodeUsage<'a> {
    /// No pods counted yet.
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

    /// What is missing for one more pod under `fit`.
    pub(crate) fn missing_for(&self, usage: &Usage, fit: &NodeResourcesFit) -> Option<MissingResource> {
        if self.pods_count >= self.cluster.pods_allowed(self.node) {
            return Some(MissingResource::Pods);
        }
        let counted = |(resource, _): &&(ResourceId, i64)| fit.counts(*resource, self.cluster.node_ref(self.node));
        let mut requested = usage.requests.iter().filter(counted);
        let missing = requested
            .find(|(resource, amount)| self.requested(*resource).saturating_add(*amount) > self.allocatable(*resource));
        missing.map(|(resource, _)| MissingResource::Resource(*resource))
    }

    /// Describes the node's over-commit of a resource.
    pub(crate) fn overcommit(&self, missing: MissingResource) -> Overcommit {
        let (resource, requested, allocatable) = match missing {
            MissingResource::Pods => ("pods", self.pods_count, self.cluster.pods_allowed(self.node)),
            MissingResource::Resource(resource) => {
                (self.cluster.resource_name(resource), self.requested(resource), self.allocatable(resource))
            }
        };
        let (node, resource) = (self.cluster.node_name(self.node).to_owned(), resource.to_owned());
        Overcommit { node, resource, requested, allocatable }
    }

    fn requested(&self, resource: ResourceId) -> i64 {
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
    /// The filter that decides whether it fits.
    pub(crate) fit: &'a NodeResourcesFit,
}

/// The candidates that do not fit beside the pods in `usage_so_far`, and what each lacks. `candidates` are in the
/// order of their binds: each stays unless those before it left too little.
pub(crate) fn pods_to_release<'a, T>(
    mut usage_so_far: NodeUsage<'_>,
    candidates: impl IntoIterator<Item = ReleaseCandidate<'a, T>>,
) -> Vec<(T, MissingResource)> {
    let mut released = Vec::new();
    for ReleaseCandidate { id, usage, fit } in candidates {
        match usage_so_far.missing_for(usage, fit) {
            None => usage_so_far.take(usage),
            Some(missing) => released.push((id, missing)),
        }
    }
    released
}
