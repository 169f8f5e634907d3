//! Reservations: which room to hold for a starved unit, and what all reservations may cost.
//!
//! In: the demand of a starved unit and the cluster. Out: ghost pods that hold the room
//! ([`ghosts`](crate::cluster::ghosts)). `core/reservation.rs` begins and ends reservations.
//!
//! What holds: no two reservations hold the same room. Each ends by itself, and the budget limits how much capacity all
//! of them keep idle over time.
//!
//! A large unit does not fit while small pods use each slot as it becomes free. So nodes are chosen on which the unit
//! would fit once their pods have left: as few as possible, those with the most free capacity first, because they need
//! the least.

mod active; // a current reservation: since when, and what has become free
mod budget; // how much capacity reservations may keep idle over time

use std::cmp::Reverse;
use std::sync::Arc;

pub(crate) use self::active::{ActiveReservation, PlanBasis};
pub(crate) use self::budget::ReservationBudget;
use crate::cluster::ghosts::emptied_node::EmptiedNode;
use crate::cluster::ghosts::{GhostPods, GhostSetId};
use crate::cluster::{Cluster, NodeIndex};
use crate::demand::Demand;
use crate::demand::classes::{ClassId, Classes};
use crate::placement::domains::{Domains, Region};

/// The room to hold for a unit, beside all ghosts except its own; nothing if it would not fit even if all pods left.
pub(crate) fn plan_reservation(
    demand: &Demand,
    own: Option<GhostSetId>,
    cluster: &mut Cluster,
    classes: &mut Classes,
) -> Vec<GhostPods> {
    let slots_by_class: Vec<ClassSlots> =
        demand.class_counts.iter().map(|count| ClassSlots::of(count.class, cluster, classes)).collect();
    let regions: Vec<_> = Domains::fitting_when_empty(demand, cluster, classes).into_iter().collect();
    let mut planner = Planner { demand, own, slots_by_class, cluster, classes };
    // The best of the domains in which the unit would fit: the one that lacks least.
    for region in regions {
        let nodes = region.nodes(planner.cluster).map(<[NodeIndex]>::to_vec);
        let ghosts = planner.plan_on(nodes.unwrap_or_else(|| planner.cluster.indices().collect()));
        if !ghosts.is_empty() {
            return ghosts;
        }
    }
    Vec::new()
}

/// Whether the nodes of ghosts could still take such pods of the unit if all pods left, and are in one of its domains.
pub(crate) fn is_possible(ghosts: &[GhostPods], demand: &Demand, cluster: &Cluster, classes: &mut Classes) -> bool {
    let slots_when_empty = demand.class_counts.iter().map(|class_count| {
        let (class, index) = classes.with_current_index(class_count.class, cluster);
        (Arc::clone(&class.usage), index.slots_when_empty(class, cluster))
    });
    let slots_when_empty: Vec<_> = slots_when_empty.collect();
    let is_in_one_domain = demand.constraint.as_ref().is_none_or(|constraint| {
        let contains_all = |domain| {
            let region = Region::Domain(constraint.topology, domain);
            ghosts.iter().all(|ghosts| region.contains(ghosts.node, cluster))
        };
        constraint.allowed_domains(cluster).any(contains_all)
    });
    is_in_one_domain
        && ghosts.iter().all(|ghosts| {
            slots_when_empty.iter().filter(|(usage, _)| *usage == ghosts.usage).any(|(_, slots)| {
                let at = slots.binary_search_by_key(&ghosts.node, |(node, _)| *node);
                at.is_ok_and(|at| slots[at].1 >= ghosts.count)
            })
        })
}

/// Slots of one class on every node, now and without any pods.
pub(crate) struct ClassSlots {
    pub(crate) now: Vec<u32>,
    pub(crate) when_empty: Vec<u32>,
}

impl ClassSlots {
    pub(crate) fn of(class: ClassId, cluster: &Cluster, classes: &mut Classes) -> ClassSlots {
        let (class, index) = classes.with_current_index(class, cluster);
        let now = cluster.indices().map(|node| index.slots(node)).collect();
        let mut when_empty = vec![0; cluster.width()];
        for (node, slots) in index.slots_when_empty(class, cluster) {
            when_empty[node.at()] = slots;
        }
        ClassSlots { now, when_empty }
    }
}

struct Planner<'a> {
    demand: &'a Demand,
    own: Option<GhostSetId>,
    slots_by_class: Vec<ClassSlots>,
    cluster: &'a mut Cluster,
    classes: &'a mut Classes,
}

impl Planner<'_> {
    /// Ghosts for the required number of pods; none if these nodes have too little room.
    fn plan_on(&mut self, mut nodes: Vec<NodeIndex>) -> Vec<GhostPods> {
        let sum = |slots_of: &dyn Fn(&ClassSlots) -> u32| -> u64 {
            self.slots_by_class.iter().map(|slots| u64::from(slots_of(slots))).sum()
        };
        nodes.retain(|node| sum(&|slots| slots.when_empty[node.at()]) > 0);
        nodes.sort_by_cached_key(|node| {
            let now = sum(&|slots| slots.now[node.at()]);
            let when_empty = sum(&|slots| slots.when_empty[node.at()]);
            (Reverse(now), Reverse(self.free_share_milli(*node)), Reverse(when_empty), *node)
        });
        let largest_first: Vec<usize> = (0..self.demand.class_counts.len()).collect();
        let ghosts = self.fill(&nodes, &largest_first);
        if !ghosts.is_empty() || largest_first.len() == 1 {
            return ghosts;
        }
        let smallest_first: Vec<usize> = largest_first.into_iter().rev().collect();
        self.fill(&nodes, &smallest_first)
    }

    /// How much of the room for one pod of the largest class is free on a node, in thousandths.
    fn free_share_milli(&self, node: NodeIndex) -> i64 {
        let Some(class) = self.classes.get(self.demand.class_counts[0].class) else { return 0 };
        let share = |(resource, amount): &(_, i64)| {
            let free = self.cluster.free(*resource, node).clamp(0, *amount);
            (i128::from(free) * 1000 / i128::from((*amount).max(1))) as i64
        };
        class.usage.requests.iter().map(share).min().unwrap_or(1000)
    }

    /// Fills one emptied node after another, class by class.
    fn fill(&mut self, nodes: &[NodeIndex], order: &[usize]) -> Vec<GhostPods> {
        let mut left: Vec<usize> = self.demand.class_counts.iter().map(|count| count.count).collect();
        let mut wanted = self.demand.required_count();
        let mut ghosts = Vec::new();
        for node in nodes {
            let mut emptied = EmptiedNode::of(*node, self.own, self.cluster);
            for at in order.iter().copied().filter(|at| self.slots_by_class[*at].when_empty[node.at()] > 0) {
                let class = self.demand.class_counts[at].class;
                let slots = self.classes.slots(class, *node, emptied.cluster()) as usize;
                let count = slots.min(left[at]).min(wanted);
                if count > 0 {
                    let usage = &self.classes.get(class).expect("a pending pod's class exists").usage;
                    (left[at], wanted) = (left[at] - count, wanted - count);
                    emptied.place(usage, count as u32);
                    ghosts.push(GhostPods { node: *node, usage: usage.clone(), count: count as u32 });
                }
            }
            if wanted == 0 {
                return ghosts;
            }
        }
        Vec::new()
    }
}
