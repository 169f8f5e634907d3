//! Which nodes are over-committed, since when, and by which pods.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use types::Timestamp;

use crate::cluster::NodeIndex;
use crate::decision::Decision;
use crate::demand::pods::PodId;
use crate::queue::timers::Timers;

/// Pods bound beyond their node's capacity, by node.
#[derive(Debug, Default)]
pub(crate) struct OvercommitTracker {
    pub(crate) overcommitted: BTreeMap<NodeIndex, BTreeSet<PodId>>,
    pub(crate) timers: Timers<NodeIndex>,
    /// Decided, and not returned yet.
    pub(crate) decisions: VecDeque<Decision>,
}

impl OvercommitTracker {
    /// The pod is no longer on the node.
    pub(crate) fn remove_pod(&mut self, node: NodeIndex, pod: PodId) {
        let Some(pods) = self.overcommitted.get_mut(&node) else { return };
        pods.remove(&pod);
        if pods.is_empty() {
            self.clear_node(node);
        }
    }

    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.timers.next_at()
    }

    pub(crate) fn clear_node(&mut self, node: NodeIndex) {
        self.overcommitted.remove(&node);
        self.timers.clear(node);
    }
}
