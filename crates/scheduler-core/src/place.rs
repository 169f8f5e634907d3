//! Puts a group's pods on nodes, tentatively.

use crate::classes::{ClassId, Classes};
use crate::cluster::{NodeIndex, PlacementOverlay};
use crate::demand::Demand;
use crate::index::ClassIndex;
use crate::slots::Region;
use crate::tournament::Tournament;

/// How many pods of which lot went where, and who is left.
#[derive(Debug, Default)]
pub(crate) struct UnitPlacement {
    /// One a pod: its lot's place in the need, and its node.
    pub(crate) assignments: Vec<(usize, NodeIndex)>,
    /// The first class of which a pod found no node.
    pub(crate) unplaced_class: Option<ClassId>,
}

/// Which class has the first choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementOrder {
    /// Large pods find room before small ones fill the gaps.
    LargestFirst,
    /// As many pods as possible.
    SmallestFirst,
}

/// Places as many pods as fit into the region, class by class, each pod on the best node for its class. Pods that are in
/// `places` already stay where they are.
pub(crate) fn group(
    demand: &Demand,
    order: PlacementOrder,
    region: Region,
    classes: &mut Classes,
    tentative: &mut PlacementOverlay<'_>,
    places: &mut UnitPlacement,
) {
    let mut left: Vec<usize> = demand.class_counts.iter().map(|lot| lot.count).collect();
    places.assignments.iter().for_each(|(lot, _)| left[*lot] -= 1);
    let in_turn =
        |at: usize| if order == PlacementOrder::LargestFirst { at } else { demand.class_counts.len() - 1 - at };
    for lot in (0..demand.class_counts.len()).map(in_turn) {
        let (class, before) = (demand.class_counts[lot].class, places.assignments.len());
        match region {
            Region::Everywhere => place_anywhere((lot, class), left[lot], classes, tentative, places),
            Region::Domain(..) => place_in_domain((lot, class), left[lot], region, classes, tentative, places),
        }
        if places.assignments.len() - before < left[lot] {
            places.unplaced_class.get_or_insert(class);
        }
    }
}

/// Each pod goes to the top of the class's kept tree.
fn place_anywhere(
    (lot, class): (usize, ClassId),
    count: usize,
    classes: &mut Classes,
    tentative: &mut PlacementOverlay<'_>,
    places: &mut UnitPlacement,
) {
    let (class, index) = classes.with_current_index(class, tentative.cluster());
    for _ in 0..count {
        let Some(node) = index.best() else { return };
        tentative.place(node, &class.usage);
        index.catch_up(class, tentative.cluster());
        places.assignments.push((lot, node));
    }
}

/// The same with a tree over the nodes of the domain alone, made for this occasion.
fn place_in_domain(
    (lot, class): (usize, ClassId),
    count: usize,
    region: Region,
    classes: &mut Classes,
    tentative: &mut PlacementOverlay<'_>,
    places: &mut UnitPlacement,
) {
    let (class, index) = classes.with_current_index(class, tentative.cluster());
    let nodes = region.nodes(tentative.cluster()).unwrap_or_default().to_vec();
    let tree_of =
        |index: &ClassIndex| Tournament::of(&nodes.iter().map(|node| index.tree_key_of(*node)).collect::<Vec<_>>());
    let mut tree = tree_of(index);
    for _ in 0..count {
        let Some(at) = tree.best() else { return };
        let node = nodes[at];
        tentative.place(node, &class.usage);
        let weighed_anew = index.catch_up(class, tentative.cluster());
        if weighed_anew {
            tree = tree_of(index);
        } else {
            tree.set(at, index.tree_key_of(node));
        }
        places.assignments.push((lot, node));
    }
}
