//! Places a group's pods on nodes, tentatively.

use crate::cluster::{NodeIndex, PlacementOverlay};
use crate::demand::Demand;
use crate::demand::classes::{ClassId, Classes};
use crate::index::ClassIndex;
use crate::index::tournament::Tournament;
use crate::placement::domains::Region;

/// Which pods are placed on which nodes, and which are not placed.
#[derive(Debug, Default)]
pub(crate) struct UnitPlacement {
    /// One per pod: the position of its class in the demand, and its node.
    pub(crate) assignments: Vec<(usize, NodeIndex)>,
    /// The first class with a pod that does not fit.
    pub(crate) unplaced_class: Option<ClassId>,
}

/// Which class is placed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementOrder {
    /// Large pods are placed before small ones fill the gaps.
    LargestFirst,
    /// As many pods as possible.
    SmallestFirst,
}

/// Places as many pods as fit into the region, class by class, each pod on the best node for its class. Pods that are
/// already in `placement` keep their nodes.
pub(crate) fn group(
    demand: &Demand,
    order: PlacementOrder,
    region: Region,
    classes: &mut Classes,
    overlay: &mut PlacementOverlay<'_>,
    placement: &mut UnitPlacement,
) {
    loop {
        let before = placement.assignments.len();
        place_classes(demand, order, region, classes, overlay, placement);
        let is_complete = placement.unplaced_class.is_none() || placement.assignments.len() == before;
        // Pods that were placed later can help those that did not fit before them.
        if is_complete || classes.are_monotone(&demand.class_counts) {
            return;
        }
    }
}

/// Places each class once.
fn place_classes(
    demand: &Demand,
    order: PlacementOrder,
    region: Region,
    classes: &mut Classes,
    overlay: &mut PlacementOverlay<'_>,
    placement: &mut UnitPlacement,
) {
    placement.unplaced_class = None;
    let mut left: Vec<usize> = demand.class_counts.iter().map(|class_count| class_count.count).collect();
    placement.assignments.iter().for_each(|(at, _)| left[*at] -= 1);
    let in_order =
        |at: usize| if order == PlacementOrder::LargestFirst { at } else { demand.class_counts.len() - 1 - at };
    for at in (0..demand.class_counts.len()).map(in_order) {
        let (class, before) = (demand.class_counts[at].class, placement.assignments.len());
        match region {
            Region::Everywhere => place_anywhere((at, class), left[at], classes, overlay, placement),
            Region::Domain(..) => place_in_domain((at, class), left[at], region, classes, overlay, placement),
        }
        if placement.assignments.len() - before < left[at] {
            placement.unplaced_class.get_or_insert(class);
        }
    }
}

/// Places each pod on the top node of the class's cached tree.
fn place_anywhere(
    (class_at, class): (usize, ClassId),
    count: usize,
    classes: &mut Classes,
    overlay: &mut PlacementOverlay<'_>,
    placement: &mut UnitPlacement,
) {
    let (class, index) = classes.with_current_index(class, overlay.cluster());
    for _ in 0..count {
        let Some(node) = index.best() else { return };
        overlay.place(node, &class.usage);
        index.catch_up(class, overlay.cluster());
        placement.assignments.push((class_at, node));
    }
}

/// The same with a temporary tree over the nodes of the domain.
fn place_in_domain(
    (class_at, class): (usize, ClassId),
    count: usize,
    region: Region,
    classes: &mut Classes,
    overlay: &mut PlacementOverlay<'_>,
    placement: &mut UnitPlacement,
) {
    let (class, index) = classes.with_current_index(class, overlay.cluster());
    let nodes = region.nodes(overlay.cluster()).unwrap_or_default().to_vec();
    let tree_of =
        |index: &ClassIndex| Tournament::of(&nodes.iter().map(|node| index.tree_key_of(*node)).collect::<Vec<_>>());
    let mut tree = tree_of(index);
    for _ in 0..count {
        let Some(at) = tree.best() else { return };
        let node = nodes[at];
        overlay.place(node, &class.usage);
        let renormalized = index.catch_up(class, overlay.cluster());
        if renormalized {
            tree = tree_of(index);
        } else {
            tree.set(at, index.tree_key_of(node));
        }
        placement.assignments.push((class_at, node));
    }
}
