//! How many nodes are missing, and of which kind.

use super::{RemedyRequest, SearchContext};
use crate::classes::{Class, Requirement};
use crate::cluster::NodeIndex;
use crate::demand::Demand;
use crate::place::{self, PlacementOrder, UnitPlacement};
use crate::remedies::{Remedy, ResourceShortfall};
use crate::reservation::ClassSlots;
use crate::slots::{self, Region};

/// The label whose value no two nodes share.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// So many more nodes like one there is, in the domain that takes most of the unit: enough by arithmetic, since what fits
/// there now stays and the rest goes to the new ones.
pub(super) fn add_nodes(demand: &Demand, desk: &mut SearchContext<'_>) -> Option<Remedy> {
    let (region, _) = slots::rank_regions(demand, desk.cluster, desk.classes).nearest?;
    let key = region.chosen_domain(desk.cluster).map(|domain| domain.key);
    if key.as_deref() == Some(HOSTNAME) {
        return add_one_node(demand, desk);
    }
    for lot in &demand.class_counts {
        // A pod that asks for a node by name gains nothing from another.
        if selects_node_by_name(desk.classes.get(lot.class)?, desk) {
            return None;
        }
    }
    let rooms: Vec<ClassSlots> =
        demand.class_counts.iter().map(|lot| ClassSlots::of(lot.class, desk.cluster, desk.classes)).collect();
    let rest = unplaced_counts(demand, region, desk);
    let like = template_node(&rest, &rooms, region, desk)?;
    let mut count = 0;
    for (rest, rooms) in rest.iter().zip(&rooms).filter(|(rest, _)| **rest > 0) {
        count += rest.div_ceil(rooms.when_empty[like.at()] as usize);
    }
    let like = desk.cluster.node_name(like).to_owned();
    Some(Remedy::AddNodes { count, like, domain: region.chosen_domain(desk.cluster) })
}

/// A node is a domain of its own, so that no other can be added to it: one new node has to take the whole unit, and
/// members that have their place tie it to another.
fn add_one_node(demand: &Demand, desk: &mut SearchContext<'_>) -> Option<Remedy> {
    let ([lot], 0) = (demand.class_counts.as_slice(), demand.placed_count) else { return None };
    if selects_node_by_name(desk.classes.get(lot.class)?, desk) {
        return None;
    }
    let rooms = ClassSlots::of(lot.class, desk.cluster, desk.classes);
    let required = demand.required_count();
    let takes_all =
        |node: &NodeIndex| desk.cluster.node(*node).present && rooms.when_empty[node.at()] as usize >= required;
    let name = |node: &NodeIndex| desk.cluster.node_name(*node).to_owned();
    let like = desk.cluster.indices().filter(takes_all).map(|node| name(&node)).min()?;
    Some(Remedy::AddNodes { count: 1, like, domain: None })
}

/// How many pods of each lot still have to find a place when the region has taken what it can.
fn unplaced_counts(demand: &Demand, region: Region, desk: &mut SearchContext<'_>) -> Vec<usize> {
    let mut tentative = desk.cluster.overlay();
    let mut places = UnitPlacement::default();
    place::group(demand, PlacementOrder::SmallestFirst, region, desk.classes, &mut tentative, &mut places);
    let mut left: Vec<usize> = demand.class_counts.iter().map(|lot| lot.count).collect();
    places.assignments.iter().for_each(|(lot, _)| left[*lot] -= 1);
    let mut missing = demand.required_count().saturating_sub(places.assignments.len());
    // The smallest first: most of them go to a node.
    for left in left.iter_mut().rev() {
        *left = (*left).min(missing);
        missing -= *left;
    }
    left
}

/// The node that takes most of the rest when it is empty; one of the region where there is such.
fn template_node(rest: &[usize], rooms: &[ClassSlots], region: Region, desk: &SearchContext<'_>) -> Option<NodeIndex> {
    let slots = |node: NodeIndex| {
        let of_rest = rest.iter().zip(rooms).filter(|(rest, _)| **rest > 0);
        of_rest.map(|(_, rooms)| rooms.when_empty[node.at()]).min().unwrap_or(0)
    };
    let is_taken_from = |node: &NodeIndex| desk.cluster.node(*node).present && slots(*node) > 0;
    let rank = |node: &NodeIndex| {
        let name = std::cmp::Reverse(desk.cluster.node_name(*node));
        (region.contains(*node, desk.cluster), slots(*node), name)
    };
    desk.cluster.indices().filter(is_taken_from).max_by(|a, b| rank(a).cmp(&rank(b)))
}

fn selects_node_by_name(class: &Class, desk: &SearchContext<'_>) -> bool {
    let hostname = desk.cluster.names.get(HOSTNAME);
    let by_hostname = |wants: &[Requirement]| wants.iter().any(|want| Some(want.key) == hostname);
    let terms = class.required.terms.iter().flatten();
    class.node_name.is_some()
        || class.required.selector.iter().any(|(key, _)| Some(*key) == hostname)
        || terms.into_iter().any(|term| !term.names.is_empty() || by_hostname(&term.labels))
}

/// What no node has enough of for one pod of some class.
pub(super) fn larger_nodes(asked: &RemedyRequest<'_>, desk: &mut SearchContext<'_>) -> Option<Remedy> {
    let mut lacking: Vec<ResourceShortfall> = Vec::new();
    for lot in &asked.demand.class_counts {
        let rooms = ClassSlots::of(lot.class, desk.cluster, desk.classes);
        if rooms.when_empty.iter().any(|slots| *slots > 0) {
            continue;
        }
        let class = desk.classes.get(lot.class)?;
        for (resource, wanted) in &class.usage.requests {
            let cluster = &*desk.cluster;
            let name = cluster.resource_name(*resource);
            let present = cluster.indices().filter(|node| cluster.node(*node).present);
            let largest = present.map(|node| cluster.allocatable(*resource, node)).max().unwrap_or(0);
            // A profile may leave a resource to others; then no reason names it.
            let is_told = asked.refusal.reasons.0.contains_key(&format!("Insufficient {name}"));
            let is_known = lacking.iter().any(|known| known.resource == name && known.wanted >= *wanted);
            if *wanted > largest && is_told && !is_known {
                lacking.retain(|known| known.resource != name);
                lacking.push(ResourceShortfall { resource: name.to_owned(), wanted: *wanted, largest });
            }
        }
    }
    (!lacking.is_empty()).then_some(Remedy::LargerNodes { shortfalls: lacking })
}
