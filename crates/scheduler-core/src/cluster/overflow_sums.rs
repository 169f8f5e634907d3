//! Sums of what pods ask for: exact, and never too large for the columns, whatever pods and nodes say.
//!
//! Anybody who may make pods writes numbers up to the largest there is, and may put such pods on a node by its name. So
//! one amount is cut at a bound that nothing real comes near, and a sum of more than columns show is kept apart, exactly:
//! when pods leave, what is left is what it was before they came.

use std::collections::BTreeMap;

use super::{NodeIndex, ResourceId};

/// The most that one pod counts with of one resource, 2 EiB of bytes. Whoever asks for that much fits nowhere.
pub(crate) const MAX_REQUEST: i64 = 1 << 61;

/// The most that one node counts with of one resource.
pub(crate) const MAX_ALLOCATABLE: i64 = MAX_REQUEST - 1;

/// The largest sum that is shown. With one more pod it is still a number, and it is more than any node has.
pub(super) const MAX_COLUMN_SUM: i64 = 1 << 62;

/// What is summed up.
pub(super) type SumKey = (ResourceId, NodeIndex);

/// Exact sums that stand in no column: those of [`SHOWN_MAX`] and more, of which [`SHOWN_MAX`] is shown, and those of
/// resources that have no column.
#[derive(Debug, Default)]
pub(super) struct OverflowSums(BTreeMap<SumKey, i128>);

impl OverflowSums {
    /// Adds to the sum that is shown; `amount` is at most [`ASKED_MAX`], and below zero for what was added before.
    #[inline]
    pub(super) fn add(&mut self, shown: &mut i64, of: SumKey, amount: i64) {
        let sum = *shown + amount;
        // Both are below the bound, which is a power of two.
        if *shown | sum < MAX_COLUMN_SUM {
            *shown = sum;
        } else {
            self.add_overflowing(shown, of, amount);
        }
    }

    #[cold]
    fn add_overflowing(&mut self, shown: &mut i64, of: SumKey, amount: i64) {
        let before = self.0.remove(&of).unwrap_or(i128::from(*shown));
        let sum = before + i128::from(amount);
        *shown = self.store_overflow(of, sum);
    }

    /// Keeps a sum if it is too large to be shown. Returns what is shown of it.
    fn store_overflow(&mut self, of: SumKey, sum: i128) -> i64 {
        match i64::try_from(sum).ok().filter(|sum| *sum < MAX_COLUMN_SUM) {
            Some(sum) => sum,
            None => {
                self.0.insert(of, sum);
                MAX_COLUMN_SUM
            }
        }
    }

    /// Adds to a sum that has no column.
    pub(super) fn add_without_column(&mut self, of: SumKey, amount: i64) {
        let sum = self.0.remove(&of).unwrap_or(0) + i128::from(amount);
        if sum != 0 {
            self.0.insert(of, sum);
        }
    }

    /// What would be shown of a sum that has no column.
    pub(super) fn sum_without_column(&self, of: SumKey) -> i64 {
        self.0.get(&of).map_or(0, |sum| i64::try_from(*sum).unwrap_or(MAX_COLUMN_SUM).min(MAX_COLUMN_SUM))
    }

    /// The sums of a resource have a column from now on, by node.
    pub(super) fn move_to_column(&mut self, resource: ResourceId, column: &mut [i64]) {
        let all = (resource, NodeIndex(0))..=(resource, NodeIndex(u32::MAX));
        let sums: Vec<(SumKey, i128)> = self.0.range(all).map(|(of, sum)| (*of, *sum)).collect();
        for (of, sum) in sums {
            self.0.remove(&of);
            column[of.1.at()] = self.store_overflow(of, sum);
        }
    }

    /// They have none any more.
    pub(super) fn move_from_column(&mut self, resource: ResourceId, column: &[i64]) {
        for (at, shown) in column.iter().enumerate().filter(|(_, shown)| **shown != 0) {
            self.0.entry((resource, NodeIndex(at as u32))).or_insert(i128::from(*shown));
        }
    }

    /// How many sums stand here.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_exact_again_when_it_can_be_shown() {
        let of = (ResourceId::MEMORY, NodeIndex(0));
        let (mut apart, mut shown) = (OverflowSums::default(), 0);
        for amount in [7, MAX_REQUEST, MAX_REQUEST - 1, MAX_REQUEST, 5] {
            apart.add(&mut shown, of, amount);
        }
        assert_eq!((shown, apart.len()), (MAX_COLUMN_SUM, 1));
        apart.add(&mut shown, of, -MAX_REQUEST);
        assert_eq!(shown, MAX_COLUMN_SUM, "twelve and two of them, less one");
        apart.add(&mut shown, of, -MAX_REQUEST);
        assert_eq!((shown, apart.len()), (MAX_REQUEST + 11, 0));
    }
}
