//! Pods that another scheduler has nominated to a node (`status.nominatedNodeName`), where it makes room for them.
//!
//! Their room is held by ghost pods until they are bound or gone, or the nomination changes. It costs no reservation
//! budget.
// Upstream: scores do not count nominated pods. Here ghosts count like pods, so others prefer nodes without them.

use std::cmp::Reverse;
use std::sync::Arc;

use types::views::PodView;

use super::Core;
use crate::cluster::NodeIndex;
use crate::cluster::compact_timestamp::CompactTimestamp;
use crate::cluster::ghosts::{GhostPods, GhostPurpose, GhostSetId};
use crate::demand::pods::{ExclusionReason, PodId, Stage};
use crate::demand::requests::Usage;
use crate::queue::QueueOrder;

/// The room that is held for a nominated pod.
#[derive(Debug)]
pub(super) struct Nomination {
    ghosts: GhostSetId,
    node: NodeIndex,
    usage: Arc<Usage>,
}

impl Core {
    /// A pod was observed: holds the room of its nomination, or what is new of it. The nomination of a pod of ours, by
    /// another tool, changes nothing: the pod is placed like any other.
    pub(super) fn update_nomination(&mut self, id: PodId, view: &PodView) {
        if view.status.nominated_node_name.is_none() && self.nominations.is_empty() {
            return;
        }
        let pod = self.pods.get(id);
        let is_foreign = pod.stage == Stage::Excluded(ExclusionReason::OtherScheduler);
        let node = view.status.nominated_node_name.as_deref().filter(|node| is_foreign && !node.is_empty());
        let Some(node) = node else { return self.remove_nomination(id) };
        let usage = Usage::of(view, &mut self.cluster);
        let node = self.cluster.index_for_ghosts(node);
        if self.nominations.get(&id).is_some_and(|held| held.node == node && *held.usage == usage) {
            return;
        }
        self.remove_nomination(id);
        // Units of lower and of equal priority respect it, whenever they were created.
        let priority = Reverse(view.spec.priority.unwrap_or(0));
        let order = QueueOrder { priority, created: CompactTimestamp::NEVER, arrival: 0 };
        let usage = Arc::new(usage);
        let ghosts = vec![GhostPods { node, usage: Arc::clone(&usage), count: 1 }];
        let ghosts = self.add_ghosts(order, GhostPurpose::Nomination, ghosts);
        self.nominations.insert(id, Nomination { ghosts, node, usage });
    }

    /// The pod is bound or gone, or its nomination changed.
    pub(super) fn remove_nomination(&mut self, id: PodId) {
        if let Some(held) = self.nominations.remove(&id) {
            self.remove_ghosts(held.ghosts);
        }
    }
}
