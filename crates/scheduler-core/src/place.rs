//! Puts a group's pods on nodes, tentatively.

use crate::classes::{ClassId, Classes};
use crate::cluster::{NodeIndex, Tentative};
use crate::index::KeptIndex;
use crate::need::Need;
use crate::slots::Region;
use crate::tournament::Tournament;

/// How many pods of which lot went where, and who is left.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// One a pod: its lot's place in the need, and its node.
    pub(crate) spots: Vec<(usize, NodeIndex)>,
    /// The first class of which a pod found no node.
    pub(crate) short_of: Option<ClassId>,
}

/// Which class has the first choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Large pods find room before small ones fill the gaps.
    LargestFirst,
    /// As many pods as possible.
    SmallestFirst,
}

/// Places as many pods as fit into the region, class by class, each pod on the best node for its class. Pods that are in
/// `places` already stay where they are.
pub(crate) fn group(
    need: &Need,
    order: Order,
    region: Region,
    classes: &mut Classes,
    tentative: &mut Tentative<'_>,
    places: &mut Places,
) {
    let mut left: Vec<usize> = need.lots.iter().map(|lot| lot.count).collect();
    places.spots.iter().for_each(|(lot, _)| left[*lot] -= 1);
    let in_turn = |at: usize| if order == Order::LargestFirst { at } else { need.lots.len() - 1 - at };
    for lot in (0..need.lots.len()).map(in_turn) {
        let (class, before) = (need.lots[lot].class, places.spots.len());
        match region {
            Region::Everywhere => anywhere((lot, class), left[lot], classes, tentative, places),
            Region::Domain(..) => inside((lot, class), left[lot], region, classes, tentative, places),
        }
        if places.spots.len() - before < left[lot] {
            places.short_of.get_or_insert(class);
        }
    }
}

/// Each pod goes to the top of the class's kept tree.
fn anywhere(
    (lot, class): (usize, ClassId),
    count: usize,
    classes: &mut Classes,
    tentative: &mut Tentative<'_>,
    places: &mut Places,
) {
    let (class, index) = classes.caught_up(class, tentative.cluster());
    for _ in 0..count {
        let Some(node) = index.best() else { return };
        tentative.place(node, &class.usage);
        index.catch_up(class, tentative.cluster());
        places.spots.push((lot, node));
    }
}

/// The same with a tree over the nodes of the domain alone, made for this occasion.
fn inside(
    (lot, class): (usize, ClassId),
    count: usize,
    region: Region,
    classes: &mut Classes,
    tentative: &mut Tentative<'_>,
    places: &mut Places,
) {
    let (class, index) = classes.caught_up(class, tentative.cluster());
    let nodes = region.nodes(tentative.cluster()).unwrap_or_default().to_vec();
    let tree_of = |index: &KeptIndex| Tournament::of(&nodes.iter().map(|node| index.mark(*node)).collect::<Vec<_>>());
    let mut tree = tree_of(index);
    for _ in 0..count {
        let Some(at) = tree.best() else { return };
        let node = nodes[at];
        tentative.place(node, &class.usage);
        let weighed_anew = index.catch_up(class, tentative.cluster());
        if weighed_anew {
            tree = tree_of(index);
        } else {
            tree.set(at, index.mark(node));
        }
        places.spots.push((lot, node));
    }
}
