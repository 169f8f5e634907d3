//! The units in the queue, in queue order.

use types::Timestamp;

use super::{IncompleteReason, Queue, QueueOrder, UnitId, UnitQueueState};
use crate::explain::explanation::QueueStatus;

/// A unit that has something to decide.
#[derive(Debug)]
pub(crate) struct ListedUnit {
    pub(crate) unit: UnitId,
    pub(crate) order: QueueOrder,
    pub(crate) state: QueueStatus,
    pub(crate) pods_count: usize,
    pub(crate) tries_count: u32,
    pub(crate) next_try: Option<Timestamp>,
}

impl Queue {
    /// Every unit that has something to decide, in queue order. Visits all units.
    pub(crate) fn listing(&self) -> Vec<ListedUnit> {
        let mut listing = Vec::new();
        for (unit, entry) in &self.entries {
            let (state, next_try) = match &entry.state {
                UnitQueueState::Idle => continue,
                UnitQueueState::Ready => (QueueStatus::Active, None),
                UnitQueueState::Unschedulable(waiting) => (QueueStatus::Waiting, waiting.recount),
                UnitQueueState::BackingOff(until) => (QueueStatus::BackOff, Some(*until)),
                UnitQueueState::Incomplete(IncompleteReason::Unsupported, _) => (QueueStatus::Unsupported, None),
                UnitQueueState::Incomplete(IncompleteReason::MissingPods | IncompleteReason::MissingPodGroup, _) => {
                    (QueueStatus::Incomplete, None)
                }
            };
            let (pods_count, tries_count) = (entry.pods_count, entry.tries_count);
            listing.push(ListedUnit { unit: *unit, order: entry.order, state, pods_count, tries_count, next_try });
        }
        listing.sort_unstable_by_key(|listed| (listed.order, listed.unit));
        listing
    }

    /// Whether the unit does not fit and waits for a change. A unit whose equals are being decided does not: if they are
    /// placed, it is next.
    pub(crate) fn is_waiting(&self, unit: UnitId) -> bool {
        match self.entries.get(&unit).map(|entry| &entry.state) {
            Some(UnitQueueState::Unschedulable(waiting)) => !self.waiting.is_equal_awake(waiting),
            _ => false,
        }
    }
}
