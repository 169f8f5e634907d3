//! Exact sums of requests that never overflow a column, whatever pods and nodes declare.
//!
//! Any user who may create pods can request amounts up to the largest integer, and can name a node for such pods. So
//! each amount is capped at a bound that no real amount reaches. A sum that exceeds the column's range is stored
//! separately and exactly: when pods are removed, the sum is the same as before they were added.

use std::collections::BTreeMap;

use super::{NodeIndex, ResourceId};

/// The most that one pod counts with of one resource, 2 EiB of bytes. A pod that requests that much fits nowhere.
pub(crate) const MAX_REQUEST: i64 = 1 << 61;

/// The most that one node counts with of one resource.
pub(crate) const MAX_ALLOCATABLE: i64 = MAX_REQUEST - 1;

/// The largest sum in a column. Adding one more pod does not overflow, and it is more than any node has.
pub(super) const MAX_COLUMN_SUM: i64 = 1 << 62;

/// Identifies a sum.
pub(super) type SumKey = (ResourceId, NodeIndex);

/// Exact sums that are in no column: those of at least [`MAX_COLUMN_SUM`], whose column entry is [`MAX_COLUMN_SUM`],
/// and those of resources without a column.
#[derive(Clone, Debug, Default)]
pub(super) struct OverflowSums(BTreeMap<SumKey, i128>);

impl OverflowSums {
    /// Adds to a sum in a column; `amount` is at most [`MAX_REQUEST`], and negative to subtract what was added
    /// before.
    #[inline]
    pub(super) fn add(&mut self, entry: &mut i64, of: SumKey, amount: i64) {
        let sum = *entry + amount;
        // Both are below the bound, which is a power of two.
        if *entry | sum < MAX_COLUMN_SUM {
            *entry = sum;
        } else {
            self.add_overflowing(entry, of, amount);
        }
    }

    #[cold]
    fn add_overflowing(&mut self, entry: &mut i64, of: SumKey, amount: i64) {
        let before = self.0.remove(&of).unwrap_or(i128::from(*entry));
        let sum = before + i128::from(amount);
        *entry = self.store_overflow(of, sum);
    }

    /// Stores a sum if it exceeds the column's range. Returns its column entry.
    fn store_overflow(&mut self, of: SumKey, sum: i128) -> i64 {
        match i64::try_from(sum).ok().filter(|sum| *sum < MAX_COLUMN_SUM) {
            Some(sum) => sum,
            None => {
                self.0.insert(of, sum);
                MAX_COLUMN_SUM
            }
        }
    }

    /// Sets a sum in a column to zero. Returns the exact sum, for [`restore`](Self::restore).
    pub(super) fn take(&mut self, entry: &mut i64, of: SumKey) -> i128 {
        let sum = i128::from(std::mem::take(entry));
        self.0.remove(&of).unwrap_or(sum)
    }

    /// Restores a sum in a column.
    pub(super) fn restore(&mut self, entry: &mut i64, of: SumKey, sum: i128) {
        *entry = self.store_overflow(of, sum);
    }

    /// Adds to a sum that has no column.
    pub(super) fn add_without_column(&mut self, of: SumKey, amount: i64) {
        let sum = self.0.remove(&of).unwrap_or(0) + i128::from(amount);
        if sum != 0 {
            self.0.insert(of, sum);
        }
    }

    /// The column entry that a sum without a column would have.
    pub(super) fn sum_without_column(&self, of: SumKey) -> i64 {
        self.0.get(&of).map_or(0, |sum| i64::try_from(*sum).unwrap_or(MAX_COLUMN_SUM).min(MAX_COLUMN_SUM))
    }

    /// Moves the sums of a resource into its new column, by node.
    pub(super) fn move_to_column(&mut self, resource: ResourceId, column: &mut [i64]) {
        let all = (resource, NodeIndex(0))..=(resource, NodeIndex(u32::MAX));
        let sums: Vec<(SumKey, i128)> = self.0.range(all).map(|(of, sum)| (*of, *sum)).collect();
        for (of, sum) in sums {
            self.0.remove(&of);
            column[of.1.at()] = self.store_overflow(of, sum);
        }
    }

    /// Moves them back from a column that is removed.
    pub(super) fn move_from_column(&mut self, resource: ResourceId, column: &[i64]) {
        for (at, entry) in column.iter().enumerate().filter(|(_, entry)| **entry != 0) {
            self.0.entry((resource, NodeIndex(at as u32))).or_insert(i128::from(*entry));
        }
    }

    /// The resource of each sum.
    pub(super) fn resources(&self) -> impl Iterator<Item = ResourceId> + '_ {
        self.0.keys().map(|(resource, _)| *resource)
    }

    /// The number of sums stored here.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_exact_again_when_it_fits_the_column() {
        let of = (ResourceId::MEMORY, NodeIndex(0));
        let (mut sums, mut entry) = (OverflowSums::default(), 0);
        for amount in [7, MAX_REQUEST, MAX_REQUEST - 1, MAX_REQUEST, 5] {
            sums.add(&mut entry, of, amount);
        }
        assert_eq!((entry, sums.len()), (MAX_COLUMN_SUM, 1));
        sums.add(&mut entry, of, -MAX_REQUEST);
        assert_eq!(entry, MAX_COLUMN_SUM, "12 plus two times the maximum, minus one");
        sums.add(&mut entry, of, -MAX_REQUEST);
        assert_eq!((entry, sums.len()), (MAX_REQUEST + 11, 0));
    }
}
