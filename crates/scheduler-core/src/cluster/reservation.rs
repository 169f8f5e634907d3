//! Room that is kept free for one unit: on each held node as much as the pods take that are to go there.
//!
//! What is left beside that is everybody's. So pods that do not compete with the unit pass, and none of them can take what
//! it waits for.

use std::collections::BTreeMap;

use super::{Cluster, NodeIndex, ResourceId};
use crate::filters::NO_LIMIT;
use crate::requests::{Amounts, HostPort, Usage};

/// The one hold there can be.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    by_node: BTreeMap<NodeIndex, NodeReservation>,
    /// For whom and until when, in words.
    pub(super) reserved_for: String,
    /// Whether filters see it. The unit it is for, and those before it, are decided while they do not.
    enforced: bool,
}

/// What is kept free of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeReservation {
    pods_count: i64,
    requests: Amounts,
    ports: Vec<HostPort>,
}

/// How much of what is kept free is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReservedCapacity {
    /// Which part of the cluster that is, by the resource of which it is the largest part, in millionths.
    pub(crate) idle_millionths: i64,
    /// How many pods of the unit it is room for, in thousandths: a node that has half of what is held there counts half.
    pub(crate) pods_milli: i64,
}

impl NodeReservation {
    /// Room for so many pods that take this much each.
    pub(crate) fn of(usage: &Usage, pods_count: u32) -> NodeReservation {
        let pods_count = i64::from(pods_count);
        let requests = usage.requests.iter().map(|(resource, amount)| (*resource, amount.saturating_mul(pods_count)));
        NodeReservation { pods_count, requests: requests.collect(), ports: usage.ports.clone() }
    }
}

impl Reservation {
    /// Replaces what is held.
    pub(super) fn set(&mut self, shares: BTreeMap<NodeIndex, NodeReservation>, reserved_for: String) {
        (self.by_node, self.reserved_for) = (shares, reserved_for);
    }

    /// The index will stand for another node.
    pub(super) fn forget(&mut self, node: NodeIndex) {
        self.by_node.remove(&node);
    }

    /// Shows or hides the hold. The nodes for which that makes a difference.
    pub(super) fn set_enforced(&mut self, shown: bool) -> impl Iterator<Item = NodeIndex> + '_ {
        let turned = std::mem::replace(&mut self.enforced, shown) != shown;
        self.by_node.keys().copied().filter(move |_| turned)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.by_node.keys().copied()
    }

    pub(super) fn is_enforced(&self) -> bool {
        self.enforced && !self.by_node.is_empty()
    }

    /// How much of what is kept free is free by now.
    pub(super) fn capacity(&self, cluster: &Cluster) -> ReservedCapacity {
        let mut idle: BTreeMap<ResourceId, i128> = BTreeMap::new();
        let mut room = ReservedCapacity::default();
        for (node, share) in self.by_node.iter().filter(|(node, _)| cluster.node(**node).present) {
            let milli =
                |free: i64, held: i64| (i128::from(free.clamp(0, held)) * 1000 / i128::from(held.max(1))) as i64;
            let mut least = milli(cluster.free_pod_slots(*node), share.pods_count);
            for (resource, held) in &share.requests {
                let free = cluster.free(*resource, *node);
                *idle.entry(*resource).or_default() += i128::from(free.clamp(0, *held));
                least = least.min(milli(free, *held));
            }
            room.pods_milli += least * share.pods_count;
        }
        let part = |(resource, idle): (ResourceId, i128)| idle * 1_000_000 / cluster.allocatable_total(resource).max(1);
        room.idle_millionths = idle.into_iter().map(part).max().unwrap_or(0) as i64;
        room
    }

    /// How many pods that take this much have room on a node beside what is kept free there.
    pub(super) fn slots_beside(&self, node: NodeIndex, usage: &Usage, cluster: &Cluster) -> u32 {
        if self.enforced { self.slots_beside_if_enforced(node, usage, cluster) } else { NO_LIMIT }
    }

    /// The same while it is hidden, too.
    pub(super) fn slots_beside_if_enforced(&self, node: NodeIndex, usage: &Usage, cluster: &Cluster) -> u32 {
        let Some(share) = self.by_node.get(&node) else { return NO_LIMIT };
        if usage.ports.iter().any(|port| share.ports.iter().any(|held| port.conflicts_with(*held))) {
            return 0;
        }
        let mut room = cluster.pods_allowed(node) - cluster.pods_count(node) - share.pods_count;
        for (resource, held) in &share.requests {
            let amount = usage.requested(*resource);
            if amount > 0 {
                let free = cluster.allocatable(*resource, node) - cluster.requested(*resource, node);
                room = room.min(free.saturating_sub(*held) / amount);
            }
        }
        room.clamp(0, i64::from(NO_LIMIT)) as u32
    }
}
