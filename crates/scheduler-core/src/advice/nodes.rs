//! How many nodes are missing, and of which kind.

use super::{Asked, Desk};
use crate::classes::{Class, Requirement};
use crate::cluster::NodeIndex;
use crate::hold::Rooms;
use crate::need::Need;
use crate::place::{self, Order, Places};
use crate::slots::{self, Region};
use crate::ways_out::{Lacking, WayOut};

/// The label whose value no two nodes share.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// So many more nodes like one there is, in the domain that takes most of the unit: enough by arithmetic, since what fits
/// there now stays and the rest goes to the new ones.
pub(super) fn more(need: &Need, desk: &mut Desk<'_>) -> Option<WayOut> {
    let (region, _) = slots::ranked(need, desk.cluster, desk.classes).nearest?;
    let key = region.chosen(desk.cluster).map(|domain| domain.key);
    if key.as_deref() == Some(HOSTNAME) {
        return one_that_takes_all(need, desk);
    }
    for lot in &need.lots {
        // A pod that asks for a node by name gains nothing from another.
        if asks_for_a_name(desk.classes.get(lot.class)?, desk) {
            return None;
        }
    }
    let rooms: Vec<Rooms> = need.lots.iter().map(|lot| Rooms::of(lot.class, desk.cluster, desk.classes)).collect();
    let rest = rest(need, region, desk);
    let like = model(&rest, &rooms, region, desk)?;
    let mut count = 0;
    for (rest, rooms) in rest.iter().zip(&rooms).filter(|(rest, _)| **rest > 0) {
        count += rest.div_ceil(rooms.empty[like.at()] as usize);
    }
    let like = desk.cluster.node_name(like).to_owned();
    Some(WayOut::AddNodes { count, like, domain: region.chosen(desk.cluster) })
}

/// A node is a domain of its own, so that no other can be added to it: one new node has to take the whole unit, and
/// members that have their place tie it to another.
fn one_that_takes_all(need: &Need, desk: &mut Desk<'_>) -> Option<WayOut> {
    let ([lot], 0) = (need.lots.as_slice(), need.placed_count) else { return None };
    if asks_for_a_name(desk.classes.get(lot.class)?, desk) {
        return None;
    }
    let rooms = Rooms::of(lot.class, desk.cluster, desk.classes);
    let required = need.required_count();
    let takes_all = |node: &NodeIndex| desk.cluster.node(*node).present && rooms.empty[node.at()] as usize >= required;
    let name = |node: &NodeIndex| desk.cluster.node_name(*node).to_owned();
    let like = desk.cluster.indices().filter(takes_all).map(|node| name(&node)).min()?;
    Some(WayOut::AddNodes { count: 1, like, domain: None })
}

/// How many pods of each lot still have to find a place when the region has taken what it can.
fn rest(need: &Need, region: Region, desk: &mut Desk<'_>) -> Vec<usize> {
    let mut tentative = desk.cluster.tentative();
    let mut places = Places::default();
    place::group(need, Order::SmallestFirst, region, desk.classes, &mut tentative, &mut places);
    let mut left: Vec<usize> = need.lots.iter().map(|lot| lot.count).collect();
    places.spots.iter().for_each(|(lot, _)| left[*lot] -= 1);
    let mut missing = need.required_count().saturating_sub(places.spots.len());
    // The smallest first: most of them go to a node.
    for left in left.iter_mut().rev() {
        *left = (*left).min(missing);
        missing -= *left;
    }
    left
}

/// The node that takes most of the rest when it is empty; one of the region where there is such.
fn model(rest: &[usize], rooms: &[Rooms], region: Region, desk: &Desk<'_>) -> Option<NodeIndex> {
    let slots = |node: NodeIndex| {
        let of_rest = rest.iter().zip(rooms).filter(|(rest, _)| **rest > 0);
        of_rest.map(|(_, rooms)| rooms.empty[node.at()]).min().unwrap_or(0)
    };
    let is_taken_from = |node: &NodeIndex| desk.cluster.node(*node).present && slots(*node) > 0;
    let rank = |node: &NodeIndex| {
        let name = std::cmp::Reverse(desk.cluster.node_name(*node));
        (region.contains(*node, desk.cluster), slots(*node), name)
    };
    desk.cluster.indices().filter(is_taken_from).max_by(|a, b| rank(a).cmp(&rank(b)))
}

fn asks_for_a_name(class: &Class, desk: &Desk<'_>) -> bool {
    let hostname = desk.cluster.names.get(HOSTNAME);
    let by_hostname = |wants: &[Requirement]| wants.iter().any(|want| Some(want.key) == hostname);
    let terms = class.required.terms.iter().flatten();
    class.node_name.is_some()
        || class.required.selector.iter().any(|(key, _)| Some(*key) == hostname)
        || terms.into_iter().any(|term| !term.names.is_empty() || by_hostname(&term.labels))
}

/// What no node has enough of for one pod of some class.
pub(super) fn larger(asked: &Asked<'_>, desk: &mut Desk<'_>) -> Option<WayOut> {
    let mut lacking: Vec<Lacking> = Vec::new();
    for lot in &asked.need.lots {
        let rooms = Rooms::of(lot.class, desk.cluster, desk.classes);
        if rooms.empty.iter().any(|slots| *slots > 0) {
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
                lacking.push(Lacking { resource: name.to_owned(), wanted: *wanted, largest });
            }
        }
    }
    (!lacking.is_empty()).then_some(WayOut::LargerNodes { lacking })
}
