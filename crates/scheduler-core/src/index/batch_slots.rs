//! The slots that filters leave on the nodes of a batch.

use std::sync::Arc;

use super::RefusingFilter;
use super::batch::BATCH;
use crate::cluster::{Cluster, NodeIndex, NodeRefs};
use crate::demand::classes::Class;
use crate::plugins::Plugins;
use crate::plugins::filters::{Filter, LoadAssumption, NO_LIMIT};

/// The slots that filters leave on the nodes of a batch, and the filter that leaves none.
pub(super) struct BatchSlots {
    pub(super) slots: [u32; BATCH],
    pub(super) refusers: [RefusingFilter; BATCH],
}

impl BatchSlots {
    pub(super) fn unlimited() -> BatchSlots {
        BatchSlots { slots: [NO_LIMIT; BATCH], refusers: [RefusingFilter::NONE; BATCH] }
    }

    fn refuse(&mut self, at: usize, refuser: RefusingFilter) {
        (self.slots[at], self.refusers[at]) = (0, refuser);
    }

    /// Refuses the nodes that do not exist.
    pub(super) fn refuse_absent(&mut self, cluster: &Cluster, nodes: &[NodeIndex]) {
        for (at, node) in nodes.iter().enumerate() {
            if !cluster.node(*node).present {
                self.refuse(at, RefusingFilter::ABSENT_NODE);
            }
        }
    }

    /// Applies these filters, each given with its position in the profile.
    pub(super) fn apply_filters<'a>(
        &mut self,
        filters: impl Iterator<Item = (usize, &'a Arc<dyn Filter>)>,
        class: &Class,
        nodes: NodeRefs<'_>,
        load: LoadAssumption,
    ) {
        let count = nodes.nodes.len();
        for (position, filter) in filters {
            filter.limit_slots(class, nodes, load, &mut self.slots[..count]);
            // Usually a filter refuses none of them.
            if !has_zero(&self.slots[..count]) {
                continue;
            }
            for (slots, refuser) in self.slots[..count].iter().zip(&mut self.refusers) {
                if *slots == 0 && *refuser == RefusingFilter::NONE {
                    *refuser = RefusingFilter(position as u8);
                }
            }
        }
    }
}

/// Reads all entries, which is faster than stopping at the first zero.
pub(super) fn has_zero(slots: &[u32]) -> bool {
    slots.iter().fold(false, |has_zero, slots| has_zero | (*slots == 0))
}

/// The static filter that refuses each of the nodes.
pub(super) fn static_refusers(
    plugins: &Plugins,
    class: &Class,
    cluster: &Cluster,
    nodes: &[NodeIndex],
) -> [RefusingFilter; BATCH] {
    let mut batch_slots = BatchSlots::unlimited();
    batch_slots.refuse_absent(cluster, nodes);
    batch_slots.apply_filters(plugins.static_filters(), class, cluster.node_refs(nodes), LoadAssumption::Now);
    batch_slots.refusers
}
