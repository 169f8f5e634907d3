//! Which pods belong to their group, and how the group stands after one came or went.

use std::cmp::Reverse;

use api::views::{Condition, ObjectKey, PodGroupView};

use super::Core;
use crate::classes::ClassId;
use crate::decision::{Decision, OtherPriority, Unit, Verdict};
use crate::groups::{Group, GroupId, Owner, ParentObstacle, Readiness, Terms};
use crate::pods::{Aside, PodId, Sighting, Stage};
use crate::queue::{Lack, UnitId};
use crate::refusal::{Cause, Refusal};

/// How the pods of a group changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// In a way that may let the group fit.
    Other,
    /// Fewer pods wait. That helps the others only where a large one was in their way.
    Fewer,
    /// One more pod of a class waits.
    More(ClassId),
}

impl Core {
    pub(super) fn saw_group(&mut self, view: &PodGroupView) {
        let id = self.groups.find_or_add(&view.metadata.key());
        let parent = view.spec.parent_composite_pod_group_name.as_deref();
        let terms = Terms {
            min_count: view.min_count().map(|count| usize::try_from(count).unwrap_or(0).max(1)),
            expected_count: view.expected_count().and_then(Result::ok),
            topology: view.topology_key().map(|key| self.cluster.topology_of(key)),
            priority: view.spec.priority.unwrap_or(0),
            reached: Condition::is_true(&view.status.conditions, "PodGroupInitiallyScheduled"),
            satisfied: view.is_satisfied(),
            owner: view.metadata.controller().map(Owner::of),
            ours: view.is_of_our_jobs(),
            parent: parent.map(|name| ObjectKey::new(view.metadata.namespace.as_str(), name)),
        };
        let group = self.groups.get_mut(id);
        // Conditions are written by our own shell; but for having been satisfied once they change nothing here.
        if group.terms.as_ref() == Some(&terms) {
            return;
        }
        group.turn.priority = Reverse(terms.priority);
        let of_whom = |terms: &Terms| (terms.owner.clone(), terms.priority);
        let judged_anew = group.terms.as_ref().map(of_whom) != Some(of_whom(&terms));
        let is_news = terms.reached && !group.terms.as_ref().is_some_and(|before| before.reached);
        // Members may have ended so soon that they were never seen bound at once.
        group.was_whole |= is_news && !group.placed.is_empty();
        group.parent_obstacle = self.composites.obstacle(terms.parent.as_ref());
        if terms.parent.is_some() {
            self.composites.children.insert(id);
        } else {
            self.composites.children.remove(&id);
        }
        group.terms = Some(terms);
        group.note_whole();
        if judged_anew {
            self.judge_members(id);
        }
        self.requeue_group(id, Membership::Other);
    }

    pub(super) fn lost_group(&mut self, key: &ObjectKey) {
        let Some(id) = self.groups.find(key) else { return };
        let group = self.groups.get_mut(id);
        (group.terms, group.parent_obstacle) = (None, None);
        group.was_whole = false;
        self.composites.children.remove(&id);
        self.judge_members(id);
        self.requeue_group(id, Membership::Other);
        self.drop_group_if_empty(id);
    }

    /// CompositePodGroups came, went or changed: groups below them may have to wait, or no longer.
    pub(super) fn look_at_parents(&mut self) {
        for id in self.composites.children.clone() {
            let group = self.groups.get_mut(id);
            let obstacle = self.composites.obstacle(group.terms.as_ref().and_then(|terms| terms.parent.as_ref()));
            if group.parent_obstacle != obstacle {
                group.parent_obstacle = obstacle;
                self.requeue_group(id, Membership::Other);
            }
        }
    }

    pub(super) fn drop_group_if_empty(&mut self, id: GroupId) {
        let group = self.groups.get(id);
        if group.terms.is_none() && group.members.is_empty() {
            self.queue.remove(UnitId::Group(id));
            self.forget_partial(id);
            self.advisory.forget(UnitId::Group(id));
            self.groups.remove(id);
        }
    }

    /// Who belongs to the group may be others than before: its owner or its priority is another.
    fn judge_members(&mut self, group: GroupId) {
        for id in self.groups.get(group).members.clone() {
            match self.pods.get(id).stage {
                Stage::Pending | Stage::Aside(_) => {
                    let stage = self.stage_unbound(id);
                    self.restage(id, stage);
                    if stage == Stage::Aside(Aside::Unsupported) {
                        self.untold.insert(id);
                    }
                }
                Stage::Assumed(node) | Stage::Bound(node) => {
                    let counts = self.refused_by_group(id) != Some(Aside::Foreign);
                    let placed = &mut self.groups.get_mut(group).placed;
                    if counts {
                        placed.insert(id, node);
                    } else {
                        placed.remove(id, node);
                    }
                }
                Stage::Succeeded => {}
            }
        }
    }

    /// Where a pod stands while it has no node.
    pub(super) fn stage_unbound(&self, id: PodId) -> Stage {
        match self.pods.get(id).unbound {
            Sighting::Aside(why) => Stage::Aside(why),
            _ => self.refused_by_group(id).map_or(Stage::Pending, Stage::Aside),
        }
    }

    /// Why the pod's group does not take it, if so.
    fn refused_by_group(&self, id: PodId) -> Option<Aside> {
        let pod = self.pods.get(id);
        let terms = self.groups.get(pod.group?).terms.as_ref()?;
        let by_priority = self.config.other_priority == OtherPriority::Refused;
        terms.refuse(pod.owner.as_deref(), pod.priority, by_priority)
    }

    pub(super) fn restage_member(&mut self, group_id: GroupId, id: PodId, seen: u64, before: Stage, next: Stage) {
        let pod = self.pods.get(id);
        let (class, age) = (pod.class, (pod.created(), seen));
        let is_foreign = self.refused_by_group(id) == Some(Aside::Foreign);
        let group = self.groups.get_mut(group_id);
        if group.pending.is_empty() && group.placed.is_empty() {
            group.run.judge_again();
        }
        match before {
            Stage::Pending => {
                group.pending.remove(class.expect("a pending pod has a class"), seen);
                group.ages.remove(&age);
            }
            Stage::Assumed(node) | Stage::Bound(node) if Some(node) != next.node() => {
                group.placed.remove(id, node);
            }
            Stage::Assumed(_) | Stage::Bound(_) => {}
            Stage::Succeeded => group.run.forget(id),
            Stage::Aside(why) => {
                if let Some(count) = aside_count(group, why) {
                    *count -= 1;
                }
            }
        }
        match next {
            Stage::Pending => {
                group.pending.insert(class.expect("a pending pod has a class"), seen, id);
                group.ages.insert(age);
            }
            Stage::Assumed(node) | Stage::Bound(node) if Some(node) != before.node() && !is_foreign => {
                group.placed.insert(id, node);
            }
            Stage::Assumed(_) | Stage::Bound(_) => {}
            Stage::Succeeded => group.run.add_succeeded(id),
            Stage::Aside(why) => {
                if let Some(count) = aside_count(group, why) {
                    *count += 1;
                }
            }
        }
        group.bound_count += usize::from(matches!(next, Stage::Bound(_)));
        group.bound_count -= usize::from(matches!(before, Stage::Bound(_)));
        group.note_whole();
        if before.node().is_some() && before.node() == next.node() {
            return;
        }
        let change = match (before, next) {
            (Stage::Pending, Stage::Aside(_)) => Membership::Fewer,
            (Stage::Aside(_), Stage::Pending) => class.map_or(Membership::Other, Membership::More),
            _ => Membership::Other,
        };
        self.requeue_group(group_id, change);
    }

    /// Puts the group where it belongs in the queue, after pods of it came or went.
    pub(super) fn requeue_group(&mut self, id: GroupId, change: Membership) {
        self.note_partial(id);
        let group = self.groups.get(id);
        let (unit, turn) = (UnitId::Group(id), group.next_turn());
        match group.readiness() {
            Readiness::NothingPending => self.queue.idle(unit),
            Readiness::Parent => {
                let is_missing = matches!(group.parent_obstacle, Some(ParentObstacle::Missing(_)));
                self.queue.set_incomplete(unit, turn, if is_missing { Lack::PodGroup } else { Lack::Support })
            }
            Readiness::NoPodGroup => self.queue.set_incomplete(unit, turn, Lack::PodGroup),
            Readiness::Incomplete | Readiness::Gated => self.queue.set_incomplete(unit, turn, Lack::Pods),
            Readiness::Unsupported => self.queue.set_incomplete(unit, turn, Lack::Support),
            Readiness::Ready => match change {
                Membership::Other => self.queue.offer(unit, turn),
                Membership::Fewer => self.queue.offer_unless_hopeless(unit, turn, None),
                Membership::More(class) => self.queue.offer_unless_hopeless(unit, turn, Some(class)),
            },
        }
        self.queue.resize(id, self.groups.get(id).pending.len(), turn);
    }

    /// A pod that its group does not take, and why. Each is told once.
    pub(super) fn refused_alone(&mut self) -> Option<Decision> {
        let pod = loop {
            let pod = self.pods.get(self.untold.pop_first()?);
            // A gang waits as a whole for those that cannot be placed.
            let is_of_gang = |id| self.groups.get(id).terms.as_ref().is_none_or(|terms| terms.min_count.is_some());
            if pod.stage != Stage::Aside(Aside::Unsupported) || !pod.group.is_some_and(is_of_gang) {
                break pod;
            }
        };
        let group = || self.groups.get(pod.group.expect("a group refuses only pods that name it")).key.clone();
        let cause = match pod.stage {
            Stage::Aside(Aside::Unsupported) => Cause::UnsupportedTerms { fields: pod.view.spec.unread() },
            Stage::Aside(Aside::OtherPriority) => Cause::OtherPriority { group: group() },
            _ => Cause::NotAMember { group: group() },
        };
        let unit = Unit::Pod(pod.key());
        let refusal = Refusal { cause, proven: true, ..Refusal::about(unit.clone(), 1, 1, 0) };
        Some(Decision { unit, verdict: Verdict::Wait(refusal), domain: None, unplaced: None })
    }
}

/// How many pods are set aside for the same reason. Those that leave are not counted.
fn aside_count(group: &mut Group, why: Aside) -> Option<&mut usize> {
    match why {
        Aside::Leaving => None,
        Aside::Gated => Some(&mut group.aside.gated_count),
        Aside::OtherScheduler => Some(&mut group.aside.other_scheduler_count),
        Aside::Foreign => Some(&mut group.aside.foreign_count),
        Aside::OtherPriority => Some(&mut group.aside.other_priority_count),
        Aside::Unsupported => Some(&mut group.aside.unsupported_count),
    }
}
