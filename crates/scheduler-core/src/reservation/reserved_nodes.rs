//! Capacity reserved for one unit: on each reserved node as much as the pods need that are to be placed there.
//!
//! The rest of the node is free for all units. So pods that do not compete with the unit can overtake it, and none of
//! them can use what it waits for.

use std::collections::BTreeMap;

use crate::cluster::{Cluster, NodeIndex, ResourceId, UsedIds};
use crate::demand::requests::{Amounts, HostPort, Usage};
use crate::plugins::filters::NO_LIMIT;

/// The reservation. There is at most one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservation {
    by_node: BTreeMap<NodeIndex, NodeReservation>,
    /// For which unit and until when, as text.
    pub(crate) reserved_for: String,
    /// Whether filters respect it. The unit it is for, and units before it in the queue, are decided while it is
    /// suspended.
    enforced: bool,
}

/// What is reserved of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeReservation {
    pods_count: i64,
    requests: Amounts,
    ports: Vec<HostPort>,
}

/// How much of the reserved capacity is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReservedCapacity {
    /// Its share of the cluster, by the resource with the largest share, in millionths.
    pub(crate) idle_millionths: i64,
    /// How many pods of the unit fit into it, in thousandths: a node with half of what is reserved there counts half.
    pub(crate) pods_milli: i64,
}

impl NodeReservation {
    /// Capacity for `pods_count` pods with this usage each.
    pub(crate) fn of(usage: &Usage, pods_count: u32) -> NodeReservation {
        let pods_count = i64::from(pods_count);
        let requests = usage.requests.iter().map(|(resource, amount)| (*resource, amount.saturating_mul(pods_count)));
        NodeReservation { pods_count, requests: requests.collect(), ports: usage.ports.clone() }
    }
}

impl Reservation {
    /// Replaces the reservation.
    pub(crate) fn set(&mut self, shares: BTreeMap<NodeIndex, NodeReservation>, reserved_for: String) {
        (self.by_node, self.reserved_for) = (shares, reserved_for);
    }

    /// Removes a node whose index will be reused.
    pub(crate) fn forget(&mut self, node: NodeIndex) {
        self.by_node.remove(&node);
    }

    /// Enforces or suspends the reservation. Returns the nodes for which that makes a difference.
    pub(crate) fn set_enforced(&mut self, enforced: bool) -> impl Iterator<Item = NodeIndex> + '_ {
        let changed = std::mem::replace(&mut self.enforced, enforced) != enforced;
        self.by_node.keys().copied().filter(move |_| changed)
    }

    /// Adds the resources and names that it has.
    pub(crate) fn add_used(&self, used: &mut UsedIds) {
        for reserved in self.by_node.values() {
            reserved.requests.iter().for_each(|(resource, _)| used.add_resource(*resource));
            used.add_ports(&reserved.ports);
        }
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.by_node.keys().copied()
    }

    pub(crate) fn is_enforced(&self) -> bool {
        self.enforced && !self.by_node.is_empty()
    }

    /// How much of the reserved capacity is free by now.
    pub(crate) fn capacity(&self, cluster: &Cluster) -> ReservedCapacity {
        let mut idle: BTreeMap<ResourceId, i128> = BTreeMap::new();
        let mut capacity = ReservedCapacity::default();
        for (node, share) in self.by_node.iter().filter(|(node, _)| cluster.node(**node).present) {
            let milli = |free: i64, reserved: i64| {
                (i128::from(free.clamp(0, reserved)) * 1000 / i128::from(reserved.max(1))) as i64
            };
            let mut least = milli(cluster.free_pod_slots(*node), share.pods_count);
            for (resource, reserved) in &share.requests {
                let free = cluster.free(*resource, *node);
                *idle.entry(*resource).or_default() += i128::from(free.clamp(0, *reserved));
                least = least.min(milli(free, *reserved));
            }
            capacity.pods_milli += least * share.pods_count;
        }
        let share_millionths =
            |(resource, idle): (ResourceId, i128)| idle * 1_000_000 / cluster.allocatable_total(resource).max(1);
        capacity.idle_millionths = idle.into_iter().map(share_millionths).max().unwrap_or(0) as i64;
        capacity
    }

    /// How many pods with this usage fit on a node beside the reservation, if it is enforced.
    pub(crate) fn slots_beside(&self, node: NodeIndex, usage: &Usage, cluster: &Cluster) -> u32 {
        if self.enforced { self.slots_beside_if_enforced(node, usage, cluster) } else { NO_LIMIT }
    }

    /// The same, as if it were enforced.
    pub(crate) fn slots_beside_if_enforced(&self, node: NodeIndex, usage: &Usage, cluster: &Cluster) -> u32 {
        let Some(share) = self.by_node.get(&node) else { return NO_LIMIT };
        if usage.ports.iter().any(|port| share.ports.iter().any(|reserved| port.conflicts_with(*reserved))) {
            return 0;
        }
        let mut slots = cluster.pods_allowed(node) - cluster.pods_count(node) - share.pods_count;
        for (resource, reserved) in &share.requests {
            let amount = usage.requested(*resource);
            if amount > 0 {
                let free = cluster.allocatable(*resource, node) - cluster.requested(*resource, node);
                slots = slots.min(free.saturating_sub(*reserved) / amount);
            }
        }
        slots.clamp(0, i64::from(NO_LIMIT)) as u32
    }
}
