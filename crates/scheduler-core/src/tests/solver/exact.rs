//! An exact solver for one case: every way to fill every node, with memory of what failed.
//!
//! It shares no code and no rule with the search of the core. In particular it also tries fills that leave capacity
//! for a further pod.

use std::collections::HashSet;

use super::case::{Amounts, SolverCase, SolverClass, SolverNode};

/// Whether `minCount` pods of the gang fit together.
pub(super) fn fits(case: &SolverCase) -> bool {
    case.regions().into_iter().any(|nodes| {
        let mut solver = ExactSolver { classes: &case.classes, nodes, failed: HashSet::new() };
        let mut left = CountsLeft::default();
        case.classes.iter().zip(&mut left).for_each(|(class, left)| *left = class.count as u8);
        solver.places(0, left, case.min_count)
    })
}

/// How many pods of each class are left.
type CountsLeft = [u8; 6];

struct ExactSolver<'a> {
    classes: &'a [SolverClass],
    nodes: Vec<&'a SolverNode>,
    /// The node and the pods left of each class, from which too few can be placed. How many are wanted follows from
    /// how many are left.
    failed: HashSet<(usize, CountsLeft)>,
}

impl ExactSolver<'_> {
    /// Whether `wanted` of the pods that are left can be placed on the nodes from `at` on.
    fn places(&mut self, at: usize, left: CountsLeft, wanted: usize) -> bool {
        if wanted == 0 {
            return true;
        }
        let left_count: usize = left.iter().map(|count| usize::from(*count)).sum();
        if at == self.nodes.len() || left_count < wanted || self.failed.contains(&(at, left)) {
            return false;
        }
        let (free, pods) = self.nodes[at].free();
        let found = self.fills(at, 0, left, wanted, (free, pods));
        if !found {
            self.failed.insert((at, left));
        }
        found
    }

    /// The same after some pods of the classes before `class` were placed on the node, with what it has free now.
    fn fills(
        &mut self,
        at: usize,
        class: usize,
        mut left: CountsLeft,
        wanted: usize,
        (mut free, mut pods): (Amounts, i64),
    ) -> bool {
        if class == self.classes.len() {
            return self.places(at + 1, left, wanted);
        }
        let requests = self.classes[class].requests;
        let allowed = self.nodes[at].allows(&self.classes[class]);
        let mut placed = 0;
        // As many as fit first: most placements are found with few tries.
        while allowed && left[class] > 0 && pods > 0 && fits_into(&requests, &free) {
            (0..free.len()).for_each(|resource| free[resource] -= requests[resource]);
            (left[class], pods, placed) = (left[class] - 1, pods - 1, placed + 1);
        }
        loop {
            if self.fills(at, class + 1, left, wanted.saturating_sub(placed), (free, pods)) {
                return true;
            }
            if placed == 0 {
                return false;
            }
            (0..free.len()).for_each(|resource| free[resource] += requests[resource]);
            (left[class], pods, placed) = (left[class] + 1, pods + 1, placed - 1);
        }
    }
}

/// A resource that is not requested may be over-committed.
fn fits_into(requests: &Amounts, free: &Amounts) -> bool {
    requests.iter().zip(free).all(|(requested, free)| *requested == 0 || requested <= free)
}
