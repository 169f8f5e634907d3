//! Which member of a group gets which node: members with a completion index are placed along the nodes in index order.
//!
//! Ranks of a training run mostly talk to their neighbours. So consecutive indexes share a node, and nodes of one rack
//! have consecutive indexes, whatever order the pods were created in.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use types::views::PodView;

use crate::cluster::names::NameId;
use crate::cluster::{Cluster, NodeIndex};
use crate::demand::pods::{PodId, Pods};

/// The label with the completion index of a pod of an Indexed Job.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Labels of nodes that are near each other, the largest domain first.
const NEIGHBOUR_KEYS: [&str; 4] = [
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/block",
    "topology.kubernetes.io/rack",
];

/// A placed pod: the position of its class in the demand, the pod, and its node.
pub(crate) type PlacedPod = (usize, PodId, NodeIndex);

/// The rank of a pod in its group: its completion index. Pods without one come after all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(u32);

impl Rank {
    const NONE: Rank = Rank(u32::MAX);

    /// The rank of a pod.
    pub(crate) fn of(pod: &PodView) -> Rank {
        let index = pod.metadata.labels.get(COMPLETION_INDEX).and_then(|index| index.parse().ok());
        index.map_or(Rank::NONE, Rank)
    }
}

/// Gives the nodes of each class to its pods in the order of their ranks, one controller after another: a group can have
/// the pods of several Jobs. Without ranks nothing changes. Pods of a class are equal, so each fits wherever another does.
pub(crate) fn assign_by_rank(placed: &mut [PlacedPod], pods: &Pods, cluster: &Cluster) {
    let rank_of = |pod: PodId| Rank::of(&pods.get(pod).view);
    let controller_of = |pod: PodId| pods.get(pod).view.metadata.controller().map_or("", |owner| owner.uid.as_str());
    if placed.len() < 2 || placed.iter().all(|(_, pod, _)| rank_of(*pod) == Rank::NONE) {
        return;
    }
    // In the order in which the first pod of each was placed.
    let mut controllers: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, (_, pod, _)) in placed.iter().enumerate() {
        controllers.entry(controller_of(*pod)).or_insert(at);
    }
    let positions = node_positions(placed, cluster);
    let mut ranked: Vec<(usize, PodId)> = placed.iter().map(|(class, pod, _)| (*class, *pod)).collect();
    // Stable: pods without a rank keep their order.
    ranked.sort_by_cached_key(|(class, pod)| (*class, controllers[&controller_of(*pod)], rank_of(*pod)));
    let mut nodes: Vec<(usize, NodeIndex)> = placed.iter().map(|(class, _, node)| (*class, *node)).collect();
    nodes.sort_by_cached_key(|(class, node)| (*class, positions[node]));
    for (placed, ((class, pod), (_, node))) in placed.iter_mut().zip(ranked.into_iter().zip(nodes)) {
        *placed = (class, pod, node);
    }
}

/// The position of each node among those of the placement, such that neighbours follow each other.
fn node_positions(placed: &[PlacedPod], cluster: &Cluster) -> BTreeMap<NodeIndex, usize> {
    let keys = NEIGHBOUR_KEYS.map(|key| cluster.names.get(key));
    let mut positions: BTreeMap<NodeIndex, usize> = placed.iter().map(|(_, _, node)| (*node, 0)).collect();
    let mut nodes: Vec<(Vec<&str>, NodeIndex)> =
        positions.keys().map(|node| (address(*node, &keys, cluster), *node)).collect();
    nodes.sort_by(|(one, one_node), (other, other_node)| {
        let texts = one.iter().zip(other).map(|(one, other)| compare_naturally(one, other).then(one.cmp(other)));
        texts.fold(Ordering::Equal, Ordering::then).then(one_node.cmp(other_node))
    });
    for (at, (_, node)) in nodes.into_iter().enumerate() {
        positions.insert(node, at);
    }
    positions
}

/// The domains of a node, the largest first, and its name.
fn address<'a>(node: NodeIndex, keys: &[Option<NameId>], cluster: &'a Cluster) -> Vec<&'a str> {
    let value = |key: &Option<NameId>| key.and_then(|key| cluster.node(node).label(key));
    let values = keys.iter().map(|key| value(key).map_or("", |value| cluster.names.text(value)));
    values.chain([cluster.node_name(node)]).collect()
}

/// Compares texts with numbers in them by the values of the numbers: `node-2` comes before `node-10`.
fn compare_naturally(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let (text, other_text) =
            (split(&mut one, |byte| !byte.is_ascii_digit()), split(&mut other, |byte| !byte.is_ascii_digit()));
        let (number, other_number) =
            (split(&mut one, |byte| byte.is_ascii_digit()), split(&mut other, |byte| byte.is_ascii_digit()));
        let (digits, other_digits) = (number.trim_start_matches('0'), other_number.trim_start_matches('0'));
        // Of numbers without leading zeros, the longer one is larger.
        let order = text.cmp(other_text).then(digits.len().cmp(&other_digits.len())).then(digits.cmp(other_digits));
        if order.is_ne() || (one.is_empty() && other.is_empty()) {
            return order.then(number.len().cmp(&other_number.len()));
        }
    }
}

/// Removes and returns the start of a text whose bytes all satisfy `is_part`.
fn split<'a>(text: &mut &'a str, is_part: impl Fn(u8) -> bool) -> &'a str {
    let end = text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len());
    let (start, rest) = text.split_at(end);
    *text = rest;
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_by_value() {
        let mut names = ["node-10", "node-2", "rack-1-node-9", "node-02", "", "node", "rack-1-node-10", "node-2a"];
        names.sort_by(|one, other| compare_naturally(one, other));
        assert_eq!(names, ["", "node", "node-2", "node-02", "node-2a", "node-10", "rack-1-node-9", "rack-1-node-10"]);
    }
}
