//! Puts a group's pods on nodes, tentatively.

use crate::classes::{ClassId, Classes};
use crate::cluster::{NodeIndex, Tentative};
use crate::index::node_of;
use crate::need::{Lot, Need};
use crate::pods::PodId;
use crate::slots::Region;
use crate::tournament::Tournament;

/// Which pod went where, and who is left.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) spots: Vec<(PodId, NodeIndex)>,
    /// The first class of which a pod found no node.
    pub(crate) short_of: Option<ClassId>,
}

/// Places as many pods as fit into the region: largest class first, each pod on the best node for its class.
pub(crate) fn group(need: &Need, region: Region, classes: &mut Classes, tentative: &mut Tentative<'_>) -> Places {
    let mut places = Places { spots: Vec::with_capacity(need.pods_count()), short_of: None };
    for lot in &need.lots {
        let before = places.spots.len();
        match region {
            Region::Everywhere => anywhere(lot, classes, tentative, &mut places),
            Region::Domain(..) => inside(lot, region, classes, tentative, &mut places),
        }
        if places.spots.len() - before < lot.pods.len() {
            places.short_of.get_or_insert(lot.class);
        }
    }
    places
}

/// Each pod goes to the top of the class's kept tree.
fn anywhere(lot: &Lot, classes: &mut Classes, tentative: &mut Tentative<'_>, places: &mut Places) {
    let (class, index) = classes.caught_up(lot.class, tentative.cluster());
    for pod in &lot.pods {
        let Some(node) = index.best() else { return };
        tentative.place(node, &class.usage);
        index.catch_up(class, tentative.cluster());
        places.spots.push((*pod, node));
    }
}

/// The same with a tree over the nodes of the domain alone, made for this occasion.
fn inside(lot: &Lot, region: Region, classes: &mut Classes, tentative: &mut Tentative<'_>, places: &mut Places) {
    let (class, index) = classes.caught_up(lot.class, tentative.cluster());
    let nodes = region.nodes(tentative.cluster()).unwrap_or_default().to_vec();
    let mut tree = Tournament::of(nodes.iter().map(|node| index.key(*node)));
    for pod in &lot.pods {
        let Some(node) = tree.best().map(node_of) else { return };
        tentative.place(node, &class.usage);
        let weighed_anew = index.catch_up(class, tentative.cluster());
        if weighed_anew {
            tree = Tournament::of(nodes.iter().map(|node| index.key(*node)));
        } else {
            let at = nodes.binary_search(&node).expect("the best node of a domain is one of its nodes");
            tree.set(at, index.key(node));
        }
        places.spots.push((*pod, node));
    }
}
