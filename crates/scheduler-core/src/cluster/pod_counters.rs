//! Sums over the pods of each node that plugins declare: how many licences are in use, which nodes run a cache.
//!
//! The sums are columns like requested resources, so overlays, tentative pods and removed pods count in them without any
//! work by the plugin.

use smallvec::SmallVec;
use types::views::PodView;

use super::NodeIndex;

/// A number that a plugin wants summed over the pods on each node.
#[derive(Clone, Copy, Debug)]
pub struct PodCounter {
    /// Its name. Counters of the same name must count by the same function.
    pub name: &'static str,
    /// What one pod counts; 0 for nearly all pods.
    pub count: fn(&PodView) -> u32,
}

/// A registered counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CounterId(u16);

/// What one pod counts, without zeros.
pub(crate) type PodCounts = SmallVec<[(CounterId, u32); 1]>;

/// The registered counters and their sums.
#[derive(Clone, Debug, Default)]
pub(super) struct PodCounters {
    counters: Vec<PodCounter>,
    /// By counter and node.
    sums: Vec<Vec<i64>>,
    width: usize,
}

impl PodCounters {
    /// Registers a counter, once per name. Pods that are counted on nodes already are not counted again.
    pub(super) fn register(&mut self, counter: PodCounter) {
        if self.find(counter.name).is_none() {
            self.counters.push(counter);
            self.sums.push(vec![0; self.width]);
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<CounterId> {
        self.counters.iter().position(|counter| counter.name == name).map(|at| CounterId(at as u16))
    }

    pub(super) fn counts_of(&self, pod: &PodView) -> PodCounts {
        let counts = self.counters.iter().enumerate();
        let counts = counts.map(|(at, counter)| (CounterId(at as u16), (counter.count)(pod)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn grow(&mut self, width: usize) {
        self.width = width;
        self.sums.iter_mut().for_each(|sums| sums.resize(width, 0));
    }

    pub(super) fn add(&mut self, counts: &PodCounts, node: NodeIndex, sign: i64) {
        for (counter, count) in counts {
            self.sums[usize::from(counter.0)][node.at()] += sign * i64::from(*count);
        }
    }

    /// Sets the sums of a node to zero. Returns them, for [`restore`](Self::restore).
    pub(super) fn take(&mut self, node: NodeIndex) -> Vec<i64> {
        self.sums.iter_mut().map(|sums| std::mem::take(&mut sums[node.at()])).collect()
    }

    /// Restores the sums of a node.
    pub(super) fn restore(&mut self, node: NodeIndex, taken: &[i64]) {
        self.sums.iter_mut().zip(taken).for_each(|(sums, taken)| sums[node.at()] = *taken);
    }

    pub(super) fn sum(&self, counter: CounterId, node: NodeIndex) -> i64 {
        self.sums[usize::from(counter.0)][node.at()]
    }
}

#[cfg(test)]
impl PodCounters {
    /// Registers the same counters, with sums of 0.
    pub(super) fn copy_registrations(&self, other: &mut PodCounters) {
        other.grow(self.width);
        self.counters.iter().for_each(|counter| other.register(*counter));
    }

    pub(super) fn sums(&self) -> &[Vec<i64>] {
        &self.sums
    }
}
