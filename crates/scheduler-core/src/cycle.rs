//! One decision from start to end. Only the overlay changes during a decision, and dropping it undoes the changes.

use std::cmp::Reverse;

use crate::cluster::Cluster;
use crate::demand::Demand;
use crate::demand::classes::Classes;
use crate::explain::reasons::{self, Shortage};
use crate::explain::refusal::Refusal;
use crate::placement::certificate::Certificate;
use crate::placement::domains::{Domains, Region};
use crate::placement::place::{self, PlacementOrder, UnitPlacement};
use crate::placement::search::{self, SearchBudget, SearchResult};

/// The result of a decision about a unit.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a result is created once and moved once; a box would cost more")]
pub(crate) enum PlacementResult {
    /// These pods count on these nodes from now on.
    Placed {
        placement: UnitPlacement,
        region: Region,
    },
    Refused(CertifiedRefusal),
}

/// A unit does not fit.
#[derive(Debug)]
pub(crate) struct CertifiedRefusal {
    pub(crate) refusal: Refusal,
    /// Which changes could let it fit.
    pub(crate) certificate: Certificate,
}

/// Places a unit or refuses it. A gang reaches its `minCount` or is not placed; more of its pods are placed if they
/// fit.
pub(crate) fn decide(
    demand: &Demand,
    cluster: &mut Cluster,
    classes: &mut Classes,
    mut budget: SearchBudget,
) -> PlacementResult {
    if let Some(refusal) = reasons::members_are_split(demand, cluster) {
        let missing_slots = Domains::of(demand, cluster, classes).missing_slots();
        let certificate = Certificate::of(demand, &refusal, missing_slots, cluster);
        return PlacementResult::Refused(CertifiedRefusal { refusal, certificate });
    }
    match find_placement(demand, cluster, classes, &mut budget) {
        Ok((placement, region)) => PlacementResult::Placed { placement, region },
        Err(Some(partial)) => {
            let refusal = explain_partial_fit(demand, &partial, cluster, classes);
            // The sums accept a region: no slot is missing.
            let certificate = Certificate::of(demand, &refusal, 0, cluster);
            PlacementResult::Refused(CertifiedRefusal { refusal, certificate })
        }
        Err(None) => PlacementResult::Refused(refuse(demand, cluster, classes)),
    }
}

/// What a decision would result in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// Enough pods fit, in this region.
    Fits(Region),
    /// They do not, or no placement was found.
    DoesNotFit { proven: bool },
}

/// Tries a decision and undoes it.
pub(crate) fn try_decide(
    demand: &Demand,
    cluster: &mut Cluster,
    classes: &mut Classes,
    mut budget: SearchBudget,
) -> Trial {
    if reasons::members_are_split(demand, cluster).is_some() {
        return Trial::DoesNotFit { proven: true };
    }
    let start = cluster.begin_trial();
    let trial = match find_placement(demand, cluster, classes, &mut budget) {
        Ok((placement, region)) => {
            undo_placement(demand, &placement, cluster, classes);
            Trial::Fits(region)
        }
        Err(partial) => Trial::DoesNotFit { proven: partial.is_none_or(|partial| partial.proven) },
    };
    cluster.end_undone_trial(start);
    trial
}

/// The refusal that [`decide`] would return; none if the unit fits. Changes nothing.
pub(crate) fn dry_run(
    demand: &Demand,
    cluster: &mut Cluster,
    classes: &mut Classes,
    budget: SearchBudget,
) -> Option<Refusal> {
    let start = cluster.begin_trial();
    let refusal = match decide(demand, cluster, classes, budget) {
        PlacementResult::Placed { placement, .. } => {
            undo_placement(demand, &placement, cluster, classes);
            None
        }
        PlacementResult::Refused(refused) => Some(refused.refusal),
    };
    cluster.end_undone_trial(start);
    refusal
}

fn undo_placement(demand: &Demand, placement: &UnitPlacement, cluster: &mut Cluster, classes: &Classes) {
    for (class_index, node) in &placement.assignments {
        let class = classes.get(demand.class_counts[*class_index].class).expect("a pending pod's class exists");
        cluster.remove_pod(*node, &class.usage);
    }
}

/// Places enough pods of the unit, or returns where most of them fit; `None` if the sums reject every region.
fn find_placement(
    demand: &Demand,
    cluster: &mut Cluster,
    classes: &mut Classes,
    budget: &mut SearchBudget,
) -> Result<(UnitPlacement, Region), Option<PartialFit>> {
    let mut domains = Domains::of(demand, cluster, classes); // every domain rejected or ranked from sums
    let mut to_search = Vec::new();
    while let Some(region) = domains.next_feasible() {
        match place_in_order(demand, region, cluster, classes) {
            Ok(placement) => return Ok((placement, region)),
            // Only with several classes: each fits alone, but they do not fit together in the simple orders.
            Err(partial) if to_search.is_empty() => {
                // The best region is searched a little before a worse one is used.
                let mut share = budget.split_least();
                let searched = search_region(demand, region, cluster, classes, &mut share);
                budget.merge(share);
                if let RegionSearch::Placed(placement) = searched {
                    return Ok((placement, region));
                }
                to_search.push(partial);
            }
            Err(partial) => to_search.push(partial),
        }
    }
    let nearest = to_search.iter().enumerate().max_by_key(|(at, partial)| (partial.fits_count, Reverse(*at)));
    let nearest = nearest.map(|(_, partial)| *partial);
    // Every region gets a share of the steps. What is left goes to those whose share was too small.
    while !to_search.is_empty() && budget.has_steps() {
        let mut gave_up = Vec::new();
        let regions_count = to_search.len();
        for (at, partial) in to_search.into_iter().enumerate() {
            let mut share = budget.split(regions_count - at);
            let searched = search_region(demand, partial.region, cluster, classes, &mut share);
            budget.merge(share);
            match searched {
                RegionSearch::Placed(placement) => return Ok((placement, partial.region)),
                RegionSearch::Impossible => {}
                RegionSearch::GaveUp => gave_up.push(partial),
            }
        }
        to_search = gave_up;
    }
    // The search assumes that more pods never help, and the simple orders prove nothing.
    let proven = to_search.is_empty() && classes.are_monotone(&demand.class_counts);
    Err(nearest.map(|nearest| PartialFit { proven, ..nearest }))
}

/// The refusal where the sums alone show that the unit does not fit.
pub(crate) fn refuse(demand: &Demand, cluster: &mut Cluster, classes: &mut Classes) -> CertifiedRefusal {
    let domains = Domains::of(demand, cluster, classes);
    let refusal = explain_sums(demand, &domains, cluster, classes);
    let certificate = Certificate::of(demand, &refusal, domains.missing_slots(), cluster);
    CertifiedRefusal { refusal, certificate }
}

fn explain_sums(demand: &Demand, domains: &Domains, cluster: &mut Cluster, classes: &mut Classes) -> Refusal {
    if demand.class_counts.len() > 1
        && let Some((region, _)) = domains.nearest()
    {
        // The sums count each class as if it were alone. How many pods fit together is known only after placing them.
        let proven = classes.are_monotone(&demand.class_counts);
        let partial = PartialFit { proven, ..most_in_order(demand, region, cluster, classes) };
        return explain_partial_fit(demand, &partial, cluster, classes);
    }
    let shortage = Shortage::from_sums(demand, domains, cluster, classes);
    reasons::refusal(demand, &shortage, cluster, classes)
}

/// Too few pods fit.
#[derive(Clone, Copy)]
struct PartialFit {
    region: Region,
    /// The order in which most of them fit.
    order: PlacementOrder,
    fits_count: usize,
    /// Whether no other placement reaches the required count.
    proven: bool,
}

/// Places the pods class by class, the largest or the smallest first.
fn place_in_order(
    demand: &Demand,
    region: Region,
    cluster: &mut Cluster,
    classes: &mut Classes,
) -> Result<UnitPlacement, PartialFit> {
    let mut most = PartialFit { region, order: PlacementOrder::LargestFirst, fits_count: 0, proven: false };
    for order in [PlacementOrder::LargestFirst, PlacementOrder::SmallestFirst] {
        let mut overlay = cluster.overlay(); // dropping it undoes the placement
        let mut placement =
            UnitPlacement { assignments: Vec::with_capacity(demand.required_count()), unplaced_class: None };
        place::group(demand, order, region, classes, &mut overlay, &mut placement);
        if placement.assignments.len() >= demand.required_count() {
            overlay.commit();
            return Ok(placement);
        }
        if placement.assignments.len() > most.fits_count {
            most = PartialFit { order, fits_count: placement.assignments.len(), ..most };
        }
    }
    Err(most)
}

/// The order of classes in which more pods fit. Nothing stays placed.
fn most_in_order(demand: &Demand, region: Region, cluster: &mut Cluster, classes: &mut Classes) -> PartialFit {
    let fit_in = |order| {
        let (mut overlay, mut placement) = (cluster.overlay(), UnitPlacement::default());
        place::group(demand, order, region, classes, &mut overlay, &mut placement);
        PartialFit { region, order, fits_count: placement.assignments.len(), proven: false }
    };
    let [largest, smallest] = [PlacementOrder::LargestFirst, PlacementOrder::SmallestFirst].map(fit_in);
    if largest.fits_count > smallest.fits_count { largest } else { smallest }
}

/// The result of the search in one region.
enum RegionSearch {
    Placed(UnitPlacement),
    Impossible,
    GaveUp,
}

/// Searches a region in which both simple orders failed.
fn search_region(
    demand: &Demand,
    region: Region,
    cluster: &mut Cluster,
    classes: &mut Classes,
    budget: &mut SearchBudget,
) -> RegionSearch {
    let mut overlay = cluster.overlay();
    match search::find(demand, region, classes, &mut overlay, budget) {
        SearchResult::Found(mut placement) => {
            // The quorum is placed; extra pods use what is left.
            place::group(demand, PlacementOrder::LargestFirst, region, classes, &mut overlay, &mut placement);
            overlay.commit();
            RegionSearch::Placed(placement)
        }
        SearchResult::Impossible => RegionSearch::Impossible,
        SearchResult::GaveUp => RegionSearch::GaveUp,
    }
}

/// The refusal of the first pod that does not fit after the others are placed.
fn explain_partial_fit(demand: &Demand, partial: &PartialFit, cluster: &mut Cluster, classes: &mut Classes) -> Refusal {
    let has_bounds = demand.constraint.is_some() && demand.class_counts.len() > 1;
    let domain_fits = has_bounds.then(|| Domains::of(demand, cluster, classes).fits_by_domain());
    let mut overlay = cluster.overlay();
    let mut placement = UnitPlacement::default();
    place::group(demand, partial.order, partial.region, classes, &mut overlay, &mut placement);
    let mut shortage = Shortage::from_placement(&placement, partial.region, partial.proven);
    shortage.domain_fits = domain_fits;
    reasons::refusal(demand, &shortage, overlay.cluster_mut(), classes)
}
