//! One decision from start to end. Nothing but the tentative layer changes on the way, and dropping it undoes that.

use crate::classes::Classes;
use crate::cluster::Cluster;
use crate::need::Need;
use crate::place::{self, Places};
use crate::reasons::{self, Shortage};
use crate::refusal::Refusal;
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
pub(crate) fn decide(need: &Need, cluster: &mut Cluster, classes: &mut Classes) -> Answer {
    if let Some(refusal) = reasons::members_are_split(need, cluster) {
        return Answer::Refused(refusal);
    }
    let mut ranking = slots::ranked(need, cluster, classes); // every domain rejected or ranked from sums
    let mut closest: Option<(usize, Refusal)> = None;
    while let Some(region) = ranking.next_feasible() {
        let mut tentative = cluster.tentative(); // dropping it is the undo
        let places = place::group(need, region, classes, &mut tentative);
        let placed = places.spots.len();
        if placed >= need.required_count() {
            tentative.keep();
            return Answer::Placed { places, region };
        }
        // Only with several classes: each fits alone, but not all together in this order.
        if closest.as_ref().is_none_or(|(most, _)| placed > *most) {
            let shortage = Shortage::after(&places, region);
            let refusal = reasons::refusal(need, &shortage, tentative.cluster(), classes);
            closest = Some((placed, refusal));
        }
    }
    Answer::Refused(closest.map_or_else(|| refuse(need, cluster, classes), |(_, refusal)| refusal))
}

/// Why pods find no place where the sums alone say so.
pub(crate) fn refuse(need: &Need, cluster: &Cluster, classes: &mut Classes) -> Refusal {
    let ranking = slots::ranked(need, cluster, classes);
    let shortage = Shortage::from_sums(need, &ranking, cluster, classes);
    reasons::refusal(need, &shortage, cluster, classes)
}
