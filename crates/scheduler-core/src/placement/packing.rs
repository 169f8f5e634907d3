//! Packs pods of several classes by what they request: a quick attempt that proves nothing.
//!
//! In: what each node has free, and how many pods of each class to place, as plain numbers. Out: how many pods of each
//! class each node gets, if all have a place. In each round the nodes are filled one after the other, each with the
//! most valuable fill. A class with pods left is worth more in the next round.

/// Fills of one node that a round compares at most.
const MAX_FILLS: u32 = 256;
/// Fills that are compared in one step of the search.
const FILLS_PER_STEP: u32 = 32;
/// The size of the largest pod.
const LARGEST_SIZE: u64 = 1_000_000;
/// The value of a pod is its size, times its boost in these parts.
const NEUTRAL_BOOST: u64 = 1 << 10;
const MAX_BOOST: u64 = 1 << 16;

/// What is to be packed.
#[derive(Debug)]
pub(crate) struct PackingProblem {
    pub(crate) nodes: Vec<PackingNode>,
    pub(crate) classes: Vec<PackingClass>,
}

/// A node, before anything is packed.
#[derive(Clone, Debug)]
pub(crate) struct PackingNode {
    /// What is free of each resource. The number of pods is one of them.
    pub(crate) free: Vec<i64>,
    /// How many pods of each class it takes at most.
    pub(crate) slots: Vec<u32>,
}

/// Equal pods.
#[derive(Clone, Debug)]
pub(crate) struct PackingClass {
    /// What one pod requests of each resource.
    pub(crate) requests: Vec<i64>,
    /// How many are to be placed.
    pub(crate) count: u32,
}

/// The number of pods of each class on one node.
pub(crate) type NodeFill = Vec<u32>;

impl PackingProblem {
    /// The fill of each node, or `None` if no round placed all pods within the steps.
    pub(crate) fn pack(&self, mut spend_steps: impl FnMut(usize) -> bool) -> Option<Vec<NodeFill>> {
        if self.requests_too_much() {
            return None;
        }
        let sizes = self.sizes();
        // Of two fills of one size, the one with larger pods is taken: small ones fill gaps later.
        let mut boosts: Vec<u64> = sizes.iter().map(|size| NEUTRAL_BOOST + size / (LARGEST_SIZE / 32)).collect();
        for round in 0.. {
            if !spend_steps(1) {
                break;
            }
            let values = std::iter::zip(&sizes, &boosts).enumerate();
            let values = values.map(|(class, (size, boost))| size * (boost + variation(round, class as u64)));
            let mut fill_round = FillRound::of(self, values.collect());
            let mut fills = vec![NodeFill::new(); self.nodes.len()];
            for number in 0..self.nodes.len() {
                let at = if round % 2 == 0 { number } else { self.nodes.len() - 1 - number };
                fills[at] = fill_round.fill_node(&self.nodes[at]);
                if fill_round.left.iter().all(|left| *left == 0) {
                    return Some(fills);
                }
                if !spend_steps(fill_round.steps_count()) {
                    return None;
                }
            }
            for ((boost, class), left) in boosts.iter_mut().zip(&self.classes).zip(&fill_round.left) {
                let share = NEUTRAL_BOOST / 8 * u64::from(*left) / u64::from(class.count.max(1));
                *boost = (*boost + share + u64::from(*left > 0) * NEUTRAL_BOOST / 32).min(MAX_BOOST);
            }
        }
        None
    }

    /// Whether the pods request more of a resource than all nodes have free.
    fn requests_too_much(&self) -> bool {
        let resources = self.nodes.first().map_or(0, |node| node.free.len());
        (0..resources).any(|resource| {
            let free: i128 = self.nodes.iter().map(|node| i128::from(node.free[resource].max(0))).sum();
            let requested = |class: &PackingClass| i128::from(class.requests[resource]) * i128::from(class.count);
            self.classes.iter().map(requested).sum::<i128>() > free
        })
    }

    /// The size of a pod of each class: its shares of what is free, with more weight on scarce resources.
    fn sizes(&self) -> Vec<u64> {
        let resources = self.nodes.first().map_or(0, |node| node.free.len());
        let weights: Vec<f64> = (0..resources)
            .map(|resource| {
                let free: f64 = self.nodes.iter().map(|node| node.free[resource].max(0) as f64).sum();
                let requested: f64 =
                    self.classes.iter().map(|class| class.requests[resource] as f64 * f64::from(class.count)).sum();
                requested / (free * free).max(1.0)
            })
            .collect();
        let size = |class: &PackingClass| -> f64 {
            std::iter::zip(&class.requests, &weights).map(|(requested, weight)| *requested as f64 * weight).sum()
        };
        let largest = self.classes.iter().map(size).fold(f64::MIN_POSITIVE, f64::max);
        self.classes.iter().map(|class| ((size(class) / largest * LARGEST_SIZE as f64) as u64).max(1)).collect()
    }
}

/// A small number that differs between rounds and classes, so that rounds do not repeat each other.
fn variation(round: u64, class: u64) -> u64 {
    let mixed = (round * 31 + class).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    if round < 2 { 0 } else { mixed }
}

/// One round.
struct FillRound<'a> {
    packing: &'a PackingProblem,
    /// What a pod of each class is worth.
    values: Vec<u64>,
    /// The classes, the most valuable first.
    order: Vec<usize>,
    left: Vec<u32>,
    /// Fills compared on the current node.
    fills_count: u32,
    free: Vec<i64>,
    fill: NodeFill,
    best: (u64, NodeFill),
}

impl<'a> FillRound<'a> {
    fn of(packing: &'a PackingProblem, values: Vec<u64>) -> FillRound<'a> {
        let classes = packing.classes.len();
        let mut order: Vec<usize> = (0..classes).collect();
        order.sort_by_key(|class| (std::cmp::Reverse(values[*class]), *class));
        FillRound {
            packing,
            values,
            order,
            left: packing.classes.iter().map(|class| class.count).collect(),
            fills_count: 0,
            free: Vec::new(),
            fill: vec![0; classes],
            best: (0, vec![0; classes]),
        }
    }

    /// Takes the most valuable fill of a node that was found.
    fn fill_node(&mut self, node: &PackingNode) -> NodeFill {
        self.free.clone_from(&node.free);
        self.fills_count = 0;
        self.best = (0, vec![0; self.fill.len()]);
        self.try_fills(node, 0, 0);
        let fill = std::mem::take(&mut self.best.1);
        self.left.iter_mut().zip(&fill).for_each(|(left, count)| *left -= count);
        fill
    }

    /// Tries all numbers of pods of the class at this position and of those after it.
    fn try_fills(&mut self, node: &PackingNode, position: usize, value: u64) {
        let Some(class) = self.order.get(position).copied() else {
            self.fills_count += 1;
            if value > self.best.0 {
                self.best.0 = value;
                self.best.1.clone_from(&self.fill);
            }
            return;
        };
        let requests = &self.packing.classes[class].requests;
        let most = std::iter::zip(requests, &self.free)
            .filter(|(requested, _)| **requested > 0)
            .map(|(requested, free)| free.max(&0) / requested)
            .min()
            .map_or(u32::MAX, |slots| u32::try_from(slots).unwrap_or(u32::MAX))
            .min(self.left[class])
            .min(node.slots[class]);
        for count in (0..=most).rev() {
            let value = value + u64::from(count) * self.values[class];
            if self.fills_count >= MAX_FILLS || value + self.most_value_after(node, position) <= self.best.0 {
                return;
            }
            self.fill[class] = count;
            self.take(class, i64::from(count));
            self.try_fills(node, position + 1, value);
            self.take(class, -i64::from(count));
            self.fill[class] = 0;
        }
    }

    /// What pods of the classes after this position add at most.
    fn most_value_after(&self, node: &PackingNode, position: usize) -> u64 {
        let after = self.order[position + 1..].iter();
        after.map(|class| u64::from(self.left[*class].min(node.slots[*class])) * self.values[*class]).sum()
    }

    fn take(&mut self, class: usize, count: i64) {
        let requests = &self.packing.classes[class].requests;
        self.free.iter_mut().zip(requests).for_each(|(free, requested)| *free -= requested * count);
    }

    /// The steps that the last node took.
    fn steps_count(&self) -> usize {
        1 + (self.fills_count / FILLS_PER_STEP) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods of each class on each node: one resource, nodes of these sizes, classes as size and count.
    fn pack(nodes: &[i64], classes: &[(i64, u32)], mut steps: usize) -> Option<Vec<NodeFill>> {
        let node = |free: &i64| PackingNode { free: vec![*free, 110], slots: vec![110; classes.len()] };
        let class = |(size, count): &(i64, u32)| PackingClass { requests: vec![*size, 1], count: *count };
        let packing =
            PackingProblem { nodes: nodes.iter().map(node).collect(), classes: classes.iter().map(class).collect() };
        packing.pack(|count| {
            let has_steps = steps >= count;
            steps = steps.saturating_sub(count);
            has_steps
        })
    }

    #[test]
    fn nodes_are_filled_without_a_gap() {
        assert_eq!(pack(&[6, 6], &[(3, 2), (2, 3)], 100), Some(vec![vec![2, 0], vec![0, 3]]));
    }

    #[test]
    fn a_class_with_pods_left_is_packed_earlier_in_the_next_round() {
        // The first round fills the first node with 4 + 4 + 2 and has no place for the second pod of 5.
        let classes = [(5, 2), (4, 2), (2, 1)];
        let fills = pack(&[10, 10], &classes, 1000).expect("5 + 5 and 4 + 4 + 2");
        for (class, (_, count)) in classes.iter().enumerate() {
            assert_eq!(fills.iter().map(|fill| fill[class]).sum::<u32>(), *count);
        }
    }

    #[test]
    fn packing_ends_with_its_steps() {
        assert_eq!(pack(&[6, 6], &[(4, 3)], 1_000), None, "by size they fit, and none of 10 rounds places the third");
        assert_eq!(pack(&[6, 6], &[(3, 2), (2, 3)], 1), None);
        assert_eq!(pack(&[6, 6], &[(7, 2)], usize::MAX), None, "more is requested than is free");
        assert_eq!(pack(&[], &[(1, 1)], 1), None);
    }
}
