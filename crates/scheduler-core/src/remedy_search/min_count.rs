//! How far a gang would have to lower its `minCount`.

use super::{RemedyRequest, SearchContext};
use crate::cycle::Trial;
use crate::demand::{Demand, UnitPolicy};
use crate::remedies::Remedy;

/// The largest `minCount` with which the gang fits now.
pub(super) fn lower_min_count(asked: &RemedyRequest<'_>, desk: &mut SearchContext<'_>) -> Option<Remedy> {
    let RemedyRequest { demand: need, refusal, .. } = asked;
    let UnitPolicy::Gang { min_count } = need.policy else { return None };
    let placed = need.placed_count;
    if placed >= min_count {
        return None;
    }
    // So many fit, and so many do not. For one class the sums are exact, so that both are known.
    let (mut fit, mut too_many) = (0, need.required_count());
    let mut is_proven = refusal.proven;
    let mut next = refusal.fits_count.min(too_many - 1);
    while fit + 1 < too_many {
        let tried = Demand { policy: UnitPolicy::Gang { min_count: placed + next.max(1) }, ..(*need).clone() };
        match desk.try_decide(&tried) {
            Some(Trial::Fits(_)) => fit = next.max(1),
            Some(Trial::DoesNotFit { proven }) => (too_many, is_proven) = (next.max(1), proven),
            None => {
                is_proven = false;
                break;
            }
        }
        // What is known to fit comes first, and mostly one more does not.
        next = if fit == refusal.fits_count { fit + 1 } else { (fit + too_many) / 2 };
    }
    (fit > 0).then(|| Remedy::LowerMinCount { to: placed + fit, is_largest: is_proven })
}
