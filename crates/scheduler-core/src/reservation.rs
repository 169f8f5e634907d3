//! Reservations: which nodes to reserve for a starved group, and how much of them.
//!
//! In: the demand of a starved group and the cluster. Out: what to reserve on each node, and how many pods of other
//! units fit beside it. `core/reservation.rs` begins and ends a reservation.
//!
//! What holds: there is at most one reservation. It ends by itself, and the budget limits how much capacity all of
//! them keep idle over time.
//!
//! A large group does not fit while small pods use each slot as it becomes free. So nodes are chosen on which the
//! group would fit once their pods have left: as few as possible, those with the most free capacity first, because
//! they need the least.

mod active; // the current reservation: since when, and what has become free
mod reserved_nodes; // what is reserved of each node, and what that leaves for others
mod budget; // how much capacity reservations may keep idle over time

use std::cmp::Reverse;
use std::collections::BTreeMap;

pub(crate) use self::active::ActiveReservation;
pub(crate) use self::budget::ReservationBudget;
pub(crate) use self::reserved_nodes::{NodeReservation, Reservation, ReservedCapacity};
use crate::cluster::{Cluster, NodeIndex};
use crate::demand::Demand;
use crate::demand::classes::Classes;
use crate::placement::domains::Domains;

/// What to reserve for a unit; nothing if it would not fit even if all pods left.
pub(crate) fn plan_reservation(
    demand: &Demand,
    cluster: &Cluster,
    classes: &mut Classes,
) -> BTreeMap<NodeIndex, NodeReservation> {
    let slots_by_class: Vec<ClassSlots> =
        demand.class_counts.iter().map(|count| ClassSlots::of(count.class, cluster, classes)).collect();
    let nodes = choose_nodes(demand, cluster, classes, &slots_by_class);
    let share = |(node, reserved): (NodeIndex, ReservedPods)| {
        let class =
            classes.get(demand.class_counts[reserved.class_count_index].class).expect("a pending pod's class exists");
        (node, NodeReservation::of(&class.usage, reserved.pods_count))
    };
    nodes.into_iter().map(share).collect()
}

/// A number of pods of one class on a node.
struct ReservedPods {
    class_count_index: usize,
    pods_count: u32,
}

fn choose_nodes(
    demand: &Demand,
    cluster: &Cluster,
    classes: &mut Classes,
    slots_by_class: &[ClassSlots],
) -> BTreeMap<NodeIndex, ReservedPods> {
    // The best of the domains in which the unit would fit: the one that lacks least.
    for region in Domains::fitting_when_empty(demand, cluster, classes) {
        let nodes = region.nodes(cluster).map_or_else(|| cluster.indices().collect(), <[NodeIndex]>::to_vec);
        let reserved = reserve_from(&nodes, demand, slots_by_class);
        if !reserved.is_empty() {
            return reserved;
        }
    }
    BTreeMap::new()
}

/// Slots of one class on every node, now and without any pods.
pub(crate) struct ClassSlots {
    pub(crate) now: Vec<u32>,
    pub(crate) when_empty: Vec<u32>,
}

impl ClassSlots {
    pub(crate) fn of(class: crate::demand::classes::ClassId, cluster: &Cluster, classes: &mut Classes) -> ClassSlots {
        let (class, index) = classes.with_current_index(class, cluster);
        let now = cluster.indices().map(|node| index.slots(node)).collect();
        let mut when_empty = vec![0; cluster.width()];
        for (node, slots) in index.slots_when_empty(class, cluster) {
            when_empty[node.at()] = slots;
        }
        ClassSlots { now, when_empty }
    }
}

/// Nodes for the required number of pods, each class on its own nodes; none if there are too few.
fn reserve_from(
    nodes: &[NodeIndex],
    demand: &Demand,
    slots_by_class: &[ClassSlots],
) -> BTreeMap<NodeIndex, ReservedPods> {
    let mut reserved = BTreeMap::new();
    let mut wanted = demand.required_count() as u64;
    for (class_count_index, slots) in slots_by_class.iter().enumerate() {
        let mut left = wanted.min(demand.class_counts[class_count_index].count as u64);
        let is_free = |node: &NodeIndex| slots.when_empty[node.at()] > 0 && !reserved.contains_key(node);
        let mut free: Vec<NodeIndex> = nodes.iter().copied().filter(is_free).collect();
        free.sort_by_key(|node| (Reverse(slots.now[node.at()]), Reverse(slots.when_empty[node.at()]), *node));
        for node in free {
            if left == 0 {
                break;
            }
            let pods_count = u64::from(slots.when_empty[node.at()]).min(left);
            (left, wanted) = (left - pods_count, wanted - pods_count);
            reserved.insert(node, ReservedPods { class_count_index, pods_count: pods_count as u32 });
        }
    }
    if wanted > 0 { BTreeMap::new() } else { reserved }
}
