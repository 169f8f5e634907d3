//! A node without its pods, to try what would fit there once they have ended. Dropping it restores the node.

use std::sync::Arc;

use smallvec::SmallVec;

use super::GhostSetId;
use crate::cluster::{Cluster, NodeIndex, ResourceId};
use crate::demand::requests::{HostPort, Usage};

/// A node on which only ghosts of others count, and the pods that were tried there.
pub(crate) struct EmptiedNode<'a> {
    cluster: &'a mut Cluster,
    node: NodeIndex,
    saved: SavedUsage,
    /// What counts on the node meanwhile.
    tried: SmallVec<[(Arc<Usage>, u32); 4]>,
}

/// The columns of a node.
struct SavedUsage {
    requested: Vec<(ResourceId, i128)>,
    scored_cpu: i128,
    scored_memory: i128,
    pods_count: i64,
    counters: Vec<i64>,
    ports: Vec<HostPort>,
}

impl<'a> EmptiedNode<'a> {
    /// The node with the ghosts of all sets except `own`.
    pub(crate) fn of(node: NodeIndex, own: Option<GhostSetId>, cluster: &'a mut Cluster) -> EmptiedNode<'a> {
        let ghosts = cluster.other_ghosts_on(node, own);
        let at = node.at();
        let saved = SavedUsage {
            requested: cluster.resources.take_requested(node),
            scored_cpu: cluster.scored_overflow.take(&mut cluster.scored_cpu[at], (ResourceId::CPU, node)),
            scored_memory: cluster.scored_overflow.take(&mut cluster.scored_memory[at], (ResourceId::MEMORY, node)),
            pods_count: cluster.take_pods_count(node),
            counters: cluster.pod_counters.take(node),
            ports: std::mem::take(cluster.ports.get_mut(at)),
        };
        let mut emptied = EmptiedNode { cluster, node, saved, tried: SmallVec::new() };
        ghosts.iter().for_each(|ghosts| emptied.place(&ghosts.usage, ghosts.count));
        emptied
    }

    /// The cluster with the emptied node.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster
    }

    /// Counts pods on the node.
    pub(crate) fn place(&mut self, usage: &Arc<Usage>, count: u32) {
        (0..count).for_each(|_| self.cluster.add_unlogged(self.node, usage));
        self.tried.push((Arc::clone(usage), count));
    }
}

impl Drop for EmptiedNode<'_> {
    fn drop(&mut self) {
        for (usage, count) in &self.tried {
            (0..*count).for_each(|_| self.cluster.remove_unlogged(self.node, usage));
        }
        let (cluster, node, at) = (&mut *self.cluster, self.node, self.node.at());
        cluster.resources.restore_requested(node, &self.saved.requested);
        let key = |resource| (resource, node);
        cluster.scored_overflow.restore(&mut cluster.scored_cpu[at], key(ResourceId::CPU), self.saved.scored_cpu);
        let memory = &mut cluster.scored_memory[at];
        cluster.scored_overflow.restore(memory, key(ResourceId::MEMORY), self.saved.scored_memory);
        cluster.add_pods_count(node, self.saved.pods_count);
        cluster.pod_counters.restore(node, &self.saved.counters);
        *cluster.ports.get_mut(at) = std::mem::take(&mut self.saved.ports);
    }
}
