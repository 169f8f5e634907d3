//! The state machine: observe a change, ask for the next decision, report what became of it.

mod observe; // changes of pods, nodes and PodGroups
mod waking; // whom a change of a node wakes
mod members; // which pods belong to their group, and how the group stands after one came or went
mod holding; // nodes kept free for a group that was passed over
mod partial; // gangs that were left half placed
mod surplus; // pods that were bound beyond what their node has
mod advise; // ways out for groups that wait
mod explain; // answers to whoever asks
mod figures; // what is counted

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Timestamp;

use self::advise::Advisory;
use self::explain::Recall;
use self::holding::Holding;
use self::members::Membership;
use self::partial::PendingBinds;
use self::surplus::Surplus;
use crate::alarms::Alarms;
use crate::classes::Classes;
use crate::cluster::Cluster;
use crate::cycle::{self, Answer};
use crate::decision::{Config, Decision, NewRun, Outcome, Placement, Unit, Verdict};
use crate::groups::{Composites, Group, GroupId, Groups, ParentObstacle, Readiness};
use crate::hold::HoldBudget;
use crate::need::{self, Constraint, Lot, Need, Policy};
use crate::place::Places;
use crate::pods::{Aside, PodId, Pods, Stage};
use crate::queue::{Pauses, Queue, Turn, UnitId, Wait};
use crate::refusal::{Cause, Refusal};
use crate::search::Effort;

/// How many times as long as a hold the pause before the next one for the same group becomes at most, when holds bring it
/// nothing: others are then held up for a ninth of the time.
const HOLD_PAUSE_MAX: u32 = 8;

/// Everything the scheduler knows, with one owner and no locks.
#[derive(Debug)]
pub struct Core {
    config: Config,
    cluster: Cluster,
    classes: Classes,
    pods: Pods,
    groups: Groups,
    composites: Composites,
    queue: Queue,
    /// Pods that name a group and are refused alone; each is told once.
    untold: BTreeSet<PodId>,
    /// Gangs that are half placed, and until when each may stay so.
    partials: Alarms<GroupId>,
    /// Of those, gangs whose release waits for binds.
    pending_binds: BTreeMap<GroupId, PendingBinds>,
    surplus: Surplus,
    /// Pods that wait for gates of their own to open.
    gated_count: usize,
    /// Units that were found to fit while they waited for a change.
    missed_wakeups_count: u64,
    /// Groups that began a new run, until they are taken.
    new_runs: Vec<NewRun>,
    holding: Option<Holding>,
    hold_budget: HoldBudget,
    advisory: Advisory,
    recall: Recall,
    /// Lots that were looked at.
    #[cfg(test)]
    lots_count: u64,
}

impl Core {
    /// A core that has seen nothing yet.
    pub fn new(config: Config) -> Core {
        let config = config.within_bounds();
        let pauses = Pauses {
            backoff_initial: config.backoff_initial,
            backoff_max: config.backoff_max,
            incomplete_after: config.incomplete_after,
            recount_after: config.recount_after,
            // Time must pass before a unit for which no nodes can be held is looked at again.
            hold_after: config.hold_after.map(|pause| pause.max(Duration::from_secs(1))),
            hold_after_max: config.hold_for.saturating_mul(HOLD_PAUSE_MAX),
        };
        let mut cluster = Cluster::default();
        Core {
            classes: Classes::new(config.index_bytes_max, &config.profiles, &mut cluster),
            cluster,
            pods: Pods::default(),
            groups: Groups::default(),
            composites: Composites::default(),
            queue: Queue::new(pauses),
            untold: BTreeSet::new(),
            partials: Alarms::default(),
            pending_binds: BTreeMap::new(),
            surplus: Surplus::default(),
            gated_count: 0,
            missed_wakeups_count: 0,
            new_runs: Vec::new(),
            holding: None,
            hold_budget: HoldBudget::default(),
            advisory: Advisory::default(),
            recall: Recall::default(),
            #[cfg(test)]
            lots_count: 0,
            config,
        }
    }

    /// The next decision; `None` when nothing is to be decided now. Its pods count as placed when this returns.
    pub fn next(&mut self, now: Timestamp) -> Option<Decision> {
        self.queue.tick(now);
        self.keep_hold(now);
        while let Some(unit) = self.queue.pop() {
            self.judge_run(unit);
            if let Some(need) = self.need(unit) {
                self.show_hold_to(unit);
                return Some(self.decide(unit, &need, now));
            }
        }
        let told = self.release(now).or_else(|| self.make_room(now)).or_else(|| self.refused_alone());
        told.or_else(|| {
            let unit = self.queue.pop_incomplete(now)?;
            self.judge_run(unit);
            self.incomplete(unit).or_else(|| if self.has_ready() { self.next(now) } else { None })
        })
    }

    /// The groups that began a new run since the last call.
    pub fn take_new_runs(&mut self) -> Vec<NewRun> {
        std::mem::take(&mut self.new_runs)
    }

    /// When asking again is worth it although nothing changed.
    pub fn next_at(&self) -> Option<Timestamp> {
        let releases = [self.partials.next_at(), self.surplus.next_at()];
        [self.queue.next_at(), self.next_hold_at()].into_iter().chain(releases).flatten().min()
    }

    /// Finds out which members of a group that is about to start, or waits to, are of an earlier run. Without them it may
    /// lack pods, or need fewer.
    fn judge_run(&mut self, unit: UnitId) {
        let UnitId::Group(id) = unit else { return };
        let ready_before = self.groups.get(id).readiness() == Readiness::Ready;
        let past = self.groups.get_mut(id).judge_run(&self.pods);
        if past.is_empty() {
            return;
        }
        let group = self.groups.get(id);
        let past = past.into_iter().map(|pod| self.pods.get(pod).uid().to_owned()).collect();
        self.new_runs.push(NewRun { group: group.key.clone(), past, is_continued: group.run.is_continued() });
        if ready_before == (group.readiness() == Readiness::Ready) {
            self.note_partial(id);
        } else {
            self.requeue_group(id, Membership::Other);
        }
    }

    /// Takes in what became of one bind. Unknown pods and pods the watch has shown bound are left as they are.
    pub fn settled(&mut self, outcome: Outcome, now: Timestamp) {
        let Outcome::Failed { pod, uid } = outcome else {
            // The pod stays assumed until the watch shows it, so that no change in between can take its place.
            return;
        };
        let Some(id) = self.pods.find(&pod).filter(|id| self.pods.get(*id).uid() == uid) else { return };
        if !matches!(self.pods.get(id).stage, Stage::Assumed(_)) {
            return;
        }
        let stage = self.stage_unbound(id);
        self.restage(id, stage);
        if stage == Stage::Pending {
            let (unit, turn) = self.unit_of(id);
            self.queue.failed(unit, turn, now);
        }
    }

    fn decide(&mut self, unit: UnitId, need: &Need, now: Timestamp) -> Decision {
        let effort = Effort::of(self.config.search_steps_max);
        let (verdict, region, unplaced) = match cycle::decide(need, &mut self.cluster, &mut self.classes, effort) {
            Answer::Placed { places, region } => {
                self.queue.attempted(unit);
                let placements = self.assume(unit, need, &places);
                let rest = self.need(unit);
                let unplaced = rest.map(|rest| {
                    let mut refusal = cycle::refuse(&rest, &mut self.cluster, &mut self.classes);
                    self.wait(unit, &rest, &mut refusal, now);
                    refusal
                });
                self.end_hold_of(unit, now);
                self.recall.note(unit);
                (Verdict::Bind(placements), Some(region), unplaced)
            }
            Answer::Refused(mut refusal) => {
                self.wait(unit, need, &mut refusal, now);
                (Verdict::Wait(refusal), None, None)
            }
        };
        let domain = region.and_then(|region| region.chosen(&self.cluster));
        Decision { unit: need.unit.clone(), verdict, domain, unplaced }
    }

    /// What the unit asks for now; `None` when it cannot be decided.
    fn need(&mut self, unit: UnitId) -> Option<Need> {
        match unit {
            UnitId::Pod(id) => {
                let pod = self.pods.get(id);
                let class = pod.class.filter(|_| pod.stage == Stage::Pending)?;
                Some(Need {
                    unit: Unit::Pod(pod.key()),
                    policy: Policy::Alone,
                    lots: vec![Lot { class, count: 1 }],
                    placed_count: 0,
                    coming_count: 0,
                    constraint: None,
                })
            }
            UnitId::Group(id) => {
                let group = self.groups.get_mut(id);
                let topology = group.terms.as_ref().filter(|_| group.readiness() == Readiness::Ready)?.topology;
                let constraint = topology.map(|topology| {
                    let members = group.placed.whereabouts(topology, self.cluster.topology(topology));
                    Constraint::with_members(topology, members, &self.cluster)
                });
                let group = self.groups.get(id);
                #[cfg(test)]
                {
                    self.lots_count += group.pending.lots().count() as u64;
                }
                Some(Need {
                    unit: Unit::Group(group.key.clone()),
                    policy: group.min_count().map_or(Policy::Basic, |min_count| Policy::Gang { min_count }),
                    lots: self.lots(group),
                    placed_count: group.placed_count(),
                    coming_count: group.coming_count(),
                    constraint,
                })
            }
        }
    }

    fn lots(&self, group: &Group) -> Vec<Lot> {
        let mut lots: Vec<_> = group.pending.lots().map(|(class, count)| Lot { class, count }).collect();
        if lots.len() > 1 {
            let size = |id| self.classes.get(id).map_or(0, |class| need::size(&class.usage, &self.cluster));
            Need::largest_first(&mut lots, size);
        }
        lots
    }

    /// Notes that placed pods stand on their nodes, where the cluster counts them already. Of each class those go that
    /// were seen first.
    fn assume(&mut self, unit: UnitId, need: &Need, places: &Places) -> Vec<Placement> {
        self.advisory.cluster_changed();
        let mut placements = Vec::with_capacity(places.spots.len());
        let leaves_some = places.spots.len() < need.pods_count();
        if let UnitId::Group(group) = unit {
            self.groups.get_mut(group).note_start();
        }
        for (lot, node) in &places.spots {
            let id = match unit {
                UnitId::Pod(id) => id,
                UnitId::Group(group) => {
                    let group = self.groups.get_mut(group);
                    let first = group.pending.take_first(need.lots[*lot].class);
                    let id = first.expect("no more pods are placed than wait");
                    let pod = self.pods.get(id);
                    group.run.add_controller(pod.owner.as_ref());
                    if leaves_some {
                        group.ages.remove(&(pod.created(), pod.seen));
                    }
                    group.placed.insert(id, *node);
                    id
                }
            };
            let pod = self.pods.get_mut(id);
            pod.stage = Stage::Assumed(*node);
            let node = self.cluster.node_name(*node).to_owned();
            placements.push(Placement { pod: pod.key(), uid: pod.uid().to_owned(), node });
        }
        if let UnitId::Group(group) = unit {
            if !leaves_some {
                self.groups.get_mut(group).ages.clear();
            }
            self.note_partial(group);
            let (pods_count, turn) = (self.groups.get(group).pending.len(), self.groups.get(group).next_turn());
            self.queue.resize(group, pods_count, turn);
        }
        placements
    }

    fn wait(&mut self, unit: UnitId, need: &Need, refusal: &mut Refusal, now: Timestamp) {
        let lacks_room = refusal.cause == Cause::NoRoom && refusal.could_wait && !refusal.is_about_extra_pods();
        let wait = Wait {
            classes: need.lots.iter().map(|lot| lot.class).collect(),
            in_one_domain: need.constraint.is_some(),
            is_mixed: need.lots.len() > 1 && need.required_count() > 1,
            proven: refusal.proven,
            // A pod alone is passed only by pods that are smaller; it is the groups that small pods starve.
            can_be_held_for: lacks_room && matches!(unit, UnitId::Group(_)),
            now,
        };
        self.queue.wait(unit, wait);
        self.note_refused(unit, refusal, now);
    }

    /// Says what an incomplete group lacks.
    fn incomplete(&mut self, unit: UnitId) -> Option<Decision> {
        let UnitId::Group(id) = unit else { return None };
        let group = self.groups.get(id);
        let cause = match group.readiness() {
            Readiness::NoPodGroup => Cause::NoPodGroup,
            Readiness::Parent => match group.parent_obstacle.clone()? {
                ParentObstacle::Missing(parent) => Cause::NoParent { parent },
                ParentObstacle::MoreThanBasic(parent) => Cause::ParentNotBasic { parent },
                ParentObstacle::Cycle(parents) => Cause::ParentCycle { parents },
            },
            Readiness::Incomplete => Cause::Incomplete,
            Readiness::Gated => Cause::Gated,
            Readiness::Unsupported => Cause::UnsupportedTerms { fields: self.unsupported_fields(group) },
            Readiness::NothingPending | Readiness::Ready => return None,
        };
        let quorum = group.quorum();
        let unit = Unit::Group(group.key.clone());
        // Nothing that happens in the cluster helps: only the pods or the parent can change.
        let is_hopeless =
            matches!(cause, Cause::UnsupportedTerms { .. } | Cause::ParentNotBasic { .. } | Cause::ParentCycle { .. });
        let refusal = Refusal {
            cause,
            is_gang: quorum.is_some(),
            nodes_count: self.cluster.present_count(),
            proven: is_hopeless,
            could_wait: !is_hopeless,
            set_aside: group.aside,
            ..Refusal::about(unit.clone(), quorum.unwrap_or(1), group.pending.len(), group.placed_count())
        };
        Some(Decision { unit, verdict: Verdict::Wait(refusal), domain: None, unplaced: None })
    }

    /// What members that are set aside for it demand of their place.
    fn unsupported_fields(&self, group: &Group) -> Vec<&'static str> {
        let members = group.members.iter().map(|id| self.pods.get(*id));
        let unsupported = members.filter(|pod| pod.stage == Stage::Aside(Aside::Unsupported));
        let fields: BTreeSet<&'static str> = unsupported.flat_map(|pod| pod.view.spec.unread()).collect();
        fields.into_iter().collect()
    }

    /// The unit a pod belongs to, and when it is its turn.
    fn unit_of(&self, id: PodId) -> (UnitId, Turn) {
        let pod = self.pods.get(id);
        match pod.group {
            Some(group) => (UnitId::Group(group), self.groups.get(group).next_turn()),
            None => {
                let turn = Turn { priority: std::cmp::Reverse(pod.priority), created: pod.created(), seen: pod.seen };
                (UnitId::Pod(id), turn)
            }
        }
    }
}

#[cfg(test)]
impl Core {
    /// Whether nodes are held for somebody.
    pub(crate) fn is_holding(&self) -> bool {
        self.holding.is_some()
    }

    /// How many classes there are, and how many tables with a row for each node.
    pub(crate) fn kept_counts(&self) -> (usize, usize) {
        (self.classes.len(), self.cluster.tables_count())
    }

    /// Counts what deciding costs: pods put on nodes or taken off, also tentatively, and lots that were looked at.
    pub(crate) fn steps_count(&self) -> u64 {
        self.cluster.log_end() + self.lots_count
    }

    /// Panics unless the columns are the sums of the pods, and every kept index equals one made anew.
    pub(crate) fn assert_consistent(&mut self) {
        self.cluster.assert_sums(self.pods.all().filter_map(|pod| Some((pod.stage.node()?, &*pod.usage))));
        self.queue.assert_counted(|group| {
            let group = self.groups.get(group);
            assert_eq!(group.ages.len(), group.pending.len());
            group.pending.len()
        });
        let gated = self.pods.all().filter(|pod| pod.stage == Stage::Aside(Aside::Gated)).count();
        assert_eq!(self.gated_count, gated);
        self.classes.assert_fresh(&self.cluster);
    }
}
