//! Whose end would make room.
//!
//! What a unit's end would free is first reckoned from requests alone, which touches nothing; those who free most are
//! chosen until it should be enough. Then they are taken off in earnest and the decision is tried; whoever can be spared
//! afterwards is.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{RemedyRequest, SearchContext};
use crate::classes::Class;
use crate::cluster::{Cluster, DomainId, NodeIndex, ResourceId};
use crate::cycle::Trial;
use crate::demand::Demand;
use crate::removal_overlay::RemovalOverlay;
use crate::reservation::ClassSlots;
use crate::slots::Region;

/// How many domains are looked at, those that lack least first.
const MAX_DOMAINS: usize = 8;
/// How many running units are looked at in one of them.
const MAX_UNITS: usize = 2000;
/// How many of them may have to leave; a longer list helps nobody.
const MAX_BLOCKERS: usize = 32;

/// Who would have to leave.
#[derive(Debug)]
pub(crate) struct BlockerPlan {
    /// Places in the list of what runs.
    pub(crate) blockers: Vec<usize>,
    pub(crate) region: Region,
}

/// The fewest units that are found to be enough; of equally many those with fewer pods.
pub(super) fn plan(asked: &RemedyRequest<'_>, desk: &mut SearchContext<'_>) -> Option<BlockerPlan> {
    let need = asked.demand;
    let rooms: Vec<ClassSlots> =
        need.class_counts.iter().map(|lot| ClassSlots::of(lot.class, desk.cluster, desk.classes)).collect();
    let cost = |plan: &BlockerPlan| {
        let pods = plan.blockers.iter().map(|at| asked.running[*at].placed.len()).sum::<usize>();
        (plan.blockers.len(), pods)
    };
    let mut best: Option<BlockerPlan> = None;
    for region in regions(need, &rooms, desk) {
        let Some(plan) = plan_in_region(asked, region, &rooms, desk) else { continue };
        if best.as_ref().is_none_or(|best| cost(&plan) < cost(best)) {
            best = Some(plan);
        }
    }
    best
}

/// Where the unit would fit if all pods left, the nearest to that first.
fn regions(demand: &Demand, rooms: &[ClassSlots], desk: &mut SearchContext<'_>) -> Vec<Region> {
    let Some(constraint) = &demand.constraint else {
        let when_empty = |(lot, rooms): (&crate::demand::ClassCount, &ClassSlots)| {
            rooms.when_empty.iter().map(|slots| u64::from(*slots)).sum::<u64>().min(lot.count as u64)
        };
        let fits = demand.class_counts.iter().zip(rooms).map(when_empty).sum::<u64>() >= demand.required_count() as u64;
        return if fits { vec![Region::Everywhere] } else { Vec::new() };
    };
    let topology = desk.cluster.topology(constraint.topology);
    let fits = |domain: DomainId, slots: &dyn Fn(&ClassSlots, NodeIndex) -> u32| -> u64 {
        let of_lot = |(lot, rooms): (&crate::demand::ClassCount, &ClassSlots)| {
            let sum: u64 = topology.nodes(domain).iter().map(|node| u64::from(slots(rooms, *node))).sum();
            sum.min(lot.count as u64)
        };
        demand.class_counts.iter().zip(rooms).map(of_lot).sum()
    };
    let allowed = |domain: &DomainId| {
        let pinned = &constraint.member_domains;
        (pinned.is_empty() || pinned.contains(domain))
            && fits(*domain, &|rooms, node| rooms.when_empty[node.at()]) >= demand.required_count() as u64
    };
    let mut domains: Vec<DomainId> = topology.domains().filter(allowed).collect();
    domains.sort_by_cached_key(|domain| {
        let value = Arc::clone(desk.cluster.names.text(topology.value(*domain)));
        (Reverse(fits(*domain, &|rooms, node| rooms.now[node.at()])), value)
    });
    desk.truncated |= domains.len() > MAX_DOMAINS;
    domains.into_iter().take(MAX_DOMAINS).map(|domain| Region::Domain(constraint.topology, domain)).collect()
}

fn plan_in_region(
    asked: &RemedyRequest<'_>,
    region: Region,
    rooms: &[ClassSlots],
    desk: &mut SearchContext<'_>,
) -> Option<BlockerPlan> {
    let need = asked.demand;
    let mut candidates = candidates(asked, region, desk);
    let class_of = |lot: &crate::demand::ClassCount| desk.classes.get(lot.class).map(Arc::clone);
    let classes: Vec<Arc<Class>> = need.class_counts.iter().map(class_of).collect::<Option<_>>()?;
    let mut outlook = CapacityForecast::of(need, region, &classes, rooms, desk.cluster);
    let mut leaving: Vec<usize> = Vec::new();
    while leaving.len() < MAX_BLOCKERS {
        let missing = outlook.missing();
        let gain = |one: &BlockerCandidate| outlook.gain(one, desk.cluster).min(missing.max(1));
        let gains = candidates.iter().enumerate().map(|(at, one)| (gain(one), Reverse(one.pods_count), Reverse(at)));
        // Units that make no difference by themselves are chosen only where the reckoning went wrong.
        let (gain, _, Reverse(chosen)) = gains.max()?;
        if gain == 0 && missing > 0 {
            return None;
        }
        let chosen = candidates.swap_remove(chosen);
        outlook.remove_unit(&chosen, desk.cluster);
        leaving.push(chosen.at);
        if outlook.missing() == 0 && fits_without(&leaving, asked, region, desk)? {
            drop_unneeded(&mut leaving, asked, region, desk);
            leaving.sort_unstable();
            return Some(BlockerPlan { blockers: leaving, region });
        }
    }
    desk.truncated = true;
    None
}

/// Drops from the list whoever need not leave, those with the most pods first.
fn drop_unneeded(leaving: &mut Vec<usize>, asked: &RemedyRequest<'_>, region: Region, desk: &mut SearchContext<'_>) {
    if leaving.len() == 1 {
        return;
    }
    let mut dearest = leaving.clone();
    dearest.sort_by_key(|at| (Reverse(asked.running[*at].placed.len()), *at));
    for one in dearest {
        let others: Vec<usize> = leaving.iter().copied().filter(|at| *at != one).collect();
        match fits_without(&others, asked, region, desk) {
            Some(true) => *leaving = others,
            Some(false) => {}
            None => return,
        }
    }
}

/// Whether the unit fits into the region when these have left; `None` when there were enough trials.
fn fits_without(
    leaving: &[usize],
    asked: &RemedyRequest<'_>,
    region: Region,
    desk: &mut SearchContext<'_>,
) -> Option<bool> {
    let mut need = asked.demand.clone();
    if let (Some(constraint), Region::Domain(_, domain)) = (&mut need.constraint, region) {
        constraint.member_domains = vec![domain];
    }
    let gone = leaving.iter().flat_map(|at| &asked.running[*at].placed);
    let mut absence = RemovalOverlay::of(gone, desk.cluster);
    let mut there = SearchContext {
        cluster: absence.cluster(),
        classes: desk.classes,
        trials_left: desk.trials_left,
        max_steps: desk.max_steps,
        truncated: desk.truncated,
    };
    let trial = there.try_decide(&need);
    (desk.trials_left, desk.truncated) = (there.trials_left, there.truncated);
    trial.map(|trial| matches!(trial, Trial::Fits(_)))
}

/// A running unit with pods in the region.
struct BlockerCandidate {
    /// Its place in the list of what runs.
    at: usize,
    pods_count: usize,
    usage_by_node: BTreeMap<NodeIndex, NodeLoad>,
}

/// What a unit takes from one node.
#[derive(Clone, Default)]
struct NodeLoad {
    requests: FxHashMap<ResourceId, i64>,
    pods: i64,
}

fn candidates(asked: &RemedyRequest<'_>, region: Region, desk: &mut SearchContext<'_>) -> Vec<BlockerCandidate> {
    let mut candidates = Vec::new();
    for (at, unit) in asked.running.iter().enumerate().filter(|(_, running)| running.unit != asked.unit) {
        let mut loads: BTreeMap<NodeIndex, NodeLoad> = BTreeMap::new();
        for (node, usage) in unit.placed.iter().filter(|(node, _)| region.contains(*node, desk.cluster)) {
            let load = loads.entry(*node).or_default();
            load.pods += 1;
            usage.requests.iter().for_each(|(resource, amount)| load.add_amount(*resource, *amount));
        }
        if loads.is_empty() {
            continue;
        }
        if candidates.len() == MAX_UNITS {
            desk.truncated = true;
            break;
        }
        candidates.push(BlockerCandidate { at, pods_count: unit.placed.len(), usage_by_node: loads });
    }
    candidates
}

/// What the region would look like with some gone, as requests tell.
struct CapacityForecast<'a> {
    demand: &'a Demand,
    classes: &'a [Arc<Class>],
    slots: &'a [ClassSlots],
    /// Slots of each lot in the region.
    sums: Vec<u64>,
    freed: FxHashMap<NodeIndex, NodeLoad>,
}

impl<'a> CapacityForecast<'a> {
    fn of(
        demand: &'a Demand,
        region: Region,
        classes: &'a [Arc<Class>],
        rooms: &'a [ClassSlots],
        cluster: &Cluster,
    ) -> Self {
        let sum = |rooms: &ClassSlots| -> u64 {
            match region.nodes(cluster) {
                Some(nodes) => nodes.iter().map(|node| u64::from(rooms.now[node.at()])).sum(),
                None => rooms.now.iter().map(|slots| u64::from(*slots)).sum(),
            }
        };
        CapacityForecast {
            demand,
            classes,
            slots: rooms,
            sums: rooms.iter().map(sum).collect(),
            freed: FxHashMap::default(),
        }
    }

    /// How many pods still find no place.
    fn missing(&self) -> u64 {
        (self.demand.required_count() as u64).saturating_sub(self.fits(&self.sums))
    }

    fn fits(&self, sums: &[u64]) -> u64 {
        self.demand.class_counts.iter().zip(sums).map(|(lot, sum)| (*sum).min(lot.count as u64)).sum()
    }

    /// How many more pods would find a place if this one left, too.
    fn gain(&self, one: &BlockerCandidate, cluster: &Cluster) -> u64 {
        self.fits(&self.sums_without(one, cluster)) - self.fits(&self.sums)
    }

    fn remove_unit(&mut self, one: &BlockerCandidate, cluster: &Cluster) {
        self.sums = self.sums_without(one, cluster);
        for (node, load) in &one.usage_by_node {
            self.freed.entry(*node).or_default().add(load);
        }
    }

    fn sums_without(&self, one: &BlockerCandidate, cluster: &Cluster) -> Vec<u64> {
        let mut sums = self.sums.clone();
        for (node, load) in &one.usage_by_node {
            let before = self.freed.get(node);
            let mut after = before.cloned().unwrap_or_default();
            after.add(load);
            for (lot, sum) in sums.iter_mut().enumerate() {
                let had =
                    before.map_or(self.slots[lot].now[node.at()], |before| self.slots_on(lot, *node, before, cluster));
                *sum += u64::from(self.slots_on(lot, *node, &after, cluster).saturating_sub(had));
            }
        }
        sums
    }

    /// Slots of a lot on a node from which so much is gone, as far as requests go.
    fn slots_on(&self, lot: usize, node: NodeIndex, freed: &NodeLoad, cluster: &Cluster) -> u32 {
        let mut room = cluster.pods_allowed(node) - cluster.pods_count(node) + freed.pods;
        for (resource, amount) in &self.classes[lot].usage.requests {
            let free = cluster.allocatable(*resource, node) - cluster.requested(*resource, node);
            room = room.min(free.saturating_add(freed.requests.get(resource).copied().unwrap_or(0)) / amount);
        }
        let rooms = &self.slots[lot];
        (room.clamp(0, i64::from(u32::MAX)) as u32).max(rooms.now[node.at()]).min(rooms.when_empty[node.at()])
    }
}

impl NodeLoad {
    fn add(&mut self, other: &NodeLoad) {
        self.pods += other.pods;
        other.requests.iter().for_each(|(resource, amount)| self.add_amount(*resource, *amount));
    }

    fn add_amount(&mut self, resource: ResourceId, amount: i64) {
        let sum = self.requests.entry(resource).or_default();
        *sum = sum.saturating_add(amount);
    }
}
