//! Looks for ways out of a refusal. Every way is tried on the cluster before it is told, and the cluster is left as it was.
//!
//! This is no part of a decision: it is done for those who wait, when there is time. Its work is bounded, and the answer
//! says when that bound was met.

mod key; // pods need not be so close together
mod blockers; // some of what runs ends
mod min_count; // a gang asks for fewer pods
mod nodes; // there are more nodes, or larger ones

use std::sync::Arc;

use crate::classes::Classes;
use crate::cluster::{Cluster, NodeIndex};
use crate::cycle::{self, Trial};
use crate::demand::Demand;
use crate::queue::UnitId;
use crate::refusal::{Refusal, RefusalCause};
use crate::remedies::{Remedy, RemedyReport, RootOwner};
use crate::removal_overlay::PlacedUsages;
use crate::search::SearchBudget;

pub(crate) use blockers::BlockerPlan;

/// How many decisions may be tried for one refusal.
const MAX_TRIALS: usize = 24;
/// How many steps one of them may search.
const MAX_STEPS: usize = 1000;

/// A unit with pods on nodes.
#[derive(Debug)]
pub(crate) struct RunningUnit {
    pub(crate) unit: UnitId,
    pub(crate) placed: PlacedUsages,
}

/// Who asks for advice.
pub(crate) struct RemedyRequest<'a> {
    pub(crate) unit: UnitId,
    pub(crate) demand: &'a Demand,
    pub(crate) refusal: &'a Refusal,
    /// What the unit comes from.
    pub(crate) root_owner: &'a RootOwner,
    /// Nodes of the members that have their place.
    pub(crate) members_on: &'a [NodeIndex],
    /// What runs; the asking unit may be among it.
    pub(crate) running: &'a [RunningUnit],
}

/// What was found, before those who would have to leave have got their names.
pub(crate) struct RemedyCandidates {
    pub(crate) report: RemedyReport,
    /// To be told before more and larger nodes.
    pub(crate) blocker_plan: Option<BlockerPlan>,
}

/// Looks for ways out for one unit.
pub(crate) fn search(
    asked: &RemedyRequest<'_>,
    cluster: &mut Cluster,
    classes: &mut Classes,
    steps_max: usize,
) -> RemedyCandidates {
    let steps_max = steps_max.min(MAX_STEPS);
    let mut desk = SearchContext { cluster, classes, trials_left: MAX_TRIALS, max_steps: steps_max, truncated: false };
    let mut ways = Vec::new();
    if asked.refusal.cause == RefusalCause::DoesNotFit {
        ways.extend(min_count::lower_min_count(asked, &mut desk));
    }
    // A decision is worth making for one pod of a Basic group. What the group is told holds for all of them.
    let need = &asked.demand.for_all_pending();
    let asked = &RemedyRequest { demand: need, ..*asked };
    ways.extend(key::wider_topology_key(asked, &mut desk));
    // Where the unit would not fit even on empty nodes, nobody's leaving helps.
    let could_wait = asked.refusal.cause == RefusalCause::DoesNotFit && asked.refusal.can_fit_later;
    let plan = could_wait.then(|| blockers::plan(asked, &mut desk)).flatten();
    if asked.refusal.cause == RefusalCause::DoesNotFit {
        ways.extend(nodes::add_nodes(need, &mut desk));
        ways.extend(nodes::larger_nodes(asked, &mut desk));
    }
    RemedyCandidates { report: RemedyReport { remedies: ways, truncated: desk.truncated }, blocker_plan: plan }
}

impl RemedyCandidates {
    /// The advice with the way that waits for others, in its place.
    pub(crate) fn into_report(self, wait: Option<Remedy>) -> Arc<RemedyReport> {
        let RemedyReport { remedies: mut ways, truncated: cut } = self.report;
        let at = ways.iter().position(Remedy::is_about_nodes).unwrap_or(ways.len());
        wait.into_iter().for_each(|wait| ways.insert(at, wait));
        Arc::new(RemedyReport { remedies: ways, truncated: cut })
    }
}

/// What looking takes, and how much of it is left.
pub(crate) struct SearchContext<'a> {
    cluster: &'a mut Cluster,
    classes: &'a mut Classes,
    trials_left: usize,
    max_steps: usize,
    /// Whether something was left out for want of trials.
    truncated: bool,
}

impl SearchContext<'_> {
    /// Tries a decision; `None` when there were enough of that.
    fn try_decide(&mut self, demand: &Demand) -> Option<Trial> {
        if self.trials_left == 0 {
            self.truncated = true;
            return None;
        }
        self.trials_left -= 1;
        Some(cycle::try_decide(demand, self.cluster, self.classes, SearchBudget::of(self.max_steps)))
    }
}
