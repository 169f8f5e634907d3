//! One decision from start to end. Nothing but the tentative layer changes on the way, and dropping it undoes that.

use crate::classes::Classes;
use crate::cluster::Cluster;
use crate::need::Need;
use crate::place::{self, Order, Places};
use crate::reasons::{self, Shortage};
use crate::refusal::Refusal;
use crate::search::{self, Effort, Found};
use crate::slots::{self, Region};

/// What was found for a unit.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an answer is made once and moved once; a box would cost more")]
pub(crate) enum Answer {
    /// These pods are counted on these nodes from now on.
    Placed {
        places: Places,
        region: Region,
    },
    Refused(Refusal),
}

/// Places a unit or says why not. A gang is brought to its `minCount` or left alone; whatever else fits comes along.
pub(crate) fn decide(need: &Need, cluster: &mut Cluster, classes: &mut Classes, mut effort: Effort) -> Answer {
    if let Some(refusal) = reasons::members_are_split(need, cluster) {
        return Answer::Refused(refusal);
    }
    match find(need, cluster, classes, &mut effort) {
        Ok((places, region)) => Answer::Placed { places, region },
        Err(Some(short)) => Answer::Refused(explain(need, &short, cluster, classes)),
        Err(None) => Answer::Refused(refuse(need, cluster, classes)),
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
pub(crate) fn try_out(need: &Need, cluster: &mut Cluster, classes: &mut Classes, mut effort: Effort) -> Trial {
    if reasons::members_are_split(need, cluster).is_some() {
        return Trial::DoesNotFit { proven: true };
    }
    match find(need, cluster, classes, &mut effort) {
        Ok((places, region)) => {
            take_back(need, &places, cluster, classes);
            Trial::Fits(region)
        }
        Err(short) => Trial::DoesNotFit { proven: short.is_none_or(|short| short.proven) },
    }
}

/// Why a unit finds no place, as [`decide`] would say; none if it does. Leaves everything as it was.
pub(crate) fn judge(need: &Need, cluster: &mut Cluster, classes: &mut Classes, effort: Effort) -> Option<Refusal> {
    match decide(need, cluster, classes, effort) {
        Answer::Placed { places, .. } => {
            take_back(need, &places, cluster, classes);
            None
        }
        Answer::Refused(refusal) => Some(refusal),
    }
}

fn take_back(need: &Need, places: &Places, cluster: &mut Cluster, classes: &Classes) {
    for (lot, node) in &places.spots {
        let class = classes.get(need.lots[*lot].class).expect("a pending pod's class is held");
        cluster.give_back(*node, &class.usage);
    }
}

/// Places enough pods of the unit, or says where most of them found a place; not even that where the sums reject all.
fn find(
    need: &Need,
    cluster: &mut Cluster,
    classes: &mut Classes,
    effort: &mut Effort,
) -> Result<(Places, Region), Option<Short>> {
    let mut ranking = slots::ranked(need, cluster, classes); // every domain rejected or ranked from sums
    let mut closest: Option<Short> = None;
    let mut proven = true;
    while let Some(region) = ranking.next_feasible() {
        match in_region(need, region, cluster, classes, effort) {
            Tried::Placed(places) => return Ok((places, region)),
            // Only with several classes: each fits alone, but not all together.
            Tried::Short(short) => {
                proven &= short.proven;
                if closest.as_ref().is_none_or(|closest| short.fits_count > closest.fits_count) {
                    closest = Some(short);
                }
            }
        }
    }
    Err(closest.map(|short| Short { proven, ..short }))
}

/// Why pods find no place where the sums alone say so.
pub(crate) fn refuse(need: &Need, cluster: &mut Cluster, classes: &mut Classes) -> Refusal {
    let ranking = slots::ranked(need, cluster, classes);
    if need.lots.len() > 1
        && let Some((region, _)) = ranking.nearest
    {
        // Sums count each class as if it came alone; how many pods fit together is shown by placing them.
        let short = Short { region, order: Order::SmallestFirst, fits_count: 0, proven: true };
        return explain(need, &short, cluster, classes);
    }
    let shortage = Shortage::from_sums(need, &ranking, cluster, classes);
    reasons::refusal(need, &shortage, cluster, classes)
}

/// What came of one region.
enum Tried {
    Placed(Places),
    Short(Short),
}

/// Too few pods found a place.
struct Short {
    region: Region,
    /// Placed in this order, most of them did.
    order: Order,
    fits_count: usize,
    /// Whether no other way does better than to fall short.
    proven: bool,
}

/// Tries what is quick first, and searches only where that fails.
fn in_region(need: &Need, region: Region, cluster: &mut Cluster, classes: &mut Classes, effort: &mut Effort) -> Tried {
    let mut most = 0;
    let mut best = Order::LargestFirst;
    for order in [Order::LargestFirst, Order::SmallestFirst] {
        let mut tentative = cluster.tentative(); // dropping it is the undo
        let mut places = Places { spots: Vec::with_capacity(need.required_count()), short_of: None };
        place::group(need, order, region, classes, &mut tentative, &mut places);
        if places.spots.len() >= need.required_count() {
            tentative.keep();
            return Tried::Placed(places);
        }
        if places.spots.len() > most {
            (most, best) = (places.spots.len(), order);
        }
    }
    let mut tentative = cluster.tentative();
    let proven = match search::way(need, region, classes, &mut tentative, effort) {
        Found::Way(mut places) => {
            // The quorum stands; pods beyond it take what is left.
            place::group(need, Order::LargestFirst, region, classes, &mut tentative, &mut places);
            tentative.keep();
            return Tried::Placed(places);
        }
        Found::NoWay => true,
        Found::GaveUp => false,
    };
    Tried::Short(Short { region, order: best, fits_count: most, proven })
}

/// What the first pod lacks that finds no place after the others have theirs.
fn explain(need: &Need, short: &Short, cluster: &mut Cluster, classes: &mut Classes) -> Refusal {
    let mut tentative = cluster.tentative();
    let mut places = Places::default();
    place::group(need, short.order, short.region, classes, &mut tentative, &mut places);
    let shortage = Shortage::after(&places, short.region, short.proven);
    reasons::refusal(need, &shortage, tentative.cluster(), classes)
}
