//! A batch of nodes that one call evaluates: filters and scores look up once what they need for all of them.

use std::ops::Deref;

use crate::cluster::NodeIndex;

/// How many nodes one call evaluates.
pub(super) const BATCH: usize = 32;

/// Up to [`BATCH`] nodes, each once.
#[derive(Debug)]
pub(super) struct Batch {
    nodes: [NodeIndex; BATCH],
    count: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { nodes: [NodeIndex(0); BATCH], count: 0 }
    }
}

impl Batch {
    pub(super) fn push(&mut self, node: NodeIndex) {
        self.nodes[self.count] = node;
        self.count += 1;
    }

    pub(super) fn is_full(&self) -> bool {
        self.count == BATCH
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

impl Deref for Batch {
    type Target = [NodeIndex];

    fn deref(&self) -> &[NodeIndex] {
        &self.nodes[..self.count]
    }
}

/// The nodes in batches.
pub(super) fn batches(nodes: impl Iterator<Item = NodeIndex>) -> impl Iterator<Item = Batch> {
    let mut nodes = nodes.fuse();
    std::iter::from_fn(move || {
        let mut batch = Batch::default();
        let filled = batch.nodes.iter_mut().zip(nodes.by_ref()).map(|(slot, node)| *slot = node);
        batch.count = filled.count();
        (batch.count > 0).then_some(batch)
    })
}
