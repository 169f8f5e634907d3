//! Searches for a placement of pods of several classes, and proves when there is none.
//!
//! Placing class by class, each pod on its best node, can miss a placement that exists. This search cannot, within
//! its budget: node by node it tries every fill of the node that leaves no capacity for a further pod. Other fills
//! need not be tried, because the slots of counted filters never increase: a pod that also fits on this node can be
//! moved here.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::cluster::{NodeIndex, PlacementOverlay};
use crate::demand::classes::{Class, Classes};
use crate::demand::{ClassCount, Demand};
use crate::placement::place::UnitPlacement;
use crate::placement::slots::Region;
use crate::plugins::Plugins;
use crate::plugins::filters::LoadAssumption;

/// How many search steps one decision has left.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    steps_left: usize,
}

impl SearchBudget {
    pub(crate) fn of(steps: usize) -> SearchBudget {
        SearchBudget { steps_left: steps }
    }

    /// Spends one step; false when there is none left.
    fn spend_step(&mut self) -> bool {
        let has_steps = self.steps_left > 0;
        self.steps_left = self.steps_left.saturating_sub(1);
        has_steps
    }
}

/// The result of a search.
#[derive(Debug)]
pub(crate) enum SearchResult {
    /// The required number of pods fit; they are placed.
    Found(UnitPlacement),
    /// No placement exists.
    Impossible,
    /// The budget was spent before the search ended.
    GaveUp,
}

/// Searches the region for a placement of the required number of pods.
pub(crate) fn find(
    demand: &Demand,
    region: Region,
    classes: &mut Classes,
    overlay: &mut PlacementOverlay<'_>,
    budget: &mut SearchBudget,
) -> SearchResult {
    let nodes = nodes_with_slots(demand, region, classes, overlay);
    let class_of =
        |class_count: &ClassCount| Arc::clone(classes.get(class_count.class).expect("a pending pod's class exists"));
    let mut search = Search {
        required: demand.required_count(),
        plugins: demand.class_counts.iter().map(|count| Arc::clone(classes.plugins(&class_of(count)))).collect(),
        classes: demand.class_counts.iter().map(class_of).collect(),
        slots_ahead: slots_ahead(&nodes),
        nodes: nodes.into_iter().map(|(node, _)| node).collect(),
        failed: FxHashSet::default(),
        overlay,
        budget,
    };
    search.run(demand.class_counts.iter().map(|class_count| class_count.count as u32).collect())
}

/// Nodes with slots for some class, with the slots of each class; those with the fewest fills first.
fn nodes_with_slots(
    demand: &Demand,
    region: Region,
    classes: &mut Classes,
    overlay: &PlacementOverlay<'_>,
) -> Vec<(NodeIndex, Vec<u32>)> {
    let cluster = overlay.cluster();
    let mut nodes: Vec<(NodeIndex, Vec<u32>)> = match region.nodes(cluster) {
        Some(nodes) => nodes.iter().map(|node| (*node, Vec::new())).collect(),
        None => cluster.indices().map(|node| (node, Vec::new())).collect(),
    };
    for class_count in &demand.class_counts {
        let (_, index) = classes.with_current_index(class_count.class, cluster);
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
    /// From this depth on, with these pods left, no placement exists. What is placed follows from what is left.
    failed: FxHashSet<(usize, Vec<u32>)>,
    overlay: &'a mut PlacementOverlay<'b>,
    budget: &'a mut SearchBudget,
}

/// One node of the current search path.
struct SearchNode {
    /// Pods of each class that were left when the search reached this node.
    left: Vec<u32>,
    /// Fills of the node that were not tried yet, the best last. A fill is a number of pods per class.
    fills: Vec<Vec<u32>>,
    /// The fill that is being tried.
    current: Vec<u32>,
    /// The length of the overlay before this node.
    overlay_len: usize,
}

impl Search<'_, '_> {
    fn run(&mut self, pods: Vec<u32>) -> SearchResult {
        let start = self.overlay.len();
        let mut path: Vec<SearchNode> = Vec::new();
        let mut left = pods;
        loop {
            let placed = self.overlay.len() - start;
            if placed >= self.required {
                return SearchResult::Found(self.placement(&path));
            }
            if self.could_reach(path.len(), &left, placed) {
                let Some(mut fills) = self.maximal_fills(self.nodes[path.len()], &left) else {
                    self.overlay.rollback_to(start);
                    return SearchResult::GaveUp;
                };
                fills.reverse();
                path.push(SearchNode { left, fills, current: Vec::new(), overlay_len: self.overlay.len() });
            }
            // The next untried fill, at this node or the last one before it that has any.
            let fill = loop {
                let depth = path.len();
                let Some(step) = path.last_mut() else { return SearchResult::Impossible };
                self.overlay.rollback_to(step.overlay_len);
                if let Some(fill) = step.fills.pop() {
                    step.current.clone_from(&fill);
                    left = step.left.iter().zip(&fill).map(|(left, count)| left - count).collect();
                    break fill;
                }
                let step = path.pop().expect("the path is not empty");
                self.failed.insert((depth - 1, step.left));
            };
            let node = self.nodes[path.len() - 1];
            for (class, count) in self.classes.iter().zip(&fill) {
                (0..*count).for_each(|_| self.overlay.place(node, &class.usage));
            }
        }
    }

    /// Whether enough pods may still fit on the nodes from `depth` on, by the sums and the failed states.
    fn could_reach(&self, depth: usize, left: &[u32], placed: usize) -> bool {
        let Some(slots) = self.slots_ahead.get(depth) else { return false };
        let most: u64 = left.iter().zip(slots).map(|(left, slots)| u64::from(*left).min(*slots)).sum();
        placed as u64 + most >= self.required as u64 && !self.failed.contains(&(depth, left.to_vec()))
    }

    /// Every fill of a node that leaves no capacity for any remaining pod; `None` when the budget is spent.
    fn maximal_fills(&mut self, node: NodeIndex, left: &[u32]) -> Option<Vec<Vec<u32>>> {
        let mut fills = Vec::new();
        let mut current = Vec::with_capacity(left.len());
        self.extend_fill(node, left, &mut current, &mut fills).then_some(fills)
    }

    fn extend_fill(
        &mut self,
        node: NodeIndex,
        left: &[u32],
        current: &mut Vec<u32>,
        fills: &mut Vec<Vec<u32>>,
    ) -> bool {
        if !self.budget.spend_step() {
            return false;
        }
        let class = current.len();
        if class == left.len() {
            let is_maximal = (0..class).all(|class| current[class] == left[class] || self.slots(class, node) == 0);
            if is_maximal {
                fills.push(current.clone());
            }
            return true;
        }
        let len = self.overlay.len();
        let most = self.slots(class, node).min(left[class]);
        let usage = Arc::clone(&self.classes[class].usage);
        (0..most).for_each(|_| self.overlay.place(node, &usage));
        let mut has_budget = true;
        for count in (0..=most).rev() {
            self.overlay.rollback_to(len + count as usize);
            current.push(count);
            has_budget = has_budget && self.extend_fill(node, left, current, fills);
            current.pop();
        }
        self.overlay.rollback_to(len);
        has_budget
    }

    fn slots(&self, class: usize, node: NodeIndex) -> u32 {
        self.plugins[class].slots(&self.classes[class], node, self.overlay.cluster(), LoadAssumption::Now)
    }

    fn placement(&self, path: &[SearchNode]) -> UnitPlacement {
        let mut assignments = Vec::with_capacity(self.required);
        for (step, node) in path.iter().zip(&self.nodes) {
            for (class, count) in step.current.iter().enumerate() {
                assignments.extend((0..*count).map(|_| (class, *node)));
            }
        }
        UnitPlacement { assignments, unplaced_class: None }
    }
}
