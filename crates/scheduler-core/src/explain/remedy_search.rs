//! Searches for remedies for a refusal. Each is tried on the cluster before it is reported, and the cluster does not
//! change.
//!
//! The search is not part of a decision: it runs for waiting units when there is time. Its work is limited, and the
//! report states when a limit was reached.

mod key; // another topology key, or none
mod blockers; // running units that must end
mod min_count; // a lower minCount
mod nodes; // more nodes, or larger ones

use std::sync::Arc;

use crate::cluster::{Cluster, NodeIndex};
use crate::cycle::{self, Trial};
use crate::demand::Demand;
use crate::demand::classes::Classes;
use crate::demand::pods::PodTable;
use crate::explain::refusal::{Refusal, RefusalCause};
use crate::explain::remedies::{Remedy, RemedyReport, RootOwner};
use crate::placement::search::SearchBudget;
use crate::queue::UnitId;

pub(crate) use blockers::BlockerPlan;

/// How many trial decisions one search may make.
const MAX_TRIALS: usize = 24;
/// How many search steps one trial may take.
const MAX_STEPS: usize = 1000;

/// The unit that needs remedies.
pub(crate) struct RemedyRequest<'a> {
    pub(crate) unit: UnitId,
    pub(crate) demand: &'a Demand,
    pub(crate) refusal: &'a Refusal,
    /// The object that the unit belongs to.
    pub(crate) root_owner: &'a RootOwner,
    /// Nodes of the placed members.
    pub(crate) members_on: &'a [NodeIndex],
    /// The pods on nodes, its own included.
    pub(crate) pods: &'a PodTable,
}

/// The result of the search, before blockers are named.
pub(crate) struct RemedyCandidates {
    pub(crate) report: RemedyReport,
    /// Reported before more and larger nodes.
    pub(crate) blocker_plan: Option<BlockerPlan>,
}

/// Searches for remedies for one unit.
pub(crate) fn search(
    request: &RemedyRequest<'_>,
    cluster: &mut Cluster,
    classes: &mut Classes,
    max_steps: usize,
) -> RemedyCandidates {
    let max_steps = max_steps.min(MAX_STEPS);
    let mut context = SearchContext { cluster, classes, trials_left: MAX_TRIALS, max_steps, truncated: false };
    let mut remedies = Vec::new();
    if request.refusal.cause == RefusalCause::DoesNotFit {
        remedies.extend(min_count::lower_min_count(request, &mut context));
    }
    // One placed pod is enough for a decision about a Basic group. Remedies must hold for all its pods.
    let demand = &request.demand.for_all_pending();
    let request = &RemedyRequest { demand, ..*request };
    remedies.extend(key::wider_topology_key(request, &mut context));
    // If the unit would not fit even on empty nodes, no unit's end helps.
    let can_wait = request.refusal.cause == RefusalCause::DoesNotFit && request.refusal.can_fit_later;
    let blocker_plan = can_wait.then(|| blockers::plan(request, &mut context)).flatten();
    if request.refusal.cause == RefusalCause::DoesNotFit {
        remedies.extend(nodes::add_nodes(demand, &mut context));
        remedies.extend(nodes::larger_nodes(request, &mut context));
    }
    RemedyCandidates { report: RemedyReport { remedies, truncated: context.truncated }, blocker_plan }
}

impl RemedyCandidates {
    /// The report with the remedy that waits for other units in its position.
    pub(crate) fn into_report(self, wait: Option<Remedy>) -> Arc<RemedyReport> {
        let RemedyReport { mut remedies, truncated } = self.report;
        let at = remedies.iter().position(Remedy::is_about_nodes).unwrap_or(remedies.len());
        wait.into_iter().for_each(|wait| remedies.insert(at, wait));
        Arc::new(RemedyReport { remedies, truncated })
    }
}

/// The state of a search, with its remaining budget.
pub(crate) struct SearchContext<'a> {
    cluster: &'a mut Cluster,
    classes: &'a mut Classes,
    trials_left: usize,
    max_steps: usize,
    /// Whether something was skipped because of a limit.
    truncated: bool,
}

impl SearchContext<'_> {
    /// Tries a decision; `None` when no trials are left.
    fn try_decide(&mut self, demand: &Demand) -> Option<Trial> {
        if self.trials_left == 0 {
            self.truncated = true;
            return None;
        }
        self.trials_left -= 1;
        Some(cycle::try_decide(demand, self.cluster, self.classes, SearchBudget::of(self.max_steps)))
    }
}
