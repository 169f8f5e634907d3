//! Searches for a placement of pods of several classes, and proves when there is none.
//!
//! Placing class by class, each pod on its best node, can miss a placement that exists. With half of the budget the pods
//! are packed by size, which is quick. What follows cannot miss a placement, within its budget: node by node it tries every fill of the node that leaves no capacity for a further pod. Other fills
//! need not be tried, because the slots of counted filters never increase: a pod that also fits on this node can be
//! moved here.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::cluster::{NodeIndex, PlacementOverlay, ResourceId};
use crate::demand::classes::{Class, Classes};
use crate::demand::{ClassCount, Demand};
use crate::placement::domains::Region;
use crate::placement::packing::{PackingClass, PackingNode, PackingProblem};
use crate::placement::place::UnitPlacement;
use crate::plugins::Plugins;
use crate::plugins::filters::LoadAssumption;

/// The least number of steps for one region, so that many regions do not leave too few for each.
const MIN_REGION_STEPS: usize = 200;

/// How many search steps one decision has left.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    steps_left: usize,
}

impl SearchBudget {
    pub(crate) fn of(steps: usize) -> SearchBudget {
        SearchBudget { steps_left: steps }
    }

    /// Whether any step is left.
    pub(crate) fn has_steps(&self) -> bool {
        self.steps_left > 0
    }

    /// Splits off the steps for one region, of which `regions_count` are left to search. A hard region thus leaves steps
    /// for those after it.
    pub(crate) fn split(&mut self, regions_count: usize) -> SearchBudget {
        let share = (self.steps_left / regions_count.max(1)).max(MIN_REGION_STEPS).min(self.steps_left);
        self.steps_left -= share;
        SearchBudget::of(share)
    }

    /// Splits off the least number of steps for one region.
    pub(crate) fn split_least(&mut self) -> SearchBudget {
        self.split(usize::MAX)
    }

    /// Splits off half of the steps.
    fn split_half(&mut self) -> SearchBudget {
        let half = self.steps_left / 2;
        self.steps_left -= half;
        SearchBudget::of(half)
    }

    /// Takes back what a region did not use.
    pub(crate) fn merge(&mut self, rest: SearchBudget) {
        self.steps_left += rest.steps_left;
    }

    /// Spends some steps; false when there are fewer left.
    fn spend_steps(&mut self, count: usize) -> bool {
        let has_steps = self.steps_left >= count;
        self.steps_left = self.steps_left.saturating_sub(count);
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
    let pods: Vec<u32> = demand.class_counts.iter().map(|class_count| class_count.count as u32).collect();
    let mut search = Search {
        required: demand.required_count(),
        plugins: demand.class_counts.iter().map(|count| Arc::clone(classes.plugins(&class_of(count)))).collect(),
        classes: demand.class_counts.iter().map(class_of).collect(),
        slots_ahead: slots_ahead(&nodes),
        nodes: nodes.iter().map(|(node, _)| *node).collect(),
        failed: FxHashSet::default(),
        overlay,
        budget,
    };
    match search.pack(nodes, &pods) {
        Some(placement) => SearchResult::Found(placement),
        None => search.run(pods),
    }
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
    /// The fill that is being tried, as a number of pods per class; `None` before the first one. Its pods are in the
    /// overlay, class by class.
    fill: Option<Vec<u32>>,
    /// The length of the overlay before this node.
    overlay_len: usize,
}

/// What became of the search for the next fill of a node.
enum NextFill {
    /// The fill is placed.
    Placed,
    /// All fills were tried.
    Exhausted,
    /// The budget is spent.
    OutOfBudget,
}

impl Search<'_, '_> {
    /// Packs the required number of pods, the smallest ones. Plugins that count anything else than requests may refuse
    /// the result, and then nothing is placed.
    fn pack(&mut self, nodes: Vec<(NodeIndex, Vec<u32>)>, pods: &[u32]) -> Option<UnitPlacement> {
        let start = self.overlay.len();
        let problem = self.packing_problem(nodes, pods);
        let mut budget = self.budget.split_half();
        let fills = problem.pack(|steps| budget.spend_steps(steps));
        self.budget.merge(budget);
        let fills = fills?;
        let mut assignments = Vec::with_capacity(self.required);
        for (node, fill) in std::iter::zip(self.nodes.clone(), fills) {
            for (class, count) in fill.into_iter().enumerate().filter(|(_, count)| *count > 0) {
                if self.slots(class, node) < count {
                    self.overlay.rollback_to(start);
                    return None;
                }
                let usage = Arc::clone(&self.classes[class].usage);
                (0..count).for_each(|_| self.overlay.place(node, &usage));
                assignments.extend((0..count).map(|_| (class, node)));
            }
        }
        Some(UnitPlacement { assignments, unplaced_class: None })
    }

    /// The nodes, and the pods to pack, as plain numbers.
    fn packing_problem(&self, nodes: Vec<(NodeIndex, Vec<u32>)>, pods: &[u32]) -> PackingProblem {
        let cluster = self.overlay.cluster();
        let requests = self.classes.iter().flat_map(|class| &class.usage.requests);
        let resources: BTreeSet<ResourceId> = requests.map(|(resource, _)| *resource).collect();
        let amounts = |pods: i64, amount_of: &dyn Fn(ResourceId) -> i64| {
            resources.iter().map(|resource| amount_of(*resource)).chain([pods]).collect()
        };
        let node = |(node, slots)| PackingNode {
            free: amounts(cluster.free_pod_slots(node), &|resource| cluster.free(resource, node)),
            slots,
        };
        let mut missing = self.required as u32;
        let classes = std::iter::zip(&self.classes, pods).rev().map(|(class, count)| {
            let count = missing.min(*count);
            missing -= count;
            PackingClass { requests: amounts(1, &|resource| class.usage.requested(resource)), count }
        });
        let mut classes: Vec<PackingClass> = classes.collect();
        classes.reverse();
        PackingProblem { nodes: nodes.into_iter().map(node).collect(), classes }
    }

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
                path.push(SearchNode { left, fill: None, overlay_len: self.overlay.len() });
            }
            // The next untried fill, at this node or the last one before it that has any.
            left = loop {
                let depth = path.len();
                let Some(step) = path.last_mut() else { return SearchResult::Impossible };
                match self.next_fill(self.nodes[depth - 1], step) {
                    NextFill::Placed => {
                        let fill = step.fill.iter().flatten();
                        break step.left.iter().zip(fill).map(|(left, count)| left - count).collect();
                    }
                    NextFill::Exhausted => {
                        let step = path.pop().expect("the path is not empty");
                        self.overlay.rollback_to(step.overlay_len);
                        self.failed.insert((depth - 1, step.left));
                    }
                    NextFill::OutOfBudget => {
                        self.overlay.rollback_to(start);
                        return SearchResult::GaveUp;
                    }
                }
            };
        }
    }

    /// Whether enough pods may still fit on the nodes from `depth` on, by the sums and the failed states.
    fn could_reach(&self, depth: usize, left: &[u32], placed: usize) -> bool {
        let Some(slots) = self.slots_ahead.get(depth) else { return false };
        let most: u64 = left.iter().zip(slots).map(|(left, slots)| u64::from(*left).min(*slots)).sum();
        placed as u64 + most >= self.required as u64 && !self.failed.contains(&(depth, left.to_vec()))
    }

    /// Places the next fill of a node that leaves no capacity for any remaining pod. Fills are made one at a time, those
    /// with most pods of the first class first: a node of a large class may have thousands.
    fn next_fill(&mut self, node: NodeIndex, step: &mut SearchNode) -> NextFill {
        let classes_count = self.classes.len();
        loop {
            if !self.budget.spend_steps(1) {
                return NextFill::OutOfBudget;
            }
            let (mut fill, first) = match step.fill.take() {
                None => (vec![0; classes_count], 0),
                Some(mut fill) => {
                    // With fewer pods of the last class alone, one of them would still fit.
                    fill[classes_count - 1] = 0;
                    let Some(lowered) = fill.iter().rposition(|count| *count > 0) else { return NextFill::Exhausted };
                    fill[lowered] -= 1;
                    (fill, lowered + 1)
                }
            };
            let kept: u32 = fill[..first].iter().sum();
            self.overlay.rollback_to(step.overlay_len + kept as usize);
            for (class, count) in fill.iter_mut().enumerate().skip(first) {
                *count = self.slots(class, node).min(step.left[class]);
                let usage = Arc::clone(&self.classes[class].usage);
                (0..*count).for_each(|_| self.overlay.place(node, &usage));
            }
            let is_maximal =
                (0..classes_count).all(|class| fill[class] == step.left[class] || self.slots(class, node) == 0);
            // All pods of the later classes are placed. With still fewer pods of this class, one of it would still fit.
            if !is_maximal && first > 0 && (first..classes_count).all(|class| fill[class] == step.left[class]) {
                fill[first - 1] = 0;
            }
            step.fill = Some(fill);
            if is_maximal {
                return NextFill::Placed;
            }
        }
    }

    fn slots(&self, class: usize, node: NodeIndex) -> u32 {
        let (plugins, cluster) = (&self.plugins[class], self.overlay.cluster());
        plugins.slots(&self.classes[class], node, cluster, LoadAssumption::Now)
    }

    fn placement(&self, path: &[SearchNode]) -> UnitPlacement {
        let mut assignments = Vec::with_capacity(self.required);
        for (step, node) in path.iter().zip(&self.nodes) {
            for (class, count) in step.fill.iter().flatten().enumerate() {
                assignments.extend((0..*count).map(|_| (class, *node)));
            }
        }
        UnitPlacement { assignments, unplaced_class: None }
    }
}
