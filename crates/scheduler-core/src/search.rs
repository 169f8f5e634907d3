//! Looks for a way to place pods of several classes, and knows when there is none.
//!
//! Class by class, each pod on its best node, can miss a placement that exists. This search cannot, as long as it may go
//! on: node by node it tries every way to fill the node that leaves room for no further pod. Other ways need no look,
//! because counted filters only ever lose room: a pod that could go to this node as well might just as well be here.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::classes::{Class, Classes};
use crate::cluster::{NodeIndex, PlacementOverlay};
use crate::demand::Demand;
use crate::filters::LoadAssumption;
use crate::place::UnitPlacement;
use crate::plugins::Plugins;
use crate::slots::Region;

/// How much searching one decision may still do.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    steps_left: usize,
}

impl SearchBudget {
    pub(crate) fn of(steps: usize) -> SearchBudget {
        SearchBudget { steps_left: steps }
    }

    /// Takes one step; false when there is none left.
    fn spend_step(&mut self) -> bool {
        let some = self.steps_left > 0;
        self.steps_left = self.steps_left.saturating_sub(1);
        some
    }
}

/// What a search found.
#[derive(Debug)]
pub(crate) enum SearchResult {
    /// A way to place as many pods as are required; they are placed.
    Found(UnitPlacement),
    /// There is no such way.
    Impossible,
    /// The search was too long to end.
    GaveUp,
}

/// Searches the region for a way to place the required number of pods.
pub(crate) fn find(
    demand: &Demand,
    region: Region,
    classes: &mut Classes,
    tentative: &mut PlacementOverlay<'_>,
    effort: &mut SearchBudget,
) -> SearchResult {
    let nodes = nodes_with_room(demand, region, classes, tentative);
    let class_of =
        |lot: &crate::demand::ClassCount| Arc::clone(classes.get(lot.class).expect("a pending pod's class is held"));
    let mut search = Search {
        required: demand.required_count(),
        plugins: demand.class_counts.iter().map(|lot| Arc::clone(classes.plugins(&class_of(lot)))).collect(),
        classes: demand.class_counts.iter().map(class_of).collect(),
        slots_ahead: slots_ahead(&nodes),
        nodes: nodes.into_iter().map(|(node, _)| node).collect(),
        failed: FxHashSet::default(),
        tentative,
        effort,
    };
    search.run(demand.class_counts.iter().map(|lot| lot.count as u32).collect())
}

/// Nodes that take a pod of some class, with the slots of each class; those with the fewest ways to fill them first.
fn nodes_with_room(
    demand: &Demand,
    region: Region,
    classes: &mut Classes,
    tentative: &PlacementOverlay<'_>,
) -> Vec<(NodeIndex, Vec<u32>)> {
    let cluster = tentative.cluster();
    let mut nodes: Vec<(NodeIndex, Vec<u32>)> = match region.nodes(cluster) {
        Some(nodes) => nodes.iter().map(|node| (*node, Vec::new())).collect(),
        None => cluster.indices().map(|node| (node, Vec::new())).collect(),
    };
    for lot in &demand.class_counts {
        let (_, index) = classes.with_current_index(lot.class, cluster);
        nodes.iter_mut().for_each(|(node, slots)| slots.push(index.slots(*node)));
    }
    nodes.retain(|(_, slots)| slots.iter().any(|slots| *slots > 0));
    nodes.sort_by_key(|(node, slots)| (slots.iter().map(|slots| u64::from(*slots)).sum::<u64>(), *node));
    nodes
}

/// Per node, the slots of each class on it and on all nodes after it.
fn slots_ahead(nodes: &[(NodeIndex, Vec<u32>)]) -> Vec<Vec<u64>> {
    let mut ahead: Vec<Vec<u64>> = Vec::with_capacity(nodes.len());
    for (_, slots) in nodes.iter().rev() {
        let after = |class: usize| ahead.last().map_or(0, |sums| sums[class]);
        ahead.push(slots.iter().enumerate().map(|(class, slots)| u64::from(*slots) + after(class)).collect());
    }
    ahead.reverse();
    ahead
}

struct Search<'a, 'b> {
    required: usize,
    classes: Vec<Arc<Class>>,
    plugins: Vec<Arc<Plugins>>,
    nodes: Vec<NodeIndex>,
    slots_ahead: Vec<Vec<u64>>,
    /// From these nodes on, with these pods left, there is no way. What is placed follows from what is left.
    failed: FxHashSet<(usize, Vec<u32>)>,
    tentative: &'a mut PlacementOverlay<'b>,
    effort: &'a mut SearchBudget,
}

/// One node of the way that is being tried.
struct SearchNode {
    /// Pods of each class that were left when it was this node's turn.
    left: Vec<u32>,
    /// Ways to fill the node that were not tried yet, the best last.
    ways: Vec<Vec<u32>>,
    /// The way that is being tried.
    taken: Vec<u32>,
    /// How many pods stood before it.
    mark: usize,
}

impl Search<'_, '_> {
    fn run(&mut self, pods: Vec<u32>) -> SearchResult {
        let start = self.tentative.len();
        let mut path: Vec<SearchNode> = Vec::new();
        let mut left = pods;
        loop {
            let placed = self.tentative.len() - start;
            if placed >= self.required {
                return SearchResult::Found(self.placement(&path));
            }
            if self.could_reach(path.len(), &left, placed) {
                let Some(mut ways) = self.ways_to_fill(self.nodes[path.len()], &left) else {
                    self.tentative.rollback_to(start);
                    return SearchResult::GaveUp;
                };
                ways.reverse();
                path.push(SearchNode { left, ways, taken: Vec::new(), mark: self.tentative.len() });
            }
            // The next way not tried, at this node or the last one before it that has any.
            let way = loop {
                let depth = path.len();
                let Some(turn) = path.last_mut() else { return SearchResult::Impossible };
                self.tentative.rollback_to(turn.mark);
                if let Some(way) = turn.ways.pop() {
                    turn.taken.clone_from(&way);
                    left = turn.left.iter().zip(&way).map(|(left, taken)| left - taken).collect();
                    break way;
                }
                let turn = path.pop().expect("it was there a moment ago");
                self.failed.insert((depth - 1, turn.left));
            };
            let node = self.nodes[path.len() - 1];
            for (class, count) in self.classes.iter().zip(&way) {
                (0..*count).for_each(|_| self.tentative.place(node, &class.usage));
            }
        }
    }

    /// Whether the nodes from `depth` on may still take enough, as far as sums and what failed before tell.
    fn could_reach(&self, depth: usize, left: &[u32], placed: usize) -> bool {
        let Some(rooms) = self.slots_ahead.get(depth) else { return false };
        let most: u64 = left.iter().zip(rooms).map(|(left, room)| u64::from(*left).min(*room)).sum();
        placed as u64 + most >= self.required as u64 && !self.failed.contains(&(depth, left.to_vec()))
    }

    /// Every way to fill a node that leaves no room for any pod that is left; `None` when the effort is spent.
    fn ways_to_fill(&mut self, node: NodeIndex, left: &[u32]) -> Option<Vec<Vec<u32>>> {
        let mut ways = Vec::new();
        let mut taken = Vec::with_capacity(left.len());
        self.fill(node, left, &mut taken, &mut ways).then_some(ways)
    }

    fn fill(&mut self, node: NodeIndex, left: &[u32], taken: &mut Vec<u32>, ways: &mut Vec<Vec<u32>>) -> bool {
        if !self.effort.spend_step() {
            return false;
        }
        let lot = taken.len();
        if lot == left.len() {
            let full = (0..lot).all(|lot| taken[lot] == left[lot] || self.slots(lot, node) == 0);
            if full {
                ways.push(taken.clone());
            }
            return true;
        }
        let mark = self.tentative.len();
        let most = self.slots(lot, node).min(left[lot]);
        let usage = Arc::clone(&self.classes[lot].usage);
        (0..most).for_each(|_| self.tentative.place(node, &usage));
        let mut goes_on = true;
        for count in (0..=most).rev() {
            self.tentative.rollback_to(mark + count as usize);
            taken.push(count);
            goes_on = goes_on && self.fill(node, left, taken, ways);
            taken.pop();
        }
        self.tentative.rollback_to(mark);
        goes_on
    }

    fn slots(&self, lot: usize, node: NodeIndex) -> u32 {
        self.plugins[lot].slots(&self.classes[lot], node, self.tentative.cluster(), LoadAssumption::Now)
    }

    fn placement(&self, path: &[SearchNode]) -> UnitPlacement {
        let mut spots = Vec::with_capacity(self.required);
        for (turn, node) in path.iter().zip(&self.nodes) {
            for (lot, count) in turn.taken.iter().enumerate() {
                spots.extend((0..*count).map(|_| (lot, *node)));
            }
        }
        UnitPlacement { assignments: spots, unplaced_class: None }
    }
}
