//! Remedies for waiting groups: when a search is due, and how blockers are named.
//!
//! Searches run apart from decisions, when the shell has time: after the first refusal of a group, and then at most
//! once per interval however often it is refused. A refusal also becomes outdated by itself: a group is queued again
//! only when capacity grows, not when it shrinks. So, once something has changed, reported groups are searched and
//! reported again, one after another.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use types::Timestamp;

use super::Core;
use crate::cycle;
use crate::decision::Unit;
use crate::demand::Demand;
use crate::demand::groups::{GroupId, TrackedGroup};
use crate::explain::refusal::{Refusal, RefusalCause};
use crate::explain::remedies::{Blocker, Remedy, RemedyReport, RemedyStatus, RootOwner};
use crate::explain::remedy_search::{self, BlockerPlan, RemedyCandidates, RemedyRequest, RunningUnit};
use crate::placement::search::SearchBudget;
use crate::queue::UnitId;

/// How many pods on nodes are considered as blockers. A pass over them takes a few milliseconds.
const MAX_PODS_EXAMINED: usize = 50_000;

impl Core {
    /// Searches for remedies for at most `max_count` waiting groups for which that is due. A refusal with
    /// [`RemedyStatus::Pending`] gets its remedies here, and an outdated one is replaced. The refusal is none for a
    /// group that fits by now; it is decided next.
    pub fn find_remedies(&mut self, now: Timestamp, max_count: usize) -> Vec<(Unit, Option<Refusal>)> {
        let Some(pause) = self.config.remedies_interval else { return Vec::new() };
        let (mut reports, mut running) = (Vec::new(), None);
        while reports.len() < max_count
            && let Some(unit) = self.next_for_remedies(now, pause)
        {
            // A unit that no longer waits is decided again, or was placed.
            let Some(demand) = self.demand(unit).filter(|_| self.queue.is_waiting(unit)) else { continue };
            self.enforce_reservation_for(unit);
            self.remedy_schedule.record_search(unit, now);
            let refusal = self.dry_run(&demand).map(|refusal| {
                let running = running.get_or_insert_with(|| self.running_units());
                let remedies = RemedyStatus::Found(self.remedies_for(unit, &demand, &refusal, running));
                Refusal { remedies, ..refusal }
            });
            if refusal.is_none() {
                self.found_to_fit(unit);
            }
            reports.push((demand.unit, refusal));
        }
        reports
    }

    fn next_for_remedies(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        let due = self.remedy_schedule.next_due(now, pause);
        // Decisions come first: refreshing the numbers of waiting groups can wait.
        due.or_else(|| if self.queue.has_ready() { None } else { self.remedy_schedule.next_stale(now, pause) })
    }

    /// When [`Core::find_remedies`] has something to do.
    pub fn remedies_due_at(&self) -> Option<Timestamp> {
        self.config.remedies_interval.and_then(|pause| self.remedy_schedule.next_at(pause))
    }

    /// Schedules a search for remedies after a refusal.
    pub(super) fn note_refused(&mut self, unit: UnitId, refusal: &mut Refusal, now: Timestamp) {
        // Single pods get kube-scheduler's message; their remedies are searched on request.
        let has_remedies = matches!(unit, UnitId::Group(_))
            && matches!(refusal.cause, RefusalCause::DoesNotFit | RefusalCause::NoDomain { .. });
        if let Some(pause) = self.config.remedies_interval.filter(|_| has_remedies)
            && self.remedy_schedule.schedule(unit, now, pause)
        {
            refusal.remedies = RemedyStatus::Pending;
        }
    }

    /// Why the unit does not fit now; none if it does. Changes nothing.
    pub(super) fn dry_run(&mut self, demand: &Demand) -> Option<Refusal> {
        cycle::dry_run(demand, &mut self.cluster, &mut self.classes, SearchBudget::of(self.config.max_search_steps))
    }

    /// Searches for remedies.
    pub(super) fn remedies_for(
        &mut self,
        unit: UnitId,
        demand: &Demand,
        refusal: &Refusal,
        running: &RunningUnits,
    ) -> Arc<RemedyReport> {
        let members_on: Vec<_> = match unit {
            UnitId::Group(group) => self.groups.get(group).placed.nodes().collect(),
            UnitId::Pod(_) => Vec::new(),
        };
        let root_owner = match unit {
            UnitId::Group(group) => root_owner_of(self.groups.get(group)),
            UnitId::Pod(pod) => RootOwner { kind: "pod".to_owned(), key: self.pods.get(pod).key() },
        };
        let request = RemedyRequest {
            unit,
            demand,
            refusal,
            root_owner: &root_owner,
            members_on: &members_on,
            running: &running.units,
        };
        let max_steps = self.config.max_search_steps;
        let mut candidates: RemedyCandidates =
            remedy_search::search(&request, &mut self.cluster, &mut self.classes, max_steps);
        candidates.report.truncated |= running.truncated && refusal.can_fit_later;
        if let Some(end) = self.blocking_reservation(&demand.for_all_pending()) {
            // There is capacity: no unit has to end, and no node has to be added.
            candidates.report.remedies.retain(|remedy| !remedy.is_about_nodes());
            return candidates.into_report(Some(end));
        }
        let wait = candidates.blocker_plan.take().map(|plan| self.wait_for(&plan, running));
        candidates.into_report(wait)
    }

    /// The units with pods on nodes.
    pub(super) fn running_units(&self) -> RunningUnits {
        let mut running = RunningUnits { units: Vec::new(), truncated: false };
        let mut by_group: FxHashMap<GroupId, usize> = FxHashMap::default();
        let mut pods_count = 0;
        for (id, pod) in self.pods.with_ids() {
            let Some(node) = pod.stage.node().filter(|node| self.cluster.node(*node).present) else { continue };
            pods_count += 1;
            if pods_count > MAX_PODS_EXAMINED {
                running.truncated = true;
                break;
            }
            let mut new = |unit| {
                running.units.push(RunningUnit { unit, placed: Vec::new() });
                running.units.len() - 1
            };
            let at = match pod.group {
                Some(group) => *by_group.entry(group).or_insert_with(|| new(UnitId::Group(group))),
                None => new(UnitId::Pod(id)),
            };
            running.units[at].placed.push((node, Arc::clone(&pod.usage)));
        }
        running
    }

    fn wait_for(&self, plan: &BlockerPlan, running: &RunningUnits) -> Remedy {
        let blockers = plan.blockers.iter().map(|at| {
            let RunningUnit { unit, placed } = &running.units[*at];
            let pods_count = placed.len();
            match unit {
                UnitId::Pod(id) => {
                    let key = self.pods.get(*id).key();
                    Blocker { kind: "pod".to_owned(), key, pods_count, group: None }
                }
                UnitId::Group(id) => group_blocker(self.groups.get(*id), pods_count),
            }
        });
        Remedy::WaitFor { blockers: blockers.collect(), domain: plan.region.chosen_domain(&self.cluster) }
    }
}

/// All units with pods on nodes.
pub(super) struct RunningUnits {
    units: Vec<RunningUnit>,
    /// Whether there are more than were considered.
    truncated: bool,
}

/// The owner of the group, such as its Job, which users know better than the group.
fn root_owner_of(group: &TrackedGroup) -> RootOwner {
    let owner = group.spec.as_ref().and_then(|spec| spec.owner.as_ref());
    let (kind, name) = match owner {
        Some(owner) => (owner.kind.to_lowercase(), &owner.name),
        None => ("podgroup".to_owned(), &group.key.name),
    };
    RootOwner { kind, key: types::views::ObjectKey::new(group.key.namespace.as_str(), name.as_str()) }
}

fn group_blocker(group: &TrackedGroup, pods_count: usize) -> Blocker {
    let RootOwner { kind, key } = root_owner_of(group);
    Blocker { kind, key, pods_count, group: Some(group.key.clone()) }
}
