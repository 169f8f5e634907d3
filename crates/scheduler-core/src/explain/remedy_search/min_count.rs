//! How far the `minCount` of a gang must be lowered.

use super::{RemedyRequest, SearchContext};
use crate::cycle::Trial;
use crate::demand::{Demand, UnitPolicy};
use crate::explain::remedies::Remedy;

/// The largest `minCount` with which the gang fits now.
pub(super) fn lower_min_count(request: &RemedyRequest<'_>, context: &mut SearchContext<'_>) -> Option<Remedy> {
    let RemedyRequest { demand, refusal, .. } = request;
    let UnitPolicy::Gang { min_count } = demand.policy else { return None };
    let placed = demand.placed_count;
    if placed >= min_count {
        return None;
    }
    // `fit` pods fit, `too_many` do not. For one class the sums are exact, so both are known.
    let (mut fit, mut too_many) = (0, demand.required_count());
    let mut is_proven = refusal.proven;
    let mut next = refusal.fits_count.min(too_many - 1);
    while fit + 1 < too_many {
        let trial = Demand { policy: UnitPolicy::Gang { min_count: placed + next.max(1) }, ..(*demand).clone() };
        match context.try_decide(&trial) {
            Some(Trial::Fits(_)) => fit = next.max(1),
            Some(Trial::DoesNotFit { proven }) => (too_many, is_proven) = (next.max(1), proven),
            None => {
                is_proven = false;
                break;
            }
        }
        // The number that is known to fit comes first. Usually one more does not fit.
        next = if fit == refusal.fits_count { fit + 1 } else { (fit + too_many) / 2 };
    }
    (fit > 0).then(|| Remedy::LowerMinCount { to: placed + fit, is_largest: is_proven })
}
