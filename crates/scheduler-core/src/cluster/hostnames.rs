//! Nodes by the label `kubernetes.io/hostname`.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::chunked_vec::ChunkedVec;
use super::{NodeIndex, NodeInfo};
use crate::cluster::names::NameId;

/// Nodes by hostname, tracked once a pod selects one.
#[derive(Clone, Debug, Default)]
pub(super) struct Hostnames(Option<FxHashMap<NameId, SmallVec<[NodeIndex; 2]>>>);

impl Hostnames {
    /// Tracks the hostnames of these nodes and of all later ones.
    pub(super) fn track(&mut self, nodes: &ChunkedVec<NodeInfo>) {
        if self.0.is_none() {
            self.0 = Some(FxHashMap::default());
            let none = NodeInfo::absent(NameId::EMPTY);
            nodes.iter().enumerate().for_each(|(at, node)| self.update(NodeIndex(at as u32), &none, node));
        }
    }

    /// A node changed.
    pub(super) fn update(&mut self, index: NodeIndex, before: &NodeInfo, next: &NodeInfo) {
        let Some(nodes) = &mut self.0 else { return };
        let [before, next] = [before, next].map(|node| node.label(NameId::HOSTNAME));
        if before == next {
            return;
        }
        if let Some(hostname) = before
            && let Some(others) = nodes.get_mut(&hostname)
        {
            others.retain(|other| *other != index);
            if others.is_empty() {
                nodes.remove(&hostname);
            }
        }
        if let Some(hostname) = next {
            nodes.entry(hostname).or_default().push(index);
        }
    }

    /// The nodes with a hostname.
    pub(super) fn nodes(&self, hostname: NameId) -> &[NodeIndex] {
        let nodes = self.0.as_ref().expect("hostnames are tracked before a class selects one");
        nodes.get(&hostname).map_or(&[], |nodes| nodes)
    }
}
