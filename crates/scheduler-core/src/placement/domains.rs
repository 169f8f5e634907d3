//! The domains of a unit: which it may use, how many pods each can take, and in which order they are tried.
//!
//! Every domain is rejected or ranked from sums, none is simulated. Decisions, reservations, remedies, refusals and
//! placement reports all use this ranking.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use crate::cluster::{Cluster, DomainId, NodeIndex, TopologyId};
use crate::decision::ChosenDomain;
use crate::demand::classes::Classes;
use crate::demand::{ClassCount, Demand, DomainConstraint};
use crate::index::ClassIndex;

/// All slots of a domain, as the unit in which shares are added up.
const WHOLE: u64 = 1 << 30;

/// Where a unit's pods may be placed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// How many more pods of the class of an index fit into it.
    pub(crate) fn slots(self, index: &mut ClassIndex, cluster: &Cluster) -> u64 {
        match self {
            Region::Everywhere => index.slots_total(),
            Region::Domain(topology, domain) => index.slots_by_domain(topology, cluster)[domain.at()],
        }
    }
}

/// A region and its sums. Orders by preference, the best last: capacity for all expected pods, then more pods of the
/// unit, then fewer slots left over (so that large free domains stay free for large groups), then more pods already
/// there (so that empty domains stay empty), then the smaller label value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankedDomain {
    /// It has capacity for the pods of the unit and for those expected later; false if none are expected.
    takes_expected: bool,
    /// How many pods of the unit fit.
    pub(crate) fits_count: u64,
    /// Slots left over.
    pub(crate) spare: Reverse<u64>,
    pods_count: i64,
    /// The label value; none if the region is everywhere.
    value: Option<Reverse<Arc<str>>>,
    pub(crate) region: Region,
}

/// The regions that a unit may use, the best first.
///
/// With one class the sums are exact. With several, each class is counted as if it were alone, which is an upper
/// bound. Either way, a region that the sums reject is proven to be too small. The sums reject no region for pods that
/// other pods can help: the first pods of the unit may give slots to the rest.
#[derive(Debug)]
pub(crate) struct Domains {
    ranked: BinaryHeap<RankedDomain>,
    required: u64,
    nearest: Option<(Region, u64)>,
}

impl Domains {
    /// Ranks the regions of a unit.
    pub(crate) fn of(demand: &Demand, cluster: &Cluster, classes: &mut Classes) -> Domains {
        let ranked = match &demand.constraint {
            None => vec![rank_everywhere(demand, cluster, classes)],
            Some(constraint) => rank_domains(demand, constraint, cluster, classes),
        };
        let ranked = BinaryHeap::from(ranked);
        let nearest = ranked.peek().map(|best| (best.region, best.fits_count));
        Domains { ranked, required: required_by_sums(demand, classes), nearest }
    }

    /// The best region not yet returned, of those where enough pods fit by the sums. More pods rank first, so no
    /// feasible region follows one that is not.
    pub(crate) fn next_feasible(&mut self) -> Option<Region> {
        let best = self.ranked.pop().filter(|best| best.fits_count >= self.required);
        best.map(|best| best.region)
    }

    /// How many slots the region lacks in which most pods fit, by the sums; 0 if they accept a region.
    pub(crate) fn missing_slots(&self) -> u64 {
        self.required.saturating_sub(self.nearest.map_or(0, |(_, fits_count)| fits_count))
    }

    /// The region in which most pods fit, and at most how many; `None` when there is no domain at all.
    pub(crate) fn nearest(&self) -> Option<(Region, u64)> {
        self.nearest
    }

    /// All regions that the unit may use and that were not returned yet, in no order.
    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &RankedDomain> {
        self.ranked.iter()
    }

    /// How many pods of the unit fit into each domain that was not returned yet, by the sums.
    pub(crate) fn fits_by_domain(&self) -> BTreeMap<DomainId, u64> {
        let fits = self.ranked.iter().filter_map(|ranked| match ranked.region {
            Region::Domain(_, domain) => Some((domain, ranked.fits_count)),
            Region::Everywhere => None,
        });
        fits.collect()
    }

    /// The regions where the unit would fit if all pods left, the best first: those that lack least.
    pub(crate) fn fitting_when_empty(demand: &Demand, cluster: &Cluster, classes: &mut Classes) -> Vec<Region> {
        let fits = FitsWhenEmpty::of(demand, cluster, classes);
        let ranked = Domains::of(demand, cluster, classes).ranked.into_sorted_vec().into_iter().rev();
        ranked.map(|ranked| ranked.region).filter(|region| fits.in_region(*region)).collect()
    }

    /// Whether there is such a region. An upper bound for several classes, so "no" is proven.
    pub(crate) fn fits_when_empty(demand: &Demand, cluster: &Cluster, classes: &mut Classes) -> bool {
        let fits = FitsWhenEmpty::of(demand, cluster, classes);
        match &demand.constraint {
            None => fits.in_region(Region::Everywhere),
            Some(constraint) => {
                let mut allowed = constraint.allowed_domains(cluster);
                allowed.any(|domain| fits.in_region(Region::Domain(constraint.topology, domain)))
            }
        }
    }
}

impl RankedDomain {
    /// The label value of the domain; empty if the region is everywhere.
    pub(crate) fn value(&self) -> &str {
        self.value.as_ref().map_or("", |Reverse(value)| value)
    }

    /// Whether all of `pods_count` pods fit.
    pub(crate) fn takes(&self, pods_count: usize) -> bool {
        self.fits_count >= pods_count as u64
    }
}

/// How many pods must fit into a region by the sums.
fn required_by_sums(demand: &Demand, classes: &Classes) -> u64 {
    if classes.are_monotone(&demand.class_counts) { demand.required_count() as u64 } else { 0 }
}

fn rank_everywhere(demand: &Demand, cluster: &Cluster, classes: &mut Classes) -> RankedDomain {
    let (mut fits_count, mut slots) = (0, 0);
    for ClassCount { class, count } in &demand.class_counts {
        let (_, index) = classes.with_current_index(*class, cluster);
        fits_count += index.slots_total().min(*count as u64);
        slots += index.slots_total();
    }
    RankedDomain {
        takes_expected: false,
        fits_count,
        spare: Reverse(slots - fits_count),
        pods_count: 0,
        value: None,
        region: Region::Everywhere,
    }
}

/// The sums of every domain that the unit may use.
fn rank_domains(
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
    let rank = |domain: DomainId| RankedDomain {
        takes_expected: demand.expected_later_count > 0 && shares[domain.at()] <= WHOLE,
        fits_count: fits[domain.at()],
        spare: Reverse(slots[domain.at()] - fits[domain.at()]),
        pods_count: topology.pods_count(domain),
        value: Some(Reverse(Arc::clone(cluster.names.text(topology.value(domain))))),
        region: Region::Domain(constraint.topology, domain),
    };
    constraint.allowed_domains(cluster).map(rank).collect()
}

/// How many pods of a unit would fit into each region if all pods left.
struct FitsWhenEmpty {
    /// By domain number; one entry if the region is everywhere.
    fits: Vec<u64>,
    required: u64,
}

impl FitsWhenEmpty {
    fn of(demand: &Demand, cluster: &Cluster, classes: &mut Classes) -> FitsWhenEmpty {
        let topology = demand.constraint.as_ref().map(|constraint| cluster.topology(constraint.topology));
        let mut fits = vec![0; topology.map_or(1, |topology| topology.domains().len())];
        for ClassCount { class, count } in &demand.class_counts {
            let (class, index) = classes.with_current_index(*class, cluster);
            let mut slots = vec![0; fits.len()];
            for (node, node_slots) in index.slots_when_empty(class, cluster) {
                let domain = match topology {
                    Some(topology) => topology.domain_of(node).map(DomainId::at),
                    None => Some(0),
                };
                if let Some(domain) = domain {
                    slots[domain] += u64::from(node_slots);
                }
            }
            fits.iter_mut().zip(slots).for_each(|(fits, slots): (&mut u64, u64)| *fits += slots.min(*count as u64));
        }
        FitsWhenEmpty { fits, required: required_by_sums(demand, classes) }
    }

    fn in_region(&self, region: Region) -> bool {
        let at = match region {
            Region::Everywhere => 0,
            Region::Domain(_, domain) => domain.at(),
        };
        self.fits[at] >= self.required
    }
}
