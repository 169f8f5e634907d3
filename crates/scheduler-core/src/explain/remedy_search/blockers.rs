//! Which running units must end for a unit to fit.
//!
//! What a unit's end would free is first estimated from requests alone, which changes nothing. The units that free
//! most are chosen until the estimate suffices. Then they are removed in an overlay and the decision is tried.
//! Finally, units that need not end are dropped again.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{RemedyRequest, SearchContext};
use crate::cluster::removal_overlay::{PlacedUsages, RemovalOverlay};
use crate::cluster::{Cluster, NodeIndex, ResourceId};
use crate::cycle::Trial;
use crate::demand::classes::Class;
use crate::demand::groups::GroupId;
use crate::demand::pods::{PodId, PodTable};
use crate::demand::{ClassCount, Demand};
use crate::placement::domains::{Domains, Region};
use crate::queue::UnitId;
use crate::reservation::ClassSlots;

/// How many domains are considered, those that lack least first.
const MAX_DOMAINS: usize = 8;
/// How many nodes are considered on which several units must end for one more pod to fit.
const MAX_SHARED_NODES: usize = 256;
/// How many running units are considered in one of them.
const MAX_UNITS: usize = 2000;
/// How many units may have to end; a longer list is of no use.
const MAX_BLOCKERS: usize = 32;

/// The units that must end.
#[derive(Debug)]
pub(crate) struct BlockerPlan {
    /// Each with the number of its pods on nodes.
    pub(crate) blockers: Vec<(UnitId, usize)>,
    pub(crate) region: Region,
}

/// The smallest set of units that suffices; of equally many, those with fewer pods.
pub(super) fn plan(request: &RemedyRequest<'_>, context: &mut SearchContext<'_>) -> Option<BlockerPlan> {
    let demand = request.demand;
    let slots_by_class: Vec<ClassSlots> =
        demand.class_counts.iter().map(|count| ClassSlots::of(count.class, context.cluster, context.classes)).collect();
    let cost = |plan: &BlockerPlan| {
        let pods_count = plan.blockers.iter().map(|(_, pods_count)| *pods_count).sum::<usize>();
        (plan.blockers.len(), pods_count)
    };
    let mut best: Option<BlockerPlan> = None;
    let regions = Domains::fitting_when_empty(demand, context.cluster, context.classes);
    context.truncated |= regions.len() > MAX_DOMAINS;
    for region in regions.into_iter().take(MAX_DOMAINS) {
        let Some(plan) = plan_in_region(request, region, &slots_by_class, context) else { continue };
        if best.as_ref().is_none_or(|best| cost(&plan) < cost(best)) {
            best = Some(plan);
        }
    }
    best
}

fn plan_in_region(
    request: &RemedyRequest<'_>,
    region: Region,
    slots_by_class: &[ClassSlots],
    context: &mut SearchContext<'_>,
) -> Option<BlockerPlan> {
    let demand = request.demand;
    let units = running_units(request, region, context);
    let mut candidates: Vec<usize> = (0..units.len()).collect();
    let class_of = |class_count: &ClassCount| context.classes.get(class_count.class).map(Arc::clone);
    let classes: Vec<Arc<Class>> = demand.class_counts.iter().map(class_of).collect::<Option<_>>()?;
    let mut forecast = CapacityForecast::of(demand, region, &classes, slots_by_class, context.cluster);
    let mut blockers: Vec<&RunningUnit> = Vec::new();
    while blockers.len() < MAX_BLOCKERS {
        let missing = forecast.missing();
        let gain = |one: &RunningUnit| forecast.gain(one, context.cluster).min(missing.max(1));
        let ranked = candidates.iter().enumerate().map(|(at, unit)| (at, &units[*unit]));
        let gains = ranked.map(|(at, one)| (gain(one), Reverse(one.pods_count), Reverse(at)));
        // Units without a gain are chosen only together, or if the estimate was wrong.
        let (gain, _, Reverse(chosen)) = gains.max()?;
        let chosen = match gain {
            0 if missing > 0 => forecast.units_of_one_node(&units, &candidates, context)?,
            _ => vec![candidates[chosen]],
        };
        candidates.retain(|candidate| !chosen.contains(candidate));
        for unit in chosen {
            forecast.remove_unit(&units[unit], context.cluster);
            blockers.push(&units[unit]);
        }
        if forecast.missing() == 0 && fits_without(&blockers, request, region, context)? {
            drop_unneeded(&mut blockers, request, region, context);
            blockers.sort_unstable_by_key(|unit| unit.first_pod);
            return Some(BlockerPlan {
                blockers: blockers.into_iter().map(|one| (one.unit, one.pods_count)).collect(),
                region,
            });
        }
    }
    context.truncated = true;
    None
}

/// Drops units that need not end, those with the most pods first.
fn drop_unneeded(
    blockers: &mut Vec<&RunningUnit>,
    request: &RemedyRequest<'_>,
    region: Region,
    context: &mut SearchContext<'_>,
) {
    if blockers.len() == 1 {
        return;
    }
    let mut by_size = blockers.clone();
    by_size.sort_by_key(|unit| (Reverse(unit.pods_count), unit.first_pod));
    for one in by_size {
        let others: Vec<&RunningUnit> = blockers.iter().copied().filter(|other| other.unit != one.unit).collect();
        match fits_without(&others, request, region, context) {
            Some(true) => *blockers = others,
            Some(false) => {}
            None => return,
        }
    }
}

/// Whether the unit fits into the region once these units have ended; `None` when no trials are left.
fn fits_without(
    blockers: &[&RunningUnit],
    request: &RemedyRequest<'_>,
    region: Region,
    context: &mut SearchContext<'_>,
) -> Option<bool> {
    let demand = request.demand.limited_to(region);
    let removed = blockers.iter().flat_map(|unit| &unit.placed);
    let mut overlay = RemovalOverlay::of(removed, context.cluster);
    let mut trial_context = SearchContext {
        cluster: overlay.cluster(),
        classes: context.classes,
        trials_left: context.trials_left,
        max_steps: context.max_steps,
        truncated: context.truncated,
    };
    let trial = trial_context.try_decide(&demand);
    (context.trials_left, context.truncated) = (trial_context.trials_left, trial_context.truncated);
    trial.map(|trial| matches!(trial, Trial::Fits(_)))
}

/// A unit with pods in the region.
struct RunningUnit {
    unit: UnitId,
    /// The first of its pods in the region, by id.
    first_pod: PodId,
    /// How many of its pods are on nodes that exist, also outside of the region.
    pods_count: usize,
    /// Its pods in the region.
    placed: PlacedUsages,
    usage_by_node: BTreeMap<NodeIndex, NodeLoad>,
}

/// How many pods a unit has on nodes that exist.
fn pods_on_nodes(unit: UnitId, pods: &PodTable, on_deleted: &FxHashMap<GroupId, usize>) -> usize {
    match unit {
        UnitId::Pod(_) => 1,
        UnitId::Group(group) => pods.on_nodes_count(group) - on_deleted.get(&group).copied().unwrap_or(0),
    }
}

/// How many pods of each group are on nodes that were deleted. There are few such nodes.
fn on_deleted_nodes(pods: &PodTable, cluster: &Cluster) -> FxHashMap<GroupId, usize> {
    let mut counts: FxHashMap<GroupId, usize> = FxHashMap::default();
    let deleted = cluster.indices().filter(|node| !cluster.node(*node).present);
    let groups = deleted.flat_map(|node| pods.on_node(node)).filter_map(|id| pods.get(*id).group);
    groups.for_each(|group| *counts.entry(group).or_default() += 1);
    counts
}

/// What a unit uses of one node.
#[derive(Clone, Default)]
struct NodeLoad {
    requests: FxHashMap<ResourceId, i64>,
    pods: i64,
}

/// The units with pods on nodes of the region, without the one that needs capacity. Only these nodes are read.
fn running_units(request: &RemedyRequest<'_>, region: Region, context: &mut SearchContext<'_>) -> Vec<RunningUnit> {
    let mut units: Vec<RunningUnit> = Vec::new();
    let mut position_of: FxHashMap<UnitId, usize> = FxHashMap::default();
    let (cluster, pods) = (&*context.cluster, request.pods);
    let on_deleted = on_deleted_nodes(pods, cluster);
    let nodes: Vec<NodeIndex> = match region.nodes(cluster) {
        Some(nodes) => nodes.to_vec(),
        None => cluster.indices().collect(),
    };
    for node in nodes.into_iter().filter(|node| cluster.node(*node).present) {
        for id in pods.on_node(node) {
            let pod = pods.get(*id);
            let unit = pod.group.map_or(UnitId::Pod(*id), UnitId::Group);
            if unit == request.unit {
                continue;
            }
            let at = *position_of.entry(unit).or_insert(units.len());
            if at == MAX_UNITS {
                context.truncated = true;
                units.sort_unstable_by_key(|unit| unit.first_pod);
                return units;
            }
            if at == units.len() {
                let pods_count = pods_on_nodes(unit, pods, &on_deleted);
                let (placed, usage_by_node) = (Vec::new(), BTreeMap::new());
                units.push(RunningUnit { unit, first_pod: *id, pods_count, placed, usage_by_node });
            }
            let RunningUnit { first_pod, placed, usage_by_node, .. } = &mut units[at];
            *first_pod = (*first_pod).min(*id);
            placed.push((node, Arc::clone(&pod.usage)));
            let load = usage_by_node.entry(node).or_default();
            load.pods += 1;
            pod.usage.requests.iter().for_each(|(resource, amount)| load.add_amount(*resource, *amount));
        }
    }
    units.sort_unstable_by_key(|unit| unit.first_pod);
    units
}

/// The estimated slots of the region once some units have ended, from requests alone.
struct CapacityForecast<'a> {
    demand: &'a Demand,
    classes: &'a [Arc<Class>],
    slots: &'a [ClassSlots],
    /// Slots of each class in the region.
    sums: Vec<u64>,
    freed: FxHashMap<NodeIndex, NodeLoad>,
}

impl<'a> CapacityForecast<'a> {
    fn of(
        demand: &'a Demand,
        region: Region,
        classes: &'a [Arc<Class>],
        slots_by_class: &'a [ClassSlots],
        cluster: &Cluster,
    ) -> Self {
        let sum = |slots: &ClassSlots| -> u64 {
            match region.nodes(cluster) {
                Some(nodes) => nodes.iter().map(|node| u64::from(slots.now[node.at()])).sum(),
                None => slots.now.iter().map(|slots| u64::from(*slots)).sum(),
            }
        };
        CapacityForecast {
            demand,
            classes,
            slots: slots_by_class,
            sums: slots_by_class.iter().map(sum).collect(),
            freed: FxHashMap::default(),
        }
    }

    /// How many pods still do not fit.
    fn missing(&self) -> u64 {
        (self.demand.required_count() as u64).saturating_sub(self.fits(&self.sums))
    }

    fn fits(&self, sums: &[u64]) -> u64 {
        self.demand.class_counts.iter().zip(sums).map(|(count, sum)| (*sum).min(count.count as u64)).sum()
    }

    /// How many more pods would fit if this unit ended, too.
    fn gain(&self, one: &RunningUnit, cluster: &Cluster) -> u64 {
        self.fits(&self.sums_without(one, cluster)) - self.fits(&self.sums)
    }

    fn remove_unit(&mut self, one: &RunningUnit, cluster: &Cluster) {
        self.sums = self.sums_without(one, cluster);
        for (node, load) in &one.usage_by_node {
            self.freed.entry(*node).or_default().add(load);
        }
    }

    /// The fewest units that let another pod fit on one node if they all end, where none of them helps alone.
    fn units_of_one_node(
        &self,
        units: &[RunningUnit],
        candidates: &[usize],
        context: &mut SearchContext<'_>,
    ) -> Option<Vec<usize>> {
        let cluster = &*context.cluster;
        let mut by_node: BTreeMap<NodeIndex, Vec<usize>> = BTreeMap::new();
        for unit in candidates {
            units[*unit].usage_by_node.keys().for_each(|node| by_node.entry(*node).or_default().push(*unit));
        }
        context.truncated |= by_node.len() > MAX_SHARED_NODES;
        let mut best: Option<(usize, usize, Vec<usize>)> = None;
        for (node, mut here) in by_node.into_iter().take(MAX_SHARED_NODES) {
            // Few units are needed if those go first that use most.
            here.sort_by_key(|unit| (Reverse(self.share_used(&units[*unit].usage_by_node[&node])), *unit));
            let mut freed = self.freed.get(&node).cloned().unwrap_or_default();
            let before = self.fits_with(node, &freed, cluster);
            let enough = here.iter().position(|unit| {
                freed.add(&units[*unit].usage_by_node[&node]);
                self.fits_with(node, &freed, cluster) > before
            });
            let Some(last) = enough else { continue };
            here.truncate(last + 1);
            let pods_count = here.iter().map(|unit| units[*unit].pods_count).sum();
            if best.as_ref().is_none_or(|(count, pods, _)| (here.len(), pods_count) < (*count, *pods)) {
                best = Some((here.len(), pods_count, here));
            }
        }
        best.map(|(_, _, units)| units)
    }

    /// How much of a pod of the unit is in use, of the resource with the largest share; in thousandths.
    fn share_used(&self, load: &NodeLoad) -> i64 {
        let requests = self.classes.iter().flat_map(|class| &class.usage.requests);
        let share = |(resource, amount): &(ResourceId, i64)| {
            load.requests.get(resource).map_or(0, |used| used.saturating_mul(1000) / (*amount).max(1))
        };
        requests.map(share).max().unwrap_or(0)
    }

    /// How many pods fit if `freed` were removed from a node.
    fn fits_with(&self, node: NodeIndex, freed: &NodeLoad, cluster: &Cluster) -> u64 {
        let mut sums = self.sums.clone();
        self.add_growth(&mut sums, node, freed, cluster);
        self.fits(&sums)
    }

    fn sums_without(&self, one: &RunningUnit, cluster: &Cluster) -> Vec<u64> {
        let mut sums = self.sums.clone();
        for (node, load) in &one.usage_by_node {
            let mut freed = self.freed.get(node).cloned().unwrap_or_default();
            freed.add(load);
            self.add_growth(&mut sums, *node, &freed, cluster);
        }
        sums
    }

    /// Adds the slots of each class that a node gets if `freed` is removed from it, beyond those it has in the forecast.
    fn add_growth(&self, sums: &mut [u64], node: NodeIndex, freed: &NodeLoad, cluster: &Cluster) {
        for (class, sum) in sums.iter_mut().enumerate() {
            let before = match self.freed.get(&node) {
                Some(before) => self.slots_on(class, node, before, cluster),
                None => self.slots[class].now[node.at()],
            };
            *sum += u64::from(self.slots_on(class, node, freed, cluster).saturating_sub(before));
        }
    }

    /// Slots of a class on a node from which `freed` is removed, from requests alone.
    fn slots_on(&self, class: usize, node: NodeIndex, freed: &NodeLoad, cluster: &Cluster) -> u32 {
        let mut slots = cluster.pods_allowed(node) - cluster.pods_count(node) + freed.pods;
        for (resource, amount) in &self.classes[class].usage.requests {
            let free = cluster.allocatable(*resource, node) - cluster.requested(*resource, node);
            slots = slots.min(free.saturating_add(freed.requests.get(resource).copied().unwrap_or(0)) / amount);
        }
        let ClassSlots { now, when_empty } = &self.slots[class];
        (slots.clamp(0, i64::from(u32::MAX)) as u32).max(now[node.at()]).min(when_empty[node.at()])
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
