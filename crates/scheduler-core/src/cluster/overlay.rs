//! An overlay of tentative pods over the cluster. Dropping it removes them.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Cluster, NodeIndex, TrialStart};
use crate::demand::requests::Usage;

/// Pods that count on their nodes while the overlay lives, or for good once it is committed.
pub(crate) struct PlacementOverlay<'a> {
    cluster: &'a mut Cluster,
    /// Nodes, each with the position of the pod's usage in `usages`.
    placed: SmallVec<[(NodeIndex, u32); 8]>,
    usages: SmallVec<[Arc<Usage>; 2]>,
    trial: TrialStart,
    is_committed: bool,
}

impl<'a> PlacementOverlay<'a> {
    pub(super) fn new(cluster: &'a mut Cluster) -> PlacementOverlay<'a> {
        let trial = cluster.log.begin_trial();
        PlacementOverlay { cluster, placed: SmallVec::new(), usages: SmallVec::new(), trial, is_committed: false }
    }

    /// Counts one more pod on a node.
    pub(crate) fn place(&mut self, node: NodeIndex, usage: &Arc<Usage>) {
        self.cluster.add_pod(node, usage);
        // Pods are placed class by class, so this is nearly always the last usage.
        let existing = self.usages.iter().rposition(|existing| Arc::ptr_eq(existing, usage));
        let at = existing.unwrap_or_else(|| {
            self.usages.push(Arc::clone(usage));
            self.usages.len() - 1
        });
        self.placed.push((node, at as u32));
    }

    /// How many pods were placed so far.
    pub(crate) fn len(&self) -> usize {
        self.placed.len()
    }

    /// Removes the last pods until `len` are left.
    pub(crate) fn rollback_to(&mut self, len: usize) {
        for (node, at) in self.placed.drain(len..).rev() {
            self.cluster.remove_pod(node, &self.usages[at as usize]);
        }
        // Each of the other pods is one change.
        self.cluster.log.undo(self.trial, len);
    }

    /// The cluster with the tentative pods on it.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster
    }

    /// The same, for reads that change a node and restore it.
    pub(crate) fn cluster_mut(&mut self) -> &mut Cluster {
        self.cluster
    }

    /// Keeps the pods.
    pub(crate) fn commit(mut self) {
        self.is_committed = true;
    }
}

impl Drop for PlacementOverlay<'_> {
    fn drop(&mut self) {
        if !self.is_committed {
            self.rollback_to(0);
        }
        self.cluster.log.end_trial();
    }
}
