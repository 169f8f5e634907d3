//! How many nodes are missing, and which.

use super::{RemedyRequest, SearchContext};
use crate::cluster::NodeIndex;
use crate::demand::Demand;
use crate::demand::classes::{Class, Requirement};
use crate::explain::remedies::{Remedy, ResourceShortfall};
use crate::placement::domains::{Domains, Region};
use crate::placement::place::{self, PlacementOrder, UnitPlacement};
use crate::reservation::ClassSlots;

/// The label whose value is different on every node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The number of nodes to add, like an existing one, to the domain in which most of the unit fits. The number is
/// enough by arithmetic: what fits there now stays, and the rest is placed on the new nodes.
pub(super) fn add_nodes(demand: &Demand, context: &mut SearchContext<'_>) -> Option<Remedy> {
    let (region, _) = Domains::of(demand, context.cluster, context.classes).nearest()?;
    let key = region.chosen_domain(context.cluster).map(|domain| domain.key);
    if key.as_deref() == Some(HOSTNAME) {
        return add_one_node(demand, context);
    }
    for class_count in &demand.class_counts {
        // Another node does not help a pod that selects a node by name.
        if selects_node_by_name(context.classes.get(class_count.class)?, context) {
            return None;
        }
    }
    let slots_by_class: Vec<ClassSlots> =
        demand.class_counts.iter().map(|count| ClassSlots::of(count.class, context.cluster, context.classes)).collect();
    let rest = unplaced_counts(demand, region, context);
    let like = template_node(&rest, &slots_by_class, region, context)?;
    let mut count = 0;
    for (rest, slots) in rest.iter().zip(&slots_by_class).filter(|(rest, _)| **rest > 0) {
        count += rest.div_ceil(slots.when_empty[like.at()] as usize);
    }
    let like = context.cluster.node_name(like).to_owned();
    Some(Remedy::AddNodes { count, like, domain: region.chosen_domain(context.cluster) })
}

/// The node to add if each node is its own domain: the whole unit must fit on one new node. None if members are
/// placed, because they pin it to another node.
fn add_one_node(demand: &Demand, context: &mut SearchContext<'_>) -> Option<Remedy> {
    let ([class_count], 0) = (demand.class_counts.as_slice(), demand.placed_count) else { return None };
    if selects_node_by_name(context.classes.get(class_count.class)?, context) {
        return None;
    }
    let slots = ClassSlots::of(class_count.class, context.cluster, context.classes);
    let required = demand.required_count();
    let fits_all =
        |node: &NodeIndex| context.cluster.node(*node).present && slots.when_empty[node.at()] as usize >= required;
    let name = |node: &NodeIndex| context.cluster.node_name(*node).to_owned();
    let like = context.cluster.indices().filter(fits_all).map(|node| name(&node)).min()?;
    Some(Remedy::AddNodes { count: 1, like, domain: None })
}

/// How many pods of each class do not fit once the region is full.
fn unplaced_counts(demand: &Demand, region: Region, context: &mut SearchContext<'_>) -> Vec<usize> {
    let mut overlay = context.cluster.overlay();
    let mut placement = UnitPlacement::default();
    place::group(demand, PlacementOrder::SmallestFirst, region, context.classes, &mut overlay, &mut placement);
    let mut left: Vec<usize> = demand.class_counts.iter().map(|class_count| class_count.count).collect();
    placement.assignments.iter().for_each(|(class, _)| left[*class] -= 1);
    let mut missing = demand.required_count().saturating_sub(placement.assignments.len());
    // The smallest first: most of them fit on a node.
    for left in left.iter_mut().rev() {
        *left = (*left).min(missing);
        missing -= *left;
    }
    left
}

/// The node on which most of the rest fits when it is empty, preferably one of the region.
fn template_node(
    rest: &[usize],
    slots_by_class: &[ClassSlots],
    region: Region,
    context: &SearchContext<'_>,
) -> Option<NodeIndex> {
    let slots = |node: NodeIndex| {
        let of_rest = rest.iter().zip(slots_by_class).filter(|(rest, _)| **rest > 0);
        of_rest.map(|(_, slots)| slots.when_empty[node.at()]).min().unwrap_or(0)
    };
    let is_candidate = |node: &NodeIndex| context.cluster.node(*node).present && slots(*node) > 0;
    let rank = |node: &NodeIndex| {
        let name = std::cmp::Reverse(context.cluster.node_name(*node));
        (region.contains(*node, context.cluster), slots(*node), name)
    };
    context.cluster.indices().filter(is_candidate).max_by(|a, b| rank(a).cmp(&rank(b)))
}

fn selects_node_by_name(class: &Class, context: &SearchContext<'_>) -> bool {
    let hostname = context.cluster.names.get(HOSTNAME);
    let by_hostname = |terms: &[Requirement]| terms.iter().any(|term| Some(term.key) == hostname);
    let terms = class.required.terms.iter().flatten();
    class.node_name.is_some()
        || class.required.selector.iter().any(|(key, _)| Some(*key) == hostname)
        || terms.into_iter().any(|term| !term.names.is_empty() || by_hostname(&term.labels))
}

/// The resources of which no node has enough for one pod of some class.
pub(super) fn larger_nodes(request: &RemedyRequest<'_>, context: &mut SearchContext<'_>) -> Option<Remedy> {
    let mut shortfalls: Vec<ResourceShortfall> = Vec::new();
    for class_count in &request.demand.class_counts {
        let slots = ClassSlots::of(class_count.class, context.cluster, context.classes);
        if slots.when_empty.iter().any(|slots| *slots > 0) {
            continue;
        }
        let class = context.classes.get(class_count.class)?;
        for (resource, wanted) in &class.usage.requests {
            let cluster = &*context.cluster;
            let name = cluster.resource_name(*resource);
            let present = cluster.indices().filter(|node| cluster.node(*node).present);
            let largest = present.map(|node| cluster.allocatable(*resource, node)).max().unwrap_or(0);
            // A profile may ignore a resource; then no reason names it.
            let is_a_reason = request.refusal.reasons.lacks(name);
            let is_listed = shortfalls.iter().any(|listed| listed.resource == name && listed.wanted >= *wanted);
            if *wanted > largest && is_a_reason && !is_listed {
                shortfalls.retain(|listed| listed.resource != name);
                shortfalls.push(ResourceShortfall { resource: name.to_owned(), wanted: *wanted, largest });
            }
        }
    }
    (!shortfalls.is_empty()).then_some(Remedy::LargerNodes { shortfalls })
}
