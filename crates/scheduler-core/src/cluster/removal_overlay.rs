//! An overlay that removes pods from the cluster. Dropping it restores them.

use std::sync::Arc;

use crate::cluster::{Cluster, NodeIndex, TrialStart};
use crate::demand::requests::Usage;

/// Pods on nodes: their node and usage.
pub(crate) type PlacedUsages = Vec<(NodeIndex, Arc<Usage>)>;

/// Pods that do not count on their nodes while this lives.
pub(crate) struct RemovalOverlay<'a> {
    cluster: &'a mut Cluster,
    removed: PlacedUsages,
    trial: TrialStart,
}

impl<'a> RemovalOverlay<'a> {
    /// Removes pods from their nodes. Pods of deleted nodes stay: nothing fits there anyway, and without pods such a
    /// node would lose its index.
    pub(crate) fn of<'b>(
        pods: impl IntoIterator<Item = &'b (NodeIndex, Arc<Usage>)>,
        cluster: &'a mut Cluster,
    ) -> RemovalOverlay<'a> {
        let present = pods.into_iter().filter(|(node, _)| cluster.node(*node).present);
        let removed: PlacedUsages = present.cloned().collect();
        let trial = cluster.begin_trial();
        for (node, usage) in &removed {
            cluster.remove_pod(*node, usage);
        }
        RemovalOverlay { cluster, removed, trial }
    }

    /// The cluster without them.
    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        self.cluster
    }
}

impl Drop for RemovalOverlay<'_> {
    fn drop(&mut self) {
        for (node, usage) in &self.removed {
            self.cluster.add_pod(*node, usage);
        }
        self.cluster.end_undone_trial(self.trial);
    }
}
