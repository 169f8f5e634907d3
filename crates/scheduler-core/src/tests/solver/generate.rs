//! Generated cases: small ones for the exact solver, and larger ones in which a placement is planted.

use types::Random;

use super::case::{Amounts, SolverCase, SolverClass, SolverNode};

/// A number in a range, both ends included.
fn between(random: &Random, least: i64, most: i64) -> i64 {
    least + random.below((most - least + 1) as u64) as i64
}

fn chance(random: &Random, percent: u64) -> bool {
    random.below(100) < percent
}

/// At most 8 nodes and 16 pods of at most 5 sizes. In half of the cases the pods fill nodes as full as they can, and
/// there may be one pod more; in the others the gang requests 60 to 110 % of what its largest region has free.
pub(super) fn small_case(random: &Random) -> SolverCase {
    let mut case = SolverCase { in_rack: chance(random, 40), ..SolverCase::default() };
    let (has_memory, has_gpus, is_plain) = (chance(random, 60), chance(random, 50), chance(random, 60));
    for _ in 0..between(random, 1, 8) {
        let memory = if has_memory { between(random, 8, 32) } else { 64 };
        let gpus = if has_gpus { 4 * between(random, 0, 2) } else { 0 };
        let mut node = SolverNode {
            allocatable: [between(random, 4, 12), memory, gpus],
            pods: if chance(random, 80) { 110 } else { between(random, 2, 5) },
            rack: (!chance(random, 5)).then(|| random.below(3)),
            disk: random.below(2),
            tainted: !is_plain && chance(random, 20),
            bound: Vec::new(),
        };
        for _ in 0..random.below(3).min(node.pods as u64) {
            node.bound.push([between(random, 0, 2), between(random, 0, 4), between(random, 0, gpus / 4)]);
        }
        case.nodes.push(node);
    }
    for _ in 0..between(random, 1, 5) {
        case.classes.push(SolverClass {
            requests: [
                between(random, 1, 7),
                if has_memory { between(random, 1, 12) } else { 0 },
                if has_gpus { between(random, 0, 4) } else { 0 },
            ],
            count: 0,
            tolerates: is_plain || chance(random, 70),
            disk: (!is_plain && chance(random, 20)).then(|| random.below(2)),
        });
    }
    if chance(random, 50) {
        add_pods_that_fill_nodes(&mut case, random);
    } else {
        add_pods_by_share(&mut case, random);
    }
    let count = case.pods_count() as i64;
    case.min_count = if chance(random, 60) { count } else { between(random, count / 2, count) } as usize;
    case
}

/// The pods have a placement, except for one more that there may be.
fn add_pods_that_fill_nodes(case: &mut SolverCase, random: &Random) {
    let rack = case.nodes[0].rack;
    let nodes: Vec<SolverNode> = case.nodes.iter().filter(|node| !case.in_rack || node.rack == rack).cloned().collect();
    for node in &nodes {
        let most_pods = 16 - case.pods_count();
        fill(&mut case.classes, node, most_pods, 100, random);
    }
    while case.pods_count() < 2 || (case.pods_count() < 16 && chance(random, 30)) {
        add_pod(case, random);
    }
}

fn add_pod(case: &mut SolverCase, random: &Random) {
    let at = random.below(case.classes.len() as u64) as usize;
    case.classes[at].count += 1;
}

fn add_pods_by_share(case: &mut SolverCase, random: &Random) {
    let free_cpu = |nodes: &Vec<&SolverNode>| nodes.iter().map(|node| node.free().0[0]).sum::<i64>();
    let wanted = case.regions().iter().map(free_cpu).max().unwrap_or(0) * between(random, 60, 110) / 100;
    let requested =
        |case: &SolverCase| case.classes.iter().map(|class| class.requests[0] * class.count as i64).sum::<i64>();
    while case.pods_count() < 2 || (requested(case) < wanted && case.pods_count() < 16) {
        add_pod(case, random);
    }
}

/// 8 to 64 nodes and a gang with a placement on them: each node is filled with pods of the gang, in random order, until
/// `fill_percent` of its CPUs are used or no pod fits. All pods must be placed.
pub(super) fn planted_case(random: &Random, fill_percent: i64) -> SolverCase {
    let has_memory = chance(random, 50);
    let sizes = between(random, 2, 6);
    let class = |_| {
        let memory = if has_memory { between(random, 1, 16) } else { 0 };
        SolverClass { requests: [between(random, 1, 9), memory, 0], tolerates: true, ..SolverClass::default() }
    };
    let mut case =
        SolverCase { classes: (0..sizes).map(class).collect(), in_rack: chance(random, 30), ..SolverCase::default() };
    let shapes: Vec<Amounts> = (0..between(random, 1, 2)).map(|_| [between(random, 9, 24), 32, 0]).collect();
    let nodes_count = between(random, 8, 64);
    for at in 0..nodes_count {
        let allocatable = shapes[random.below(shapes.len() as u64) as usize];
        // The first rack has the placement; in the others a little is used.
        let rack = if case.in_rack { at as u64 * 4 / nodes_count as u64 } else { 0 };
        let bound = if rack == 0 { Vec::new() } else { vec![[between(random, 1, 3), 0, 0]] };
        let node = SolverNode { allocatable, pods: 110, rack: Some(rack), disk: 0, tainted: false, bound };
        if rack == 0 {
            fill(&mut case.classes, &node, usize::MAX, fill_percent, random);
        }
        case.nodes.push(node);
    }
    case.min_count = case.pods_count();
    case
}

/// Counts pods of random classes that fit on the node together.
fn fill(classes: &mut [SolverClass], node: &SolverNode, most_pods: usize, fill_percent: i64, random: &Random) {
    let (mut free, mut pods) = node.free();
    let most_free = node.allocatable[0] * (100 - fill_percent) / 100;
    pods = pods.min(i64::try_from(most_pods).unwrap_or(i64::MAX));
    while pods > 0 && free[0] > most_free {
        let fits = |class: &SolverClass| {
            let amounts = class.requests.iter().zip(&free);
            node.allows(class) && amounts.into_iter().all(|(requested, free)| *requested == 0 || requested <= free)
        };
        let fitting: Vec<usize> = (0..classes.len()).filter(|at| fits(&classes[*at])).collect();
        if fitting.is_empty() {
            return;
        }
        let class = &mut classes[fitting[random.below(fitting.len() as u64) as usize]];
        class.count += 1;
        pods -= 1;
        free.iter_mut().zip(&class.requests).for_each(|(free, requested)| *free -= requested);
    }
}
