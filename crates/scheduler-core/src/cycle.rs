//! One decision from start to end. Nothing but the tentative layer changes on the way, and dropping it undoes that.

use crate::classes::Classes;
use crate::cluster::Cluster;
use crate::demand::Demand;
use crate::place::{self, PlacementOrder, UnitPlacement};
use crate::reasons::{self, Shortage};
use crate::refusal::Refusal;
use crate::search::{self, SearchBudget, SearchResult};
use crate::slots::{self, Region};

/// What was found for a unit.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an answer is made once and moved once; a box would cost more")]
pub(crate) enum PlacementResult {
    /// These pods are counted on these nodes from now on.
    Placed {
        placement: UnitPlacement,
        region: Region,
    },
    Refused(Refusal),
}

/// Places a unit or says why not. A gang is brought to its `minCount` or left alone; whatever else fits comes along.
pub(crate) fn decide(
    demand: &Demand,
    cluster: &mut Cluster,
    classes: &mut Classes,
    mut effort: SearchBudget,
) -> PlacementResult {
    if let Some(refusal) = reasons::members_are_split(demand, cluster) {
        return PlacementResult::Refused(refusal);
    }
    match find_placement(demand, cluster, classes, &mut effort) {
        Ok((places, region)) => PlacementResult::Placed { placement: places, region },
        Err(Some(short)) => PlacementResult::Refused(explain_partial_fit(demand, &short, cluster, classes)),
        Err(None) => PlacementResult::Refused(refuse(demand, cluster, classes)),
    }
}

/// What a decision would come to, if it were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// Enough pods find a place, here.
    Fits(Region),
    /// They do not, as far as was found.
    DoesNotFit { proven: bool },
}

/// Tries a decision and leaves everything as it was.
pub(crate) fn try_decide(
    demand: &Demand,
    cluster: &mut Cluster,
    classes: &mut Classes,
    mut effort: SearchBudget,
) -> Trial {
    if reasons::members_are_split(demand, cluster).is_some() {
        return Trial::DoesNotFit { proven: true };
    }
    match find_placement(demand, cluster, classes, &mut effort) {
        Ok((places, region)) => {
            undo_placement(demand, &places, cluster, classes);
            Trial::Fits(region)
        }
        Err(short) => Trial::DoesNotFit { proven: short.is_none_or(|short| short.proven) },
    }
}

/// Why a unit finds no place, as [`decide`] would say; none if it does. Leaves everything as it was.
pub(crate) fn dry_run(
    demand: &Demand,
    cluster: &mut Cluster,
    classes: &mut Classes,
    effort: SearchBudget,
) -> Option<Refusal> {
    match decide(demand, cluster, classes, effort) {
        PlacementResult::Placed { placement: places, .. } => {
            undo_placement(demand, &places, cluster, classes);
            None
        }
        PlacementResult::Refused(refusal) => Some(refusal),
    }
}

fn undo_placement(demand: &Demand, places: &UnitPlacement, cluster: &mut Cluster, classes: &Classes) {
    for (lot, node) in &places.assignments {
        let class = classes.get(demand.class_counts[*lot].class).expect("a pending pod's class is held");
        cluster.remove_pod(*node, &class.usage);
    }
}

/// Places enough pods of the unit, or says where most of them found a place; not even that where the sums reject all.
fn find_placement(
    demand: &Demand,
    cluster: &mut Cluster,
    classes: &mut Classes,
    effort: &mut SearchBudget,
) -> Result<(UnitPlacement, Region), Option<PartialFit>> {
    let mut ranking = slots::rank_regions(demand, cluster, classes); // every domain rejected or ranked from sums
    let mut closest: Option<PartialFit> = None;
    let mut proven = true;
    while let Some(region) = ranking.next_feasible() {
        match place_in_region(demand, region, cluster, classes, effort) {
            RegionResult::Placed(places) => return Ok((places, region)),
            // Only with several classes: each fits alone, but not all together.
            RegionResult::TooFew(short) => {
                proven &= short.proven;
                if closest.as_ref().is_none_or(|closest| short.fits_count > closest.fits_count) {
                    closest = Some(short);
                }
            }
        }
    }
    Err(closest.map(|short| PartialFit { proven, ..short }))
}

/// Why pods find no place where the sums alone say so.
pub(crate) fn refuse(demand: &Demand, cluster: &mut Cluster, classes: &mut Classes) -> Refusal {
    let ranking = slots::rank_regions(demand, cluster, classes);
    if demand.class_counts.len() > 1
        && let Some((region, _)) = ranking.nearest
    {
        // Sums count each class as if it came alone; how many pods fit together is shown by placing them.
        let short = PartialFit { region, order: PlacementOrder::SmallestFirst, fits_count: 0, proven: true };
        return explain_partial_fit(demand, &short, cluster, classes);
    }
    let shortage = Shortage::from_sums(demand, &ranking, cluster, classes);
    reasons::refusal(demand, &shortage, cluster, classes)
}

/// What came of one region.
enum RegionResult {
    Placed(UnitPlacement),
    TooFew(PartialFit),
}

/// Too few pods found a place.
struct PartialFit {
    region: Region,
    /// Placed in this order, most of them did.
    order: PlacementOrder,
    fits_count: usize,
    /// Whether no other way does better than to fall short.
    proven: bool,
}

/// Tries what is quick first, and searches only where that fails.
fn place_in_region(
    demand: &Demand,
    region: Region,
    cluster: &mut Cluster,
    classes: &mut Classes,
    effort: &mut SearchBudget,
) -> RegionResult {
    let mut most = 0;
    let mut best = PlacementOrder::LargestFirst;
    for order in [PlacementOrder::LargestFirst, PlacementOrder::SmallestFirst] {
        let mut tentative = cluster.overlay(); // dropping it is the undo
        let mut places =
            UnitPlacement { assignments: Vec::with_capacity(demand.required_count()), unplaced_class: None };
        place::group(demand, order, region, classes, &mut tentative, &mut places);
        if places.assignments.len() >= demand.required_count() {
            tentative.commit();
            return RegionResult::Placed(places);
        }
        if places.assignments.len() > most {
            (most, best) = (places.assignments.len(), order);
        }
    }
    let mut tentative = cluster.overlay();
    let proven = match search::find(demand, region, classes, &mut tentative, effort) {
        SearchResult::Found(mut places) => {
            // The quorum stands; pods beyond it take what is left.
            place::group(demand, PlacementOrder::LargestFirst, region, classes, &mut tentative, &mut places);
            tentative.commit();
            return RegionResult::Placed(places);
        }
        SearchResult::Impossible => true,
        SearchResult::GaveUp => false,
    };
    RegionResult::TooFew(PartialFit { region, order: best, fits_count: most, proven })
}

/// What the first pod lacks that finds no place after the others have theirs.
fn explain_partial_fit(demand: &Demand, short: &PartialFit, cluster: &mut Cluster, classes: &mut Classes) -> Refusal {
    let mut tentative = cluster.overlay();
    let mut places = UnitPlacement::default();
    place::group(demand, short.order, short.region, classes, &mut tentative, &mut places);
    let shortage = Shortage::from_placement(&places, short.region, short.proven);
    reasons::refusal(demand, &shortage, tentative.cluster(), classes)
}
