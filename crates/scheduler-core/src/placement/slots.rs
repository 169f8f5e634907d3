//! How many pods fit, per topology domain: every domain is rejected or ranked from sums, none is simulated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::cluster::{Cluster, DomainId, NodeIndex, TopologyId};
use crate::decision::ChosenDomain;
use crate::demand::classes::Classes;
use crate::demand::{ClassCount, Demand, DomainConstraint};

/// All slots of a domain, as the unit in which shares are added up.
const WHOLE: u64 = 1 << 30;

/// Where a unit's pods may be placed together.
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

    /// Its key and value; none for all nodes.
    pub(crate) fn chosen_domain(self, cluster: &Cluster) -> Option<ChosenDomain> {
        let Region::Domain(id, domain) = self else { return None };
        let topology = cluster.topology(id);
        let text = |name| cluster.names.text(name).to_string();
        Some(ChosenDomain { key: text(topology.key()), value: text(topology.value(domain)) })
    }

    /// Whether it contains a node.
    pub(crate) fn contains(self, node: NodeIndex, cluster: &Cluster) -> bool {
        match self {
            Region::Everywhere => true,
            Region::Domain(topology, domain) => cluster.topology(topology).domain_of(node) == Some(domain),
        }
    }
}

/// A region and its sums. Orders by preference, the best last: capacity for all expected pods, then more pods of the
/// unit, then fewer slots left over (so that large free domains stay free for large groups), then more pods already
/// there (so that empty domains stay empty), then the smaller label value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankedDomain {
    /// It has capacity for the pods of the unit and for those expected later; false if none are expected.
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
    /// The region in which most pods fit, and at most how many; `None` when there is no domain at all.
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

/// Ranks the regions of a unit. With one class the sums are exact. With several, each class is counted as if it were
/// alone, which is an upper bound. Either way, a region that the sums reject is proven to be too small.
pub(crate) fn rank_regions(demand: &Demand, cluster: &Cluster, classes: &mut Classes) -> RegionRanking {
    let required = demand.required_count() as u64;
    match &demand.constraint {
        None => {
            let fits = demand.class_counts.iter().map(|class_count| {
                let (_, index) = classes.with_current_index(class_count.class, cluster);
                index.slots_total().min(class_count.count as u64)
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

/// The sums of every domain that the unit may use.
pub(crate) fn rank_domains(
    demand: &Demand,
    constraint: &DomainConstraint,
    cluster: &Cluster,
    classes: &mut Classes,
) -> Vec<RankedDomain> {
    let topology = cluster.topology(constraint.topology);
    let mut fits = vec![0; topology.domains().len()];
    let mut slots = vec![0; fits.len()];
    // The share of each domain that all expected pods use. Later pods are assumed to be of the class with most
    // pending pods.
    let mut shares = vec![0u64; fits.len()];
    let largest_count = demand.class_counts.iter().map(|class_count| class_count.count).max().unwrap_or(0);
    let mut expected_later = demand.expected_later_count as u64;
    for ClassCount { class, count } in &demand.class_counts {
        let later = if *count == largest_count { std::mem::take(&mut expected_later) } else { 0 };
        let expected = *count as u64 + later;
        let (_, index) = classes.with_current_index(*class, cluster);
        for (at, sum) in index.slots_by_domain(constraint.topology, cluster).iter().enumerate() {
            fits[at] += (*sum).min(*count as u64);
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
