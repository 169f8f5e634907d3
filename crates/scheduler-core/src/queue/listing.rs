//! The units in the queue, as queries list them.

use types::Timestamp;

use super::{IncompleteReason, Queue, QueueEntry, QueueOrder, UnitId, UnitQueueState};
use crate::decision::Unit;
use crate::explain::explanation::{QueueStatus, QueuedUnit, ReservationReport};

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

/// One wait of one unit: from a refusal until the unit is woken or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitWait {
    pub(crate) unit: UnitId,
    number: u64,
}

impl ListedUnit {
    /// The entry with the unit's name and what is reserved for it. `position` is that in queue order, from 1, and the
    /// number of units.
    pub(crate) fn named(
        self,
        unit: Unit,
        (position, units_count): (usize, usize),
        reservation: Option<ReservationReport>,
    ) -> QueuedUnit {
        QueuedUnit {
            unit,
            state: self.state,
            position,
            units_count,
            priority: self.order.priority.0,
            pods_count: self.pods_count,
            tries_count: self.tries_count,
            since: self.order.created.time(),
            next_try: self.next_try,
            reservation,
        }
    }
}

impl Queue {
    /// Every unit that has something to decide, in no order. Visits all units.
    pub(crate) fn listing(&self) -> Vec<ListedUnit> {
        self.entries.iter().filter_map(|(unit, entry)| listed(*unit, entry)).collect()
    }

    /// The entry of a unit that has something to decide, with its position in queue order, from 1, and the number of
    /// such units. Visits all units.
    pub(crate) fn position(&self, unit: UnitId) -> Option<(ListedUnit, (usize, usize))> {
        let own = listed(unit, self.entries.get(&unit)?)?;
        let (mut position, mut count) = (1, 0);
        for (other, entry) in self.entries.iter().filter(|(_, entry)| entry.state != UnitQueueState::Idle) {
            count += 1;
            position += usize::from((entry.order, *other) < (own.order, unit));
        }
        Some((own, (position, count)))
    }

    /// The wait of a unit that does not fit, until a change wakes the unit.
    pub(crate) fn wait_of(&self, unit: UnitId) -> Option<UnitWait> {
        match &self.entries.get(&unit)?.state {
            UnitQueueState::Unschedulable(waiting) => Some(UnitWait { unit, number: waiting.number }),
            _ => None,
        }
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

/// The entry of a unit in a listing; none if it has nothing to decide.
fn listed(unit: UnitId, entry: &QueueEntry) -> Option<ListedUnit> {
    let (state, next_try) = match &entry.state {
        UnitQueueState::Idle => return None,
        UnitQueueState::Ready => (QueueStatus::Active, None),
        UnitQueueState::Unschedulable(waiting) => (QueueStatus::Waiting, waiting.recount),
        UnitQueueState::BackingOff(until) => (QueueStatus::BackOff, Some(*until)),
        UnitQueueState::Incomplete(IncompleteReason::Unsupported, _) => (QueueStatus::Unsupported, None),
        UnitQueueState::Incomplete(IncompleteReason::MissingPods | IncompleteReason::MissingPodGroup, _) => {
            (QueueStatus::Incomplete, None)
        }
    };
    let (pods_count, tries_count) = (entry.pods_count, entry.tries_count);
    Some(ListedUnit { unit, order: entry.order, state, pods_count, tries_count, next_try })
}
