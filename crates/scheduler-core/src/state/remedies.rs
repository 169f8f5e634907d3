//! Ways out for groups that wait: when they are due, and who is named in them.
//!
//! They are looked for apart from decisions, when the shell has time for it: after the first refusal of a group, and then
//! at most once in a while however often it is refused. A refusal also goes stale by itself: a group comes back only when
//! there is more room, and nobody tells it that there is less. So those who were told are told anew, one after another,
//! once something has changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use types::Timestamp;

use super::Core;
use crate::compact_timestamp::saturating_add;
use crate::cycle;
use crate::decision::Unit;
use crate::demand::Demand;
use crate::groups::{GroupId, TrackedGroup};
use crate::queue::UnitId;
use crate::refusal::{Refusal, RefusalCause};
use crate::remedies::{Blocker, Remedy, RemedyReport, RemedyStatus, RootOwner};
use crate::remedy_search::{self, BlockerPlan, RemedyCandidates, RemedyRequest, RunningUnit};
use crate::search::SearchBudget;
use crate::timers::Timers;

/// Of how many pods on nodes it is asked whether their leaving would help. A pass over them takes a few milliseconds.
const MAX_PODS_EXAMINED: usize = 50_000;

/// How often one of the groups that were not refused again is told anew. There may be thousands of them, and each takes
/// some milliseconds in a large cluster.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// For whom ways out are to be looked for.
#[derive(Debug, Default)]
pub(super) struct RemedySchedule {
    /// When that was last done, for groups that exist.
    last: FxHashMap<UnitId, LastSearch>,
    due: Timers<UnitId>,
    /// Those who were told, and have not been found to wait no more since.
    by_age: BTreeSet<(LastSearch, UnitId)>,
    /// Changes of what is on the nodes so far.
    changes_count: u64,
    /// When somebody was last told anew without having been refused again.
    refreshed_at: Option<Timestamp>,
}

/// When a group was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LastSearch {
    /// How many changes there had been.
    changes_count: u64,
    at: Timestamp,
}

impl RemedySchedule {
    /// The unit was refused. True if ways out are due at once.
    fn schedule(&mut self, unit: UnitId, now: Timestamp, pause: Duration) -> bool {
        let at = self.last.get(&unit).map_or(now, |last| saturating_add(last.at, pause).max(now));
        self.due.set_at(unit, at);
        at == now
    }

    fn next_due(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        let unit = self.due.next_due(now, pause)?;
        self.due.clear(unit);
        Some(unit)
    }

    fn next_stale(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        self.stale_at(pause).filter(|at| *at <= now)?;
        let (_, unit) = self.by_age.pop_first()?;
        Some(unit)
    }

    /// When somebody is to be told anew because something has changed since.
    fn stale_at(&self, pause: Duration) -> Option<Timestamp> {
        // Whoever was told first has seen the fewest changes.
        let (told, _) = self.by_age.first().filter(|(told, _)| told.changes_count != self.changes_count)?;
        let not_before = self.refreshed_at.map_or(told.at, |renewed| renewed + REFRESH_INTERVAL);
        Some(saturating_add(told.at, pause).max(not_before))
    }

    fn next_at(&self, pause: Duration) -> Option<Timestamp> {
        self.due.next_at().into_iter().chain(self.stale_at(pause)).min()
    }

    /// The unit is told now.
    fn record_search(&mut self, unit: UnitId, now: Timestamp) {
        let told = LastSearch { changes_count: self.changes_count, at: now };
        if let Some(before) = self.last.insert(unit, told)
            && !self.by_age.remove(&(before, unit))
        {
            // It came from there, and was not refused again.
            self.refreshed_at = Some(now);
        }
        self.by_age.insert((told, unit));
    }

    /// Something on the nodes is not what it was.
    pub(super) fn cluster_changed(&mut self) {
        self.changes_count += 1;
    }

    /// The unit is no more.
    pub(super) fn forget(&mut self, unit: UnitId) {
        self.due.clear(unit);
        if let Some(told) = self.last.remove(&unit) {
            self.by_age.remove(&(told, unit));
        }
    }
}

impl Core {
    /// Looks for ways out for at most so many groups that wait and for which that is due. A refusal that says they are
    /// [`Advised::Coming`] gets them here, and one that is no longer true is put right. None for a group that finds a
    /// place by now; it is decided next.
    pub fn find_remedies(&mut self, now: Timestamp, count_max: usize) -> Vec<(Unit, Option<Refusal>)> {
        let Some(pause) = self.config.remedies_interval else { return Vec::new() };
        let (mut given, mut running) = (Vec::new(), None);
        while given.len() < count_max
            && let Some(unit) = self.next_for_remedies(now, pause)
        {
            // Whoever does not wait any more is decided anew, or was placed.
            let Some(need) = self.demand(unit).filter(|_| self.queue.is_waiting(unit)) else { continue };
            self.enforce_reservation_for(unit);
            self.remedy_schedule.record_search(unit, now);
            let refusal = self.dry_run(&need).map(|refusal| {
                let running = running.get_or_insert_with(|| self.running_units());
                let advised = RemedyStatus::Found(self.remedies_for(unit, &need, &refusal, running));
                Refusal { remedies: advised, ..refusal }
            });
            if refusal.is_none() {
                self.found_to_fit(unit);
            }
            given.push((need.unit, refusal));
        }
        given
    }

    fn next_for_remedies(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        let due = self.remedy_schedule.next_due(now, pause);
        // Decisions come first: numbers of those who wait anyway can wait until there are none to make.
        due.or_else(|| if self.queue.has_ready() { None } else { self.remedy_schedule.next_stale(now, pause) })
    }

    /// When [`Core::advise`] has something to do.
    pub fn remedies_due_at(&self) -> Option<Timestamp> {
        self.config.remedies_interval.and_then(|pause| self.remedy_schedule.next_at(pause))
    }

    /// Takes note of a refusal for which ways out are to be looked for.
    pub(super) fn note_refused(&mut self, unit: UnitId, refusal: &mut Refusal, now: Timestamp) {
        // Single pods say what kube-scheduler's would; ways out are told to whoever asks.
        let is_told = matches!(unit, UnitId::Group(_))
            && matches!(refusal.cause, RefusalCause::DoesNotFit | RefusalCause::NoDomain { .. });
        if let Some(pause) = self.config.remedies_interval.filter(|_| is_told)
            && self.remedy_schedule.schedule(unit, now, pause)
        {
            refusal.remedies = RemedyStatus::Pending;
        }
    }

    /// Why the unit finds no place now; none if it does. Nothing changes.
    pub(super) fn dry_run(&mut self, demand: &Demand) -> Option<Refusal> {
        cycle::dry_run(demand, &mut self.cluster, &mut self.classes, SearchBudget::of(self.config.max_search_steps))
    }

    /// Looks for ways out.
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
        let origin = match unit {
            UnitId::Group(group) => root_owner_of(self.groups.get(group)),
            UnitId::Pod(pod) => RootOwner { kind: "pod".to_owned(), key: self.pods.get(pod).key() },
        };
        let asked = RemedyRequest {
            unit,
            demand,
            refusal,
            root_owner: &origin,
            members_on: &members_on,
            running: &running.units,
        };
        let steps_max = self.config.max_search_steps;
        let mut found: RemedyCandidates =
            remedy_search::search(&asked, &mut self.cluster, &mut self.classes, steps_max);
        found.report.truncated |= running.truncated && refusal.can_fit_later;
        if let Some(end) = self.blocking_reservation(&demand.for_all_pending()) {
            // Room there is: nobody has to leave, and no node has to come.
            found.report.remedies.retain(|way| !way.is_about_nodes());
            return found.into_report(Some(end));
        }
        let wait = found.blocker_plan.take().map(|plan| self.wait_for(&plan, running));
        found.into_report(wait)
    }

    /// What has pods on nodes.
    pub(super) fn running_units(&self) -> RunningUnits {
        let mut in_use = RunningUnits { units: Vec::new(), truncated: false };
        let mut by_group: FxHashMap<GroupId, usize> = FxHashMap::default();
        let mut looked_at = 0;
        for (id, pod) in self.pods.with_ids() {
            let Some(node) = pod.stage.node().filter(|node| self.cluster.node(*node).present) else { continue };
            looked_at += 1;
            if looked_at > MAX_PODS_EXAMINED {
                in_use.truncated = true;
                break;
            }
            let mut new = |unit| {
                in_use.units.push(RunningUnit { unit, placed: Vec::new() });
                in_use.units.len() - 1
            };
            let at = match pod.group {
                Some(group) => *by_group.entry(group).or_insert_with(|| new(UnitId::Group(group))),
                None => new(UnitId::Pod(id)),
            };
            in_use.units[at].placed.push((node, Arc::clone(&pod.usage)));
        }
        in_use
    }

    fn wait_for(&self, plan: &BlockerPlan, running: &RunningUnits) -> Remedy {
        let leaving = plan.blockers.iter().map(|at| {
            let RunningUnit { unit, placed: spots } = &running.units[*at];
            let pods_count = spots.len();
            match unit {
                UnitId::Pod(id) => {
                    let key = self.pods.get(*id).key();
                    Blocker { kind: "pod".to_owned(), key, pods_count, group: None }
                }
                UnitId::Group(id) => group_blocker(self.groups.get(*id), pods_count),
            }
        });
        Remedy::WaitFor { blockers: leaving.collect(), domain: plan.region.chosen_domain(&self.cluster) }
    }
}

/// Everything with pods on nodes.
pub(super) struct RunningUnits {
    units: Vec<RunningUnit>,
    /// Whether there is more than was looked at.
    truncated: bool,
}

/// People know the Job, or whatever else has made the group, rather than the group.
fn root_owner_of(group: &TrackedGroup) -> RootOwner {
    let owner = group.spec.as_ref().and_then(|terms| terms.owner.as_ref());
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
