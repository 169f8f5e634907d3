//! A current reservation: for which unit, since when, and what has become free for it.

use std::time::Duration;

use types::Timestamp;

use crate::cluster::Cluster;
use crate::cluster::compact_timestamp::saturating_add;
use crate::cluster::ghosts::GhostSetId;
use crate::demand::Demand;
use crate::demand::classes::ClassId;
use crate::queue::QueueOrder;

/// A reservation ends when nothing that it waits for has become free for so long.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// A current reservation.
#[derive(Debug)]
pub(crate) struct ActiveReservation {
    pub(crate) ghosts: GhostSetId,
    /// The place of the ghosts in queue order: that of the unit.
    pub(crate) order: QueueOrder,
    /// What the ghosts were planned for.
    pub(crate) basis: PlanBasis,
    pub(crate) started: Timestamp,
    pub(crate) until: Timestamp,
    /// How many whole pods the capacity is free for, at the last check.
    pub(crate) free_pods_count: usize,
    /// In thousandths, with parts of a pod, the most so far.
    pub(crate) best_pods_milli: i64,
    /// Since when.
    pub(crate) progress_at: Timestamp,
}

/// What a plan depends on: the nodes and the demand of the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanBasis {
    pub(crate) cluster_shape: u64,
    pub(crate) class_counts: Vec<(ClassId, usize)>,
    pub(crate) required_count: usize,
}

impl PlanBasis {
    /// What a plan for this demand depends on.
    pub(crate) fn of(demand: &Demand, cluster: &Cluster) -> PlanBasis {
        let class_counts = demand.class_counts.iter().map(|class_count| (class_count.class, class_count.count));
        PlanBasis {
            cluster_shape: cluster.shape(),
            class_counts: class_counts.collect(),
            required_count: demand.required_count(),
        }
    }
}

impl ActiveReservation {
    /// When it ends by itself, if nothing more becomes free.
    pub(crate) fn ends_at(&self) -> Timestamp {
        saturating_add(self.progress_at, STALLED_AFTER).min(self.until)
    }

    /// Records how many pods the capacity is free for.
    pub(crate) fn record_free(&mut self, pods_milli: i64, whole_pods: i64, now: Timestamp) {
        self.free_pods_count = usize::try_from(whole_pods).unwrap_or(0);
        if pods_milli > self.best_pods_milli {
            (self.best_pods_milli, self.progress_at) = (pods_milli, now);
        }
    }
}
