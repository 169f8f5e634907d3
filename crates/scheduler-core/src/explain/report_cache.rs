//! The placement reports of recently placed units, cached for queries.

use std::collections::{BTreeMap, VecDeque};

use types::Timestamp;

use crate::decision::Unit;
use crate::demand::pods::PodId;
use crate::explain::placement_report::PlacementReport;
use crate::queue::UnitId;

/// Decisions that wait for `Core::cache_placement_reports`; of more, only the last.
const MAX_PENDING_REPORTS: usize = 16;
/// The number of cached placement reports.
const MAX_CACHED_REPORTS: usize = 256;

/// The placement reports of recently placed units.
#[derive(Debug, Default)]
pub(crate) struct ReportCache {
    /// Just placed.
    pub(crate) pending: VecDeque<UnitId>,
    pub(crate) reports: BTreeMap<Unit, CachedReport>,
    /// In the order of insertion.
    order: VecDeque<Unit>,
    pub(crate) last: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) struct CachedReport {
    /// One of the pods, to detect a later unit with the same name.
    pub(crate) pod: PodId,
    pub(crate) arrival: u64,
    pub(crate) report: PlacementReport,
}

impl ReportCache {
    /// The unit was placed.
    pub(crate) fn record_placed(&mut self, unit: UnitId) {
        if self.pending.len() == MAX_PENDING_REPORTS {
            self.pending.pop_front();
        }
        self.pending.push_back(unit);
    }

    pub(crate) fn insert(&mut self, unit: Unit, report: CachedReport) {
        if self.reports.insert(unit.clone(), report).is_none() {
            self.order.push_back(unit);
        }
        if self.order.len() > MAX_CACHED_REPORTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.reports.remove(&oldest);
        }
    }
}
