//! Which nodes to keep room on for a group that is passed over, and how much.
//!
//! A large group finds no room while small pods take each slot as it comes free. So nodes are chosen that could take the
//! group once their pods have left: as few as possible, those with the most free room first, because they are nearest to it.

mod budget; // how much holds may keep idle over time

use std::cmp::Reverse;
use std::collections::BTreeMap;

pub(crate) use self::budget::ReservationBudget;
use crate::classes::Classes;
use crate::cluster::{Cluster, DomainId, NodeIndex, NodeReservation};
use crate::demand::Demand;

/// What to hold for a unit; nothing if it would not fit even if all pods left.
pub(crate) fn plan_reservation(
    demand: &Demand,
    cluster: &Cluster,
    classes: &mut Classes,
) -> BTreeMap<NodeIndex, NodeReservation> {
    let rooms: Vec<ClassSlots> =
        demand.class_counts.iter().map(|lot| ClassSlots::of(lot.class, cluster, classes)).collect();
    let share = |(node, taken): (NodeIndex, ReservedPods)| {
        let class =
            classes.get(demand.class_counts[taken.class_count_index].class).expect("a pending pod's class is held");
        (node, NodeReservation::of(&class.usage, taken.pods_count))
    };
    choose_nodes(demand, cluster, &rooms).into_iter().map(share).collect()
}

/// So many pods of one lot on a node.
struct ReservedPods {
    class_count_index: usize,
    pods_count: u32,
}

fn choose_nodes(demand: &Demand, cluster: &Cluster, rooms: &[ClassSlots]) -> BTreeMap<NodeIndex, ReservedPods> {
    let Some(constraint) = &demand.constraint else {
        return reserve_from(&cluster.indices().collect::<Vec<_>>(), demand, rooms);
    };
    let topology = cluster.topology(constraint.topology);
    let pinned = |domain: &DomainId| constraint.member_domains.is_empty() || constraint.member_domains.contains(domain);
    let free_now = |nodes: &[NodeIndex]| -> u64 {
        rooms.iter().flat_map(|rooms| nodes.iter().map(|node| u64::from(rooms.now[node.at()]))).sum()
    };
    // The domain that is nearest to having room: the most free slots now, then the smaller value.
    let mut domains: Vec<DomainId> = topology.domains().filter(pinned).collect();
    let value = |domain: DomainId| cluster.names.text(topology.value(domain));
    domains.sort_by(|a, b| {
        let free = |domain: &DomainId| Reverse(free_now(topology.nodes(*domain)));
        (free(a), value(*a)).cmp(&(free(b), value(*b)))
    });
    let held = domains.into_iter().map(|domain| reserve_from(topology.nodes(domain), demand, rooms));
    held.into_iter().find(|nodes| !nodes.is_empty()).unwrap_or_default()
}

/// Slots of one class on every node, as it is and without any pods.
pub(crate) struct ClassSlots {
    pub(crate) now: Vec<u32>,
    pub(crate) when_empty: Vec<u32>,
}

impl ClassSlots {
    pub(crate) fn of(class: crate::classes::ClassId, cluster: &Cluster, classes: &mut Classes) -> ClassSlots {
        let (class, index) = classes.with_current_index(class, cluster);
        let now = cluster.indices().map(|node| index.slots(node)).collect();
        ClassSlots { now, when_empty: index.slots_when_empty(class, cluster).to_vec() }
    }
}

/// Nodes for the required number of pods, each class on nodes of its own; none if there are too few.
fn reserve_from(nodes: &[NodeIndex], demand: &Demand, rooms: &[ClassSlots]) -> BTreeMap<NodeIndex, ReservedPods> {
    let mut taken = BTreeMap::new();
    let mut wanted = demand.required_count() as u64;
    for (lot, rooms) in rooms.iter().enumerate() {
        let mut left = wanted.min(demand.class_counts[lot].count as u64);
        let mut free: Vec<NodeIndex> =
            nodes.iter().copied().filter(|node| rooms.when_empty[node.at()] > 0 && !taken.contains_key(node)).collect();
        free.sort_by_key(|node| (Reverse(rooms.now[node.at()]), Reverse(rooms.when_empty[node.at()]), *node));
        for node in free {
            if left == 0 {
                break;
            }
            let room = u64::from(rooms.when_empty[node.at()]).min(left);
            (left, wanted) = (left - room, wanted - room);
            taken.insert(node, ReservedPods { class_count_index: lot, pods_count: room as u32 });
        }
    }
    if wanted > 0 { BTreeMap::new() } else { taken }
}
