//! The current reservation: for which unit, since when, and what has become free for it.

use std::time::Duration;

use types::Timestamp;

use crate::cluster::compact_timestamp::saturating_add;
use crate::queue::{QueueOrder, UnitId};
use crate::reservation::ReservedCapacity;

/// A reservation ends when nothing that it waits for has become free for so long.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The current reservation.
#[derive(Debug)]
pub(crate) struct ActiveReservation {
    pub(crate) unit: UnitId,
    pub(crate) order: QueueOrder,
    pub(crate) started: Timestamp,
    pub(crate) until: Timestamp,
    /// What was free at the last check.
    pub(crate) capacity: ReservedCapacity,
    pub(crate) checked_at: Timestamp,
    /// The most pods that the capacity was free for so far, in thousandths.
    pub(crate) best_pods_milli: i64,
    /// Since when.
    pub(crate) progress_at: Timestamp,
}

impl ActiveReservation {
    /// When it ends by itself, if nothing more becomes free.
    pub(crate) fn ends_at(&self) -> Timestamp {
        saturating_add(self.progress_at, STALLED_AFTER).min(self.until)
    }
}
