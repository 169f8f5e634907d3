//! The state machine: observe a change, ask for the next decision, report what became of it.

mod observe; // changes of pods, nodes and PodGroups

use api::Timestamp;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::classes::{ClassId, Classes};
use crate::cluster::{Cluster, DomainId, NodeIndex};
use crate::cycle::{self, Answer};
use crate::decision::{ChosenDomain, Config, Decision, Outcome, Placement, Unit, Verdict};
use crate::groups::{Group, GroupId, Groups, Readiness};
use crate::need::{self, Constraint, Lot, Need, Policy};
use crate::place::Places;
use crate::pods::{PodId, Pods, Stage};
use crate::queue::{Pauses, Queue, Turn, UnitId};
use crate::refusal::{Cause, Refusal};
use crate::slots::Region;

/// Everything the scheduler knows, with one owner and no locks.
#[derive(Debug)]
pub struct Core {
    config: Config,
    cluster: Cluster,
    classes: Classes,
    pods: Pods,
    groups: Groups,
    queue: Queue,
}

impl Core {
    /// A core that has seen nothing yet.
    pub fn new(config: Config) -> Core {
        let pauses = Pauses {
            backoff_initial: config.backoff_initial,
            backoff_max: config.backoff_max,
            incomplete_after: config.incomplete_after,
        };
        Core {
            cluster: Cluster::default(),
            classes: Classes::new(config.kept_classes),
            pods: Pods::default(),
            groups: Groups::default(),
            queue: Queue::new(pauses),
            config,
        }
    }

    /// The next decision; `None` when nothing is to be decided now. Its pods count as placed when this returns.
    pub fn next(&mut self, now: Timestamp) -> Option<Decision> {
        self.queue.tick(now);
        while let Some(unit) = self.queue.pop() {
            if let Some(need) = self.need(unit) {
                return Some(self.decide(unit, &need));
            }
        }
        self.queue.pop_incomplete(now).and_then(|unit| self.incomplete(unit))
    }

    /// When asking again is worth it although nothing changed.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.queue.next_at()
    }

    /// Takes in what became of one bind. Unknown pods and pods the watch has shown bound are left as they are.
    pub fn settled(&mut self, outcome: Outcome, now: Timestamp) {
        let Outcome::Failed { pod, uid } = outcome else {
            // The pod stays assumed until the watch shows it, so that no change in between can take its place.
            return;
        };
        let Some(id) = self.pods.find(&pod).filter(|id| self.pods.get(*id).uid == uid) else { return };
        if !matches!(self.pods.get(id).stage, Stage::Assumed(_)) {
            return;
        }
        let stage = if self.pods.get(id).eligible { Stage::Pending } else { Stage::Held };
        self.restage(id, stage);
        if stage == Stage::Pending {
            let (unit, turn) = self.unit_of(id);
            self.queue.failed(unit, turn, now);
        }
    }

    fn decide(&mut self, unit: UnitId, need: &Need) -> Decision {
        let (verdict, region, unplaced) = match cycle::decide(need, &mut self.cluster, &mut self.classes) {
            Answer::Placed { places, region } => {
                self.queue.attempted(unit);
                let placements = self.assume(&places);
                let rest = self.need(unit);
                let unplaced = rest.map(|rest| {
                    self.wait(unit, &rest);
                    cycle::refuse(&rest, &self.cluster, &mut self.classes)
                });
                (Verdict::Bind(placements), Some(region), unplaced)
            }
            Answer::Refused(refusal) => {
                self.wait(unit, need);
                (Verdict::Wait(refusal), None, None)
            }
        };
        let domain = match region {
            Some(Region::Domain(id, domain)) => {
                let topology = self.cluster.topology(id);
                let text = |name| self.cluster.names.text(name).to_string();
                Some(ChosenDomain { key: text(topology.key()), value: text(topology.value(domain)) })
            }
            _ => None,
        };
        Decision { unit: need.unit.clone(), verdict, domain, unplaced }
    }

    /// What the unit asks for now; `None` when it cannot be decided.
    fn need(&mut self, unit: UnitId) -> Option<Need> {
        match unit {
            UnitId::Pod(id) => {
                let pod = self.pods.get(id);
                let class = pod.class.filter(|_| pod.stage == Stage::Pending)?;
                Some(Need {
                    unit: Unit::Pod(pod.key.clone()),
                    policy: Policy::Alone,
                    lots: vec![Lot { class, pods: vec![id] }],
                    placed_count: 0,
                    constraint: None,
                })
            }
            UnitId::Group(id) => {
                let group = self.groups.get(id);
                let terms = group.terms.filter(|_| group.readiness() == Readiness::Ready)?;
                Some(Need {
                    unit: Unit::Group(group.key.clone()),
                    policy: group.min_count().map_or(Policy::Basic, |min_count| Policy::Gang { min_count }),
                    lots: self.lots(group),
                    placed_count: group.placed_count(),
                    constraint: terms
                        .topology
                        .map(|topology| Constraint { topology, members_in: self.domains_of(group, topology) }),
                })
            }
        }
    }

    fn lots(&self, group: &Group) -> Vec<Lot> {
        let mut by_class: IndexMap<ClassId, Vec<PodId>, FxBuildHasher> = IndexMap::default();
        for id in group.pending.values() {
            let class = self.pods.get(*id).class.expect("a pending pod has a class");
            by_class.entry(class).or_default().push(*id);
        }
        let mut lots: Vec<_> = by_class.into_iter().map(|(class, pods)| Lot { class, pods }).collect();
        if lots.len() > 1 {
            let size = |id| self.classes.get(id).map_or(0, |class| need::size(&class.usage, &self.cluster));
            Need::largest_first(&mut lots, size);
        }
        lots
    }

    fn domains_of(&self, group: &Group, topology: crate::cluster::TopologyId) -> Vec<DomainId> {
        let topology = self.cluster.topology(topology);
        let mut domains = Vec::new();
        for id in &group.placed {
            let domain = self.pods.get(*id).stage.node().and_then(|node| topology.domain_of(node));
            if let Some(domain) = domain.filter(|domain| !domains.contains(domain)) {
                domains.push(domain);
            }
        }
        domains
    }

    /// Notes that placed pods stand on their nodes, where the cluster counts them already.
    fn assume(&mut self, places: &Places) -> Vec<Placement> {
        let placement = |(id, node): &(PodId, NodeIndex)| {
            let pod = self.pods.get_mut(*id);
            pod.stage = Stage::Assumed(*node);
            if let Some(group) = pod.group {
                let group = self.groups.get_mut(group);
                group.pending.remove(&pod.seen);
                group.placed.insert(*id);
            }
            Placement { pod: pod.key.clone(), uid: pod.uid.clone(), node: self.cluster.node_name(*node).to_owned() }
        };
        places.spots.iter().map(placement).collect()
    }

    fn wait(&mut self, unit: UnitId, need: &Need) {
        let classes = need.lots.iter().map(|lot| lot.class).collect();
        self.queue.wait(unit, classes, need.constraint.is_some());
    }

    /// Says what an incomplete group lacks.
    fn incomplete(&mut self, unit: UnitId) -> Option<Decision> {
        let UnitId::Group(id) = unit else { return None };
        let group = self.groups.get(id);
        let cause = match group.readiness() {
            Readiness::NoPodGroup => Cause::NoPodGroup,
            Readiness::Incomplete => Cause::Incomplete,
            Readiness::NothingPending | Readiness::Ready => return None,
        };
        let wanted = group.terms.and_then(|terms| terms.min_count).unwrap_or(1);
        let unit = Unit::Group(group.key.clone());
        let refusal = Refusal {
            cause,
            is_gang: group.terms.is_some_and(|terms| terms.min_count.is_some()),
            nodes_count: self.cluster.present_count(),
            could_wait: true,
            ..Refusal::about(unit.clone(), wanted, group.pending.len(), group.placed_count())
        };
        Some(Decision { unit, verdict: Verdict::Wait(refusal), domain: None, unplaced: None })
    }

    /// The unit a pod belongs to, and when it is its turn.
    fn unit_of(&self, id: PodId) -> (UnitId, Turn) {
        let pod = self.pods.get(id);
        match pod.group {
            Some(group) => (UnitId::Group(group), self.groups.get(group).turn),
            None => {
                let turn = Turn { priority: std::cmp::Reverse(pod.priority), created: pod.created, seen: pod.seen };
                (UnitId::Pod(id), turn)
            }
        }
    }

    /// Puts the group where it belongs in the queue, after pods of it came or went.
    fn requeue_group(&mut self, id: GroupId, change: Membership) {
        let group = self.groups.get(id);
        let (unit, turn) = (UnitId::Group(id), group.turn);
        match group.readiness() {
            Readiness::NothingPending => self.queue.idle(unit),
            Readiness::NoPodGroup | Readiness::Incomplete => self.queue.set_incomplete(unit, turn),
            Readiness::Ready if change == Membership::Fewer => {}
            Readiness::Ready => self.queue.offer(unit, turn),
        }
    }
}

#[cfg(test)]
impl Core {
    /// Panics unless the columns are the sums of the pods, and every kept index equals one made anew.
    pub(crate) fn assert_consistent(&mut self) {
        let mut taken = std::collections::BTreeMap::new();
        for pod in self.pods.all() {
            if let Some(node) = pod.stage.node() {
                let (pods_count, cpu) = taken.entry(node).or_insert((0, 0));
                *pods_count += 1;
                *cpu += pod.usage.scored.cpu_milli;
            }
        }
        for node in self.cluster.indices() {
            let counted = (self.cluster.pods_count(node), self.cluster.scored(node).cpu_milli);
            assert_eq!(counted, taken.get(&node).copied().unwrap_or_default(), "{}", self.cluster.node_name(node));
        }
        self.classes.assert_fresh(&self.cluster);
    }
}

/// How the pods of a group changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Membership {
    /// In a way that may let the group fit.
    Other,
    /// Fewer pods wait, which helps none of the others.
    Fewer,
}
