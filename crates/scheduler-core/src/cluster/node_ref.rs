//! One node of the cluster as filters and scores read it.

use super::{Cluster, NodeIndex, NodeInfo, ResourceId};
use crate::demand::classes::Class;

/// A node with its usage. A filter declares what it reads here by the cluster events it registers.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) index: NodeIndex,
}

impl<'a> NodeRef<'a> {
    /// Its name.
    pub fn name(self) -> &'a str {
        self.cluster.node_name(self.index)
    }

    /// The value of one of its labels.
    pub fn label(self, key: &str) -> Option<&'a str> {
        let value = self.info().label(self.cluster.names.get(key)?)?;
        Some(self.cluster.names.text(value))
    }

    /// Whether its kubelet declares a feature.
    pub fn declares_feature(self, feature: &str) -> bool {
        self.cluster.names.get(feature).is_some_and(|feature| self.info().declares(feature))
    }

    /// Whether it is cordoned.
    pub fn is_unschedulable(self) -> bool {
        self.info().unschedulable
    }

    /// What pods may use of a resource: thousandths of a CPU, whole units of all others.
    pub fn allocatable(self, resource: &str) -> i64 {
        self.column(resource).map_or(0, |resource| self.cluster.allocatable(resource, self.index))
    }

    /// What its pods have requested of a resource.
    pub fn requested(self, resource: &str) -> i64 {
        self.column(resource).map_or(0, |resource| self.cluster.requested(resource, self.index))
    }

    /// What one pod of `class` requests of a resource.
    pub fn request_of(self, class: &Class, resource: &str) -> i64 {
        self.column(resource).map_or(0, |resource| class.usage.requested(resource))
    }

    /// How many pods it may have.
    pub fn pods_allowed(self) -> i64 {
        self.cluster.pods_allowed(self.index)
    }

    /// How many pods it has.
    pub fn pods_count(self) -> i64 {
        self.cluster.pods_count(self.index)
    }

    /// The sum of a [`PodCounter`](crate::PodCounter) over its pods.
    pub fn counted(self, counter: &str) -> i64 {
        self.cluster.counted(counter, self.index)
    }

    /// What one pod of `class` adds to that sum.
    pub fn counted_by(self, class: &Class, counter: &str) -> i64 {
        self.cluster.counted_by(counter, &class.usage)
    }

    pub(crate) fn info(self) -> &'a NodeInfo {
        self.cluster.node(self.index)
    }

    fn column(self, resource: &str) -> Option<ResourceId> {
        self.cluster.find_resource(resource)
    }
}

/// Several nodes at once.
#[derive(Clone, Copy, Debug)]
pub struct NodeRefs<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) nodes: &'a [NodeIndex],
}

impl<'a> NodeRefs<'a> {
    /// Each node.
    pub fn iter(self) -> impl ExactSizeIterator<Item = NodeRef<'a>> {
        self.nodes.iter().map(move |index| NodeRef { cluster: self.cluster, index: *index })
    }
}
