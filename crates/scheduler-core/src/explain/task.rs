//! Tasks for a [`Fork`](super::fork::Fork), and their results.
//!
//! The core makes a task in time proportional to its unit, not to the cluster. It has what depends on the unit: its
//! demand, its entry in the queue, the nodes of its pods. The rest is read from the fork.

use std::sync::Arc;

use types::Timestamp;
use types::views::PodView;

use crate::cluster::ghosts::{GhostSetId, GhostView};
use crate::cluster::{NodeIndex, TopologyId};
use crate::decision::Unit;
use crate::demand::Demand;
use crate::demand::classes::{Class, ClassId};
use crate::demand::pods::{ExclusionReason, PodId};
use crate::demand::requests::Usage;
use crate::explain::explanation::{QueuedUnit, ReservationReport};
use crate::explain::placement_report::PlacementReport;
use crate::explain::refusal::Refusal;
use crate::explain::remedies::RootOwner;
use crate::explain::report_cache::CachedReport;
use crate::queue::UnitId;
use crate::queue::listing::{ListedUnit, UnitWait};

/// Explain a unit, or a pod of a group.
#[derive(Debug)]
pub struct ExplainTask {
    pub(crate) revision: u64,
    /// What is to be explained.
    pub(crate) subject: Unit,
    /// The unit it belongs to.
    pub(crate) unit: UnitSnapshot,
    pub(crate) queued: Option<QueuedUnit>,
    pub(crate) exclusion: Option<ExclusionReason>,
    pub(crate) placement: PlacementSource,
}

/// Search for remedies for a waiting group.
#[derive(Debug)]
pub struct RemedyTask {
    pub(crate) revision: u64,
    pub(crate) unit: UnitSnapshot,
    pub(crate) demand: Demand,
    pub(crate) wait: UnitWait,
}

/// Compute the placement report of a unit that was just placed.
#[derive(Debug)]
pub struct ReportTask {
    pub(crate) revision: u64,
    pub(crate) unit: Unit,
    pub(crate) pods: Vec<(ClassId, NodeIndex, Arc<Usage>)>,
    pub(crate) classes: Vec<(ClassId, Arc<Class>)>,
    pub(crate) demand: ReportDemand,
    /// Which ghosts its decision saw.
    pub(crate) ghosts: GhostView,
    /// One of the pods, to detect a later unit with the same name.
    pub(crate) pod: PodId,
    pub(crate) arrival: u64,
    pub(crate) now: Timestamp,
}

/// List the queue.
#[derive(Debug)]
pub struct QueueTask {
    pub(crate) revision: u64,
    /// In no order.
    pub(crate) units: Vec<ListedUnit>,
}

/// A unit as it was at the moment of the fork.
#[derive(Debug)]
pub(crate) struct UnitSnapshot {
    pub(crate) id: UnitId,
    pub(crate) name: Unit,
    /// What it requests; none if it cannot be decided.
    pub(crate) demand: Option<Demand>,
    /// Why it cannot be decided.
    pub(crate) obstacle: Option<Refusal>,
    /// The classes of its pending pods.
    pub(crate) classes: Vec<(ClassId, Arc<Class>)>,
    /// Which ghosts a decision about it sees.
    pub(crate) ghosts: GhostView,
    /// Nodes of the placed members.
    pub(crate) members_on: Vec<NodeIndex>,
    pub(crate) root_owner: RootOwner,
    /// Set if it waits for a change: a wake-up was missed if it fits.
    pub(crate) unwoken: Option<UnitWait>,
}

/// Room that was reserved for a unit at the moment of the fork.
#[derive(Clone, Debug)]
pub(crate) struct ReservationSnapshot {
    pub(crate) ghosts: GhostSetId,
    pub(crate) report: ReservationReport,
}

/// The placed pods that a placement report is about.
#[derive(Debug)]
pub(crate) enum PlacementSource {
    /// The report was computed right after the decision.
    Recorded(Box<PlacementReport>),
    Pods {
        pods: Vec<(Arc<PodView>, NodeIndex, Arc<Usage>)>,
        demand: ReportDemand,
    },
}

/// For what a domain of placed pods was chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportDemand {
    /// The topology key that they share.
    pub(crate) topology: Option<TopologyId>,
    /// How many more pods the domain was to have capacity for.
    pub(crate) coming_count: usize,
}

/// The remedies of a group.
#[derive(Debug)]
pub struct RemedyResult {
    pub(crate) unit: Unit,
    /// The wait for which they hold.
    pub(crate) wait: UnitWait,
    /// Set if the group fits although nothing has woken it.
    pub(crate) missed_wakeup: Option<UnitWait>,
    /// The refusal with remedies; none if the group fits.
    pub(crate) refusal: Option<Refusal>,
}

/// The placement report of a unit, computed right after its decision.
#[derive(Debug)]
pub struct RecordedReport {
    pub(crate) unit: Unit,
    pub(crate) cached: CachedReport,
}
