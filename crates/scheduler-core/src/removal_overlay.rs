//! A cluster without some of its pods. Dropping it brings them back.

use std::sync::Arc;

use crate::cluster::{Cluster, NodeIndex};
use crate::requests::Usage;

/// Pods on nodes: where, and what they take.
pub(crate) type PlacedUsages = Vec<(NodeIndex, Arc<Usage>)>;

/// Pods that do not count on their nodes for as long as this lives.
pub(crate) struct RemovalOverlay<'a> {
    cluster: &'a mut Cluster,
    removed: PlacedUsages,
}

impl<'a> RemovalOverlay<'a> {
    /// Takes pods off their nodes. Those of nodes that are no more stay: nothing fits there anyway, and with its last pod
    /// such a node would lose its place.
    pub(crate) fn of<'b>(
        pods: impl IntoIterator<Item = &'b (NodeIndex, Arc<Usage>)>,
        cluster: &'a mut Cluster,
    ) -> RemovalOverlay<'a> {
        let present = pods.into_iter().filter(|(node, _)| cluster.node(*node).present);
        let gone: PlacedUsages = present.cloned().collect();
        for (node, usage) in &gone {
            cluster.remove_pod(*node, usage);
        }
        RemovalOverlay { cluster, removed: gone }
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
    }
}
