//! How many fit, per topology domain: every domain is rejected or ranked from sums, none is simulated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::classes::Classes;
use crate::cluster::{Cluster, DomainId, NodeIndex, TopologyId};
use crate::decision::ChosenDomain;
use crate::demand::{Demand, DomainConstraint};

/// All slots of a domain, when parts of them are added up.
const WHOLE: u64 = 1 << 30;

/// Where a unit's pods may go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// All nodes.
    Everywhere,
    /// The nodes of one domain.
    Domain(TopologyId, DomainId),
}

impl Region {
    /// The nodes of a domain; `None` means all.
    pub(crate) fn nodes(self, cluster: &Cluster) -> Option<&[NodeIndex]> {
        match self {
            Region::Everywhere => None,
            Region::Domain(topology, domain) => Some(cluster.topology(topology).nodes(domain)),
        }
    }

    /// The domain that it is, in words; none where it is all nodes.
    pub(crate) fn chosen_domain(self, cluster: &Cluster) -> Option<ChosenDomain> {
        let Region::Domain(id, domain) = self else { return None };
        let topology = cluster.topology(id);
        let text = |name| cluster.names.text(name).to_string();
        Some(ChosenDomain { key: text(topology.key()), value: text(topology.value(domain)) })
    }

    /// Whether a node belongs to it.
    pub(crate) fn contains(self, node: NodeIndex, cluster: &Cluster) -> bool {
        match self {
            Region::Everywhere => true,
            Region::Domain(topology, domain) => cluster.topology(topology).domain_of(node) == Some(domain),
        }
    }
}

/// A region and what the sums say about it. Orders by preference, the best last: room for all that is expected, then more
/// pods of the unit, then fewer slots left over (so that large free domains stay free for large groups), then more pods
/// that are there already (so that empty domains stay empty), then the smaller label value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankedDomain {
    /// It has room for the pods of the unit and for those that are expected later; false where none are.
    pub(crate) takes_expected: bool,
    pub(crate) fits_count: u64,
    pub(crate) spare: Reverse<u64>,
    pub(crate) pods_count: i64,
    pub(crate) value: Reverse<Arc<str>>,
    pub(crate) domain: DomainId,
}

/// Regions for a unit.
#[derive(Debug)]
pub(crate) struct RegionRanking {
    /// Regions where, by the sums, enough pods fit.
    feasible: FeasibleRegions,
    /// The region that would take most, and how many pods that is at most; `None` when there is no domain at all.
    pub(crate) nearest: Option<(Region, u64)>,
}

#[derive(Debug)]
enum FeasibleRegions {
    Everywhere(bool),
    Domains(TopologyId, BinaryHeap<RankedDomain>),
}

impl RegionRanking {
    /// The best region not yet returned.
    pub(crate) fn next_feasible(&mut self) -> Option<Region> {
        match &mut self.feasible {
            FeasibleRegions::Everywhere(open) => std::mem::take(open).then_some(Region::Everywhere),
            FeasibleRegions::Domains(topology, heap) => {
                heap.pop().map(|ranked| Region::Domain(*topology, ranked.domain))
            }
        }
    }
}

/// Ranks the regions a unit may go to. With one class the sums are exact; with several each class is counted as if it
/// came alone, which is an upper bound. Either way, a region the sums reject is proven to be too small.
pub(crate) fn rank_regions(demand: &Demand, cluster: &Cluster, classes: &mut Classes) -> RegionRanking {
    let required = demand.required_count() as u64;
    match &demand.constraint {
        None => {
            let fits = demand.class_counts.iter().map(|lot| {
                let (_, index) = classes.with_current_index(lot.class, cluster);
                index.slots_total().min(lot.count as u64)
            });
            let fits_count = fits.sum();
            let nearest = Some((Region::Everywhere, fits_count));
            RegionRanking { feasible: FeasibleRegions::Everywhere(fits_count >= required), nearest }
        }
        Some(constraint) => {
            let domains = rank_domains(demand, constraint, cluster, classes);
            let region = |best: &RankedDomain| (Region::Domain(constraint.topology, best.domain), best.fits_count);
            let nearest = domains.iter().max().map(region);
            let feasible = domains.into_iter().filter(|ranked| ranked.fits_count >= required).collect();
            RegionRanking { feasible: FeasibleRegions::Domains(constraint.topology, feasible), nearest }
        }
    }
}

/// What the sums say about every domain that the unit may go to.
pub(crate) fn rank_domains(
    demand: &Demand,
    constraint: &DomainConstraint,
    cluster: &Cluster,
    classes: &mut Classes,
) -> Vec<RankedDomain> {
    let topology = cluster.topology(constraint.topology);
    let mut fits = vec![0; topology.domains().len()];
    let mut slots = vec![0; fits.len()];
    // Which part of each domain all expected pods take. Those to come are assumed to be like most of those that wait.
    let mut shares = vec![0u64; fits.len()];
    let likeliest = demand.class_counts.iter().map(|lot| lot.count).max().unwrap_or(0);
    let mut coming = demand.expected_later_count as u64;
    for lot in &demand.class_counts {
        let expected = lot.count as u64 + if lot.count == likeliest { std::mem::take(&mut coming) } else { 0 };
        let (_, index) = classes.with_current_index(lot.class, cluster);
        for (at, sum) in index.slots_by_domain(constraint.topology, cluster).iter().enumerate() {
            fits[at] += (*sum).min(lot.count as u64);
            slots[at] += sum;
            shares[at] = shares[at].saturating_add((expected * WHOLE).checked_div(*sum).unwrap_or(u64::MAX));
        }
    }
    let allowed = |domain: &DomainId| {
        let pinned = &constraint.member_domains;
        !topology.nodes(*domain).is_empty() && (pinned.is_empty() || pinned.contains(domain))
    };
    let rank = |domain: DomainId| RankedDomain {
        takes_expected: demand.expected_later_count > 0 && shares[domain.at()] <= WHOLE,
        fits_count: fits[domain.at()],
        spare: Reverse(slots[domain.at()] - fits[domain.at()]),
        pods_count: topology.pods_count(domain),
        value: Reverse(Arc::clone(cluster.names.text(topology.value(domain)))),
        domain,
    };
    topology.domains().filter(allowed).map(rank).collect()
}
