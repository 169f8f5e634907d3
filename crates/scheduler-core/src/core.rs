//! The state machine: observe a change, get the next decision, report its result.
//!
//! In: changes of the cluster, the time, results of binds. Out: decisions, refusals with remedies, answers to queries.
//! What holds: only `Core` sees all folders of the crate, and it alone owns their state. The files of this folder
//! are its steps, in the order of the walk; the folders have the types and the pure functions that the steps use.

mod observe; // changes of pods, nodes and PodGroups
mod members; // which pods are members of their group, and what a change of them does to the group
mod sweep; // frees names and topologies that nothing uses
mod waking; // which units a change of a node wakes
mod reservation; // room reserved for starved units
mod nominations; // room of pods that other schedulers have nominated
mod half_placed_gangs; // releases the pods of half-placed gangs
mod overcommitted_nodes; // releases pods bound beyond their node's capacity
mod remedies; // for which groups remedies are searched
mod explain; // what is copied for queries, and what their results change
mod counters; // metrics

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use types::Timestamp;

use self::members::MembershipChange;
use self::nominations::Nomination;
use crate::cluster::Cluster;
use crate::cycle::{self, CertifiedRefusal, PlacementResult};
use crate::decision::{BindOutcome, Config, Decision, DecisionAction, NewRun, Placement, Unit};
use crate::demand::classes::Classes;
use crate::demand::groups::{Composites, GroupId, GroupTable, ParentObstacle, Readiness, TrackedGroup};
use crate::demand::pods::{ExclusionReason, ObservedStage, PodId, Pods, Stage};
use crate::demand::{self, ClassCount, Demand, DomainConstraint, UnitPolicy};
use crate::explain::refusal::{Refusal, RefusalCause};
use crate::explain::remedy_schedule::RemedySchedule;
use crate::explain::report_cache::ReportCache;
use crate::placement::certificate::Certificate;
use crate::placement::domains::Domains;
use crate::placement::place::UnitPlacement;
use crate::placement::ranks::{self, PlacedPod};
use crate::placement::search::SearchBudget;
use crate::queue::timers::Timers;
use crate::queue::{EqualDemand, Queue, QueueOrder, QueueTimings, UnitId, UnschedulableInfo};
use crate::release::overcommit_tracker::OvercommitTracker;
use crate::release::pending_binds::PendingBinds;
use crate::reservation::{ActiveReservation, ReservationBudget};

/// The longest pause before the next reservation for the same unit, as a multiple of a reservation's length.
/// Reservations without success thus block other units for at most a ninth of the time.
const MAX_RESERVATION_PAUSE_FACTOR: u32 = 8;

/// Everything the scheduler knows, with one owner and no locks.
#[derive(Debug)]
pub struct Core {
    config: Config,
    cluster: Cluster,
    classes: Classes,
    pods: Pods,
    groups: GroupTable,
    composites: Composites,
    queue: Queue,
    /// Pods that name a group but are not members (other owner or priority). Each is reported once.
    unreported_pods: BTreeSet<PodId>,
    /// Half-placed gangs, and until when each may stay so.
    half_placed_gangs: Timers<GroupId>,
    /// Of those, gangs whose release waits for binds.
    pending_binds: BTreeMap<GroupId, PendingBinds>,
    overcommits: OvercommitTracker,
    /// Pods with scheduling gates.
    gated_count: usize,
    /// Waiting units that were found to fit although no cluster event had woken them.
    missed_wakeups_count: u64,
    /// Groups that began a new run, until `take_new_runs`.
    new_runs: Vec<NewRun>,
    reservations: BTreeMap<UnitId, ActiveReservation>,
    /// When reservations began that ended since the last decision.
    dropped_reservations: Vec<Timestamp>,
    reservation_budget: ReservationBudget,
    /// The number of changes of the cluster when it was last computed what reservations keep idle.
    idle_as_of: u64,
    /// Before this time nothing is planned: too many plans were made.
    plans_open_at: Timestamp,
    /// Pods that other schedulers have nominated to a node.
    nominations: BTreeMap<PodId, Nomination>,
    remedy_schedule: RemedySchedule,
    report_cache: ReportCache,
    /// The number of calls that may have changed something.
    revision: u64,
    /// How many class counts decisions have read.
    #[cfg(test)]
    class_counts_read: u64,
}

impl Core {
    /// A core that has observed nothing yet.
    pub fn new(config: Config) -> Core {
        let config = config.clamped();
        let timings = QueueTimings {
            initial_backoff: config.initial_backoff,
            max_backoff: config.max_backoff,
            incomplete_after: config.incomplete_after,
            recount_after: config.recount_after,
            // A unit for which no nodes can be reserved must not be considered again at the same instant.
            reserve_after: config.reserve_after.map(|pause| pause.max(Duration::from_secs(1))),
            max_reserve_after: config.max_reservation.saturating_mul(MAX_RESERVATION_PAUSE_FACTOR),
        };
        let mut cluster = Cluster::default();
        let classes = Classes::new(config.max_index_bytes, &config.profiles, &mut cluster);
        cluster.make_names_permanent();
        Core {
            classes,
            cluster,
            pods: Pods::default(),
            groups: GroupTable::default(),
            composites: Composites::default(),
            queue: Queue::new(timings),
            unreported_pods: BTreeSet::new(),
            half_placed_gangs: Timers::default(),
            pending_binds: BTreeMap::new(),
            overcommits: OvercommitTracker::default(),
            gated_count: 0,
            missed_wakeups_count: 0,
            new_runs: Vec::new(),
            reservations: BTreeMap::new(),
            dropped_reservations: Vec::new(),
            reservation_budget: ReservationBudget::of(config.reservation_share),
            idle_as_of: 0,
            plans_open_at: Timestamp::MIN,
            nominations: BTreeMap::new(),
            remedy_schedule: RemedySchedule::default(),
            report_cache: ReportCache::default(),
            revision: 0,
            #[cfg(test)]
            class_counts_read: 0,
            config,
        }
    }

    /// The next decision, or `None` when there is none now. Its pods count as placed when this returns.
    pub fn next(&mut self, now: Timestamp) -> Option<Decision> {
        self.revision += 1;
        self.queue.tick(now);
        self.update_reservations(now);
        // Releases free capacity, so they do not wait behind the decisions about others.
        if let Some(release) = self.release_half_placed_gang(now).or_else(|| self.release_overcommitted(now)) {
            return Some(release);
        }
        while let Some(unit) = self.queue.pop() {
            if let Some(decision) = self.decide_unit(unit, now) {
                return Some(decision);
            }
        }
        let decision = self.next_excluded_pod().or_else(|| {
            let unit = self.queue.pop_incomplete(now)?;
            self.detect_new_run(unit);
            self.incomplete_decision(unit).or_else(|| if self.has_ready() { self.next(now) } else { None })
        });
        decision.or_else(|| self.search_again(now))
    }

    /// Nothing else is to be done: a unit on which a search gave up is searched with more effort.
    fn search_again(&mut self, now: Timestamp) -> Option<Decision> {
        let (unit, effort) = self.queue.take_for_search(now)?;
        let Some(demand) = self.demand(unit) else {
            self.queue.pass_on(unit);
            return None;
        };
        self.show_ghosts_to(unit);
        Some(self.decide(unit, &demand, self.config.max_search_steps.saturating_mul(effort), now))
    }

    /// The groups that began a new run since the last call.
    pub fn take_new_runs(&mut self) -> Vec<NewRun> {
        std::mem::take(&mut self.new_runs)
    }

    /// When to call [`Core::next`] again although nothing changed.
    pub fn next_at(&self) -> Option<Timestamp> {
        let releases = [self.half_placed_gangs.next_at(), self.overcommits.next_at()];
        [self.queue.next_at(), self.next_reservation_at()].into_iter().chain(releases).flatten().min()
    }

    /// Determines which members of a group that is about to start belong to an earlier run. Without them the group
    /// may lack pods, or need fewer.
    fn detect_new_run(&mut self, unit: UnitId) {
        let UnitId::Group(id) = unit else { return };
        let group = self.groups.get(id);
        let was_continued = group.run.is_continued();
        // Only members that succeeded can belong to an earlier run, and only a run that continued one can end.
        let may_change = group.run.succeeded_count() > 0 || was_continued;
        let ready_before = may_change && group.readiness() == Readiness::Ready;
        let past = self.groups.get_mut(id).detect_new_run(&self.pods);
        if past.is_empty() && self.groups.get(id).run.is_continued() == was_continued {
            return;
        }
        let group = self.groups.get(id);
        let past = past.into_iter().map(|pod| self.pods.get(pod).uid().to_owned()).collect();
        self.new_runs.push(NewRun {
            group: group.key.clone(),
            past_uids: past,
            is_continued: group.run.is_continued(),
        });
        if ready_before == (group.readiness() == Readiness::Ready) {
            // Its pods are needed for the quorum now, so it is no longer ordered by their creation.
            self.queue.resize(id, group.pending.len(), group.queue_order());
            self.note_partial(id);
        } else {
            self.requeue_group(id, MembershipChange::Other);
        }
    }

    /// Handles the result of one bind. Unknown pods, and pods that the watch has shown bound, do not change.
    pub fn settled(&mut self, outcome: BindOutcome, now: Timestamp) {
        self.revision += 1;
        let BindOutcome::Failed { pod, uid } = outcome else {
            // The pod stays assumed until the watch shows it, so no change in between can use its capacity.
            return;
        };
        let Some(id) = self.pods.find(&pod).filter(|id| self.pods.get(*id).uid() == uid) else { return };
        if !matches!(self.pods.get(id).stage, Stage::Assumed(_)) {
            return;
        }
        let stage = self.stage_unbound(id);
        self.restage(id, stage);
        let pod = self.pods.get(id);
        if pod.observed_unbound == ObservedStage::Pending {
            // It may have changed while the bind was in flight.
            let view = Arc::clone(&pod.view);
            self.update_unbound(id, &view, ObservedStage::Pending);
        }
        if stage == Stage::Pending {
            let (unit, order) = self.unit_of(id);
            self.queue.back_off(unit, order, now);
        }
    }

    /// Decides a unit that was taken from the queue; `None` if it has nothing to decide, or if units before it have used
    /// the room for which it was woken.
    fn decide_unit(&mut self, unit: UnitId, now: Timestamp) -> Option<Decision> {
        let woken = self.queue.take_woken(unit);
        self.detect_new_run(unit);
        let Some(demand) = self.demand(unit) else {
            self.queue.pass_on(unit);
            return None;
        };
        self.show_ghosts_to(unit);
        if let Some(certificate) = woken {
            let missing_slots = Domains::of(&demand, &self.cluster, &mut self.classes).missing_slots();
            if missing_slots > 0 {
                let certificate = Certificate { missing_slots, ..certificate };
                let equal_demand = self.equal_demand(&demand);
                self.queue.wait_again(unit, certificate, equal_demand);
                return None;
            }
        }
        Some(self.decide(unit, &demand, self.config.max_search_steps, now))
    }

    fn decide(&mut self, unit: UnitId, demand: &Demand, search_steps: usize, now: Timestamp) -> Decision {
        let budget = SearchBudget::of(search_steps);
        let (action, region, unplaced) = match cycle::decide(demand, &mut self.cluster, &mut self.classes, budget) {
            PlacementResult::Placed { placement, region } => {
                self.queue.record_attempt(unit);
                let placements = self.assume(unit, demand, &placement);
                let rest = self.demand(unit);
                let unplaced = rest.map(|rest| {
                    // Units that the placed pods have woken may have been shown other ghosts.
                    self.show_ghosts_to(unit);
                    let refused = cycle::refuse(&rest, &mut self.cluster, &mut self.classes);
                    self.mark_unschedulable(unit, &rest, refused, now)
                });
                self.end_reservation_of(unit, now);
                self.report_cache.record_placed(unit);
                (DecisionAction::Bind(placements), Some(region), unplaced)
            }
            PlacementResult::Refused(refused) => {
                let refusal = self.mark_unschedulable(unit, demand, refused, now);
                (DecisionAction::Wait(refusal), None, None)
            }
        };
        let domain = region.and_then(|region| region.chosen_domain(&self.cluster));
        Decision { unit: demand.unit.clone(), action, domain, unplaced }
    }

    /// What the unit requests now; `None` when it cannot be decided.
    fn demand(&mut self, unit: UnitId) -> Option<Demand> {
        match unit {
            UnitId::Pod(id) => {
                let pod = self.pods.get(id);
                let class = pod.class.filter(|_| pod.stage == Stage::Pending)?;
                Some(Demand {
                    unit: Unit::Pod(pod.key()),
                    policy: UnitPolicy::SinglePod,
                    class_counts: vec![ClassCount { class, count: 1 }],
                    placed_count: 0,
                    expected_later_count: 0,
                    constraint: None,
                })
            }
            UnitId::Group(id) => {
                let group = self.groups.get_mut(id);
                let topology = group.spec.as_ref().filter(|_| group.readiness() == Readiness::Ready)?.topology;
                let constraint = topology.map(|topology| {
                    let members = group.placed.occupied_domains(topology, self.cluster.topology(topology));
                    DomainConstraint::with_members(topology, members, &self.cluster)
                });
                let group = self.groups.get(id);
                #[cfg(test)]
                {
                    self.class_counts_read += group.pending.class_counts().count() as u64;
                }
                Some(Demand {
                    unit: Unit::Group(group.key.clone()),
                    policy: group.min_count().map_or(UnitPolicy::Basic, |min_count| UnitPolicy::Gang { min_count }),
                    class_counts: self.class_counts(group),
                    placed_count: group.placed_count(),
                    expected_later_count: group.coming_count(),
                    constraint,
                })
            }
        }
    }

    fn class_counts(&self, group: &TrackedGroup) -> Vec<ClassCount> {
        let counts = group.pending.class_counts().map(|(class, count)| ClassCount { class, count });
        let mut class_counts: Vec<_> = counts.collect();
        if class_counts.len() > 1 {
            let size = |id| self.classes.get(id).map_or(0, |class| demand::size(&class.usage, &self.cluster));
            Demand::largest_first(&mut class_counts, size);
        }
        class_counts
    }

    /// Records placed pods as assumed; the cluster counts them already. Of each class, the pods observed first are
    /// used.
    fn assume(&mut self, unit: UnitId, demand: &Demand, placement: &UnitPlacement) -> Vec<Placement> {
        self.remedy_schedule.cluster_changed();
        let mut placements = Vec::with_capacity(placement.assignments.len());
        let has_remaining = placement.assignments.len() < demand.pods_count();
        if let UnitId::Group(group) = unit {
            self.groups.get_mut(group).note_start();
        }
        let mut placed: Vec<PlacedPod> = Vec::with_capacity(placement.assignments.len());
        for (class_index, node) in &placement.assignments {
            let id = match unit {
                UnitId::Pod(id) => id,
                UnitId::Group(group) => {
                    let first = self.groups.get_mut(group).pending.take_first(demand.class_counts[*class_index].class);
                    first.expect("no more pods are placed than are pending")
                }
            };
            placed.push((*class_index, id, *node));
        }
        self.wake_beside_placed(placed.iter().map(|(_, _, node)| *node));
        if self.config.index_order {
            ranks::assign_by_rank(&mut placed, &self.pods, &self.cluster);
        }
        for (_, id, node) in placed {
            if let UnitId::Group(group) = unit {
                let (group, pod) = (self.groups.get_mut(group), self.pods.get(id));
                pod.owner.iter().for_each(|owner| group.run.add_controller(owner));
                if has_remaining {
                    group.pending_by_age.remove(&(pod.created(), pod.arrival));
                }
                group.placed.insert(id, node, false);
            }
            self.pods.set_stage(id, Stage::Assumed(node));
            let (pod, node) = (self.pods.get(id), self.cluster.node_name(node).to_owned());
            placements.push(Placement { pod: pod.key(), uid: pod.uid().to_owned(), node });
        }
        if let UnitId::Group(group) = unit {
            if !has_remaining {
                self.groups.get_mut(group).pending_by_age.clear();
            }
            self.note_partial(group);
            let (pods_count, order) = (self.groups.get(group).pending.len(), self.groups.get(group).queue_order());
            self.queue.resize(group, pods_count, order);
        }
        placements
    }

    /// What other units must request to have the same result.
    fn equal_demand(&self, demand: &Demand) -> Option<EqualDemand> {
        demand.if_comparable().filter(|_| self.classes.are_monotone(&demand.class_counts))
    }

    /// The unit waits until a change may let it fit. Returns the refusal to be reported.
    fn mark_unschedulable(
        &mut self,
        unit: UnitId,
        demand: &Demand,
        refused: CertifiedRefusal,
        now: Timestamp,
    ) -> Refusal {
        let CertifiedRefusal { mut refusal, certificate } = refused;
        let wait = UnschedulableInfo {
            search_gave_up: certificate.search_gave_up(&refusal.cause) && self.config.max_search_steps > 0,
            certificate,
            equal_demand: self.equal_demand(demand),
            may_reserve: refusal.lacks_capacity(),
            now,
        };
        self.queue.add_unschedulable(unit, wait);
        self.note_refused(unit, &mut refusal, now);
        refusal
    }

    /// Reports what an incomplete group lacks.
    fn incomplete_decision(&mut self, unit: UnitId) -> Option<Decision> {
        let UnitId::Group(id) = unit else { return None };
        let group = self.groups.get(id);
        let cause = match group.readiness() {
            Readiness::NoPodGroup => RefusalCause::NoPodGroup,
            Readiness::BlockedByParent => match group.parent_obstacle.clone()? {
                ParentObstacle::Missing(parent) => RefusalCause::NoParent { parent },
                ParentObstacle::MoreThanBasic(parent) => RefusalCause::ParentNotBasic { parent },
                ParentObstacle::Cycle(parents) => RefusalCause::ParentCycle { parents },
            },
            Readiness::Incomplete => RefusalCause::Incomplete,
            Readiness::Gated => RefusalCause::Gated,
            Readiness::Unsupported => RefusalCause::UnsupportedTerms { fields: self.unsupported_fields(group) },
            Readiness::NothingPending | Readiness::Ready => return None,
        };
        let quorum = group.quorum();
        let unit = Unit::Group(group.key.clone());
        // No change of the cluster helps, only one of the pods or of the parent.
        let is_hopeless = matches!(
            cause,
            RefusalCause::UnsupportedTerms { .. }
                | RefusalCause::ParentNotBasic { .. }
                | RefusalCause::ParentCycle { .. }
        );
        let refusal = Refusal {
            cause,
            is_gang: quorum.is_some(),
            nodes_count: self.cluster.present_count(),
            proven: is_hopeless,
            can_fit_later: !is_hopeless,
            excluded: group.excluded,
            ..Refusal::new(unit.clone(), quorum.unwrap_or(1), group.pending.len(), group.placed_count())
        };
        Some(Decision { unit, action: DecisionAction::Wait(refusal), domain: None, unplaced: None })
    }

    /// The unsupported fields of the members that are excluded because of them.
    fn unsupported_fields(&self, group: &TrackedGroup) -> Vec<&'static str> {
        let members = group.members.iter().map(|id| self.pods.get(*id));
        let unsupported = members.filter(|pod| pod.stage == Stage::Excluded(ExclusionReason::Unsupported));
        let fields: BTreeSet<&'static str> = unsupported.flat_map(|pod| pod.view.spec.unsupported_fields()).collect();
        fields.into_iter().collect()
    }

    /// The unit a pod belongs to, and its queue order.
    fn unit_of(&self, id: PodId) -> (UnitId, QueueOrder) {
        let pod = self.pods.get(id);
        match pod.group {
            Some(group) => (UnitId::Group(group), self.groups.get(group).queue_order()),
            None => {
                let order = QueueOrder {
                    priority: std::cmp::Reverse(pod.priority),
                    created: pod.created(),
                    arrival: pod.arrival,
                };
                (UnitId::Pod(id), order)
            }
        }
    }
}

#[cfg(test)]
impl Core {
    /// Whether room is reserved for a unit.
    pub(crate) fn has_reservation(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// The number of classes, and of tables with a row for each node.
    pub(crate) fn classes_and_tables_count(&self) -> (usize, usize) {
        (self.classes.len(), self.cluster.tables_count())
    }

    /// The number of classes that refused units wait for.
    pub(crate) fn waiting_classes_count(&self) -> usize {
        self.queue.waiting_classes().count()
    }

    /// The number of names, of resources and of topologies.
    pub(crate) fn interned_counts(&self) -> [usize; 3] {
        self.cluster.interned_counts()
    }

    /// The number of topology domains, empty ones included.
    pub(crate) fn domains_count(&self) -> usize {
        self.cluster.domains_count()
    }

    /// The cost of deciding: pods added to and removed from nodes, also tentatively, and class counts read.
    pub(crate) fn steps_count(&self) -> u64 {
        self.cluster.changes_count() + self.class_counts_read
    }

    /// Panics unless the columns are the sums of the pods, and every cached index equals a newly built one.
    pub(crate) fn assert_consistent(&mut self) {
        let pods = self.pods.all().filter_map(|pod| Some((pod.stage.node()?, &*pod.usage)));
        self.cluster.assert_sums(pods.chain(self.cluster.counted_ghosts()));
        self.cluster.assert_ghosts();
        self.pods.assert_indexed();
        self.queue.assert_counted(|group| {
            let group = self.groups.get(group);
            assert_eq!(group.pending_by_age.len(), group.pending.len());
            group.pending.len()
        });
        let gated = self.pods.all().filter(|pod| pod.stage == Stage::Excluded(ExclusionReason::Gated)).count();
        assert_eq!(self.gated_count, gated);
        self.assert_members();
        self.classes.assert_fresh(&self.cluster);
    }
}
