//! Which pods are members of their group, and what a change of them does to the group.

use std::cmp::Reverse;

use types::views::{Condition, ObjectKey, PodGroupView, PodView};

use super::Core;
use crate::decision::{Decision, DecisionAction, PriorityMismatch, Unit};
use crate::demand::classes::ClassId;
use crate::demand::groups::{ControllerRef, GroupId, GroupSpec, ParentObstacle, Readiness};
use crate::demand::pods::{ExclusionReason, ObservedStage, PodId, Stage};
use crate::explain::refusal::{ExcludedCounts, Refusal, RefusalCause};
use crate::queue::{IncompleteReason, UnitId};

/// How the members of a group changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MembershipChange {
    /// In a way that may let the group fit.
    Other,
    /// Fewer pods are pending. That helps the others only if a large one was in their way.
    Fewer,
    /// One more pod of a class is pending.
    More(ClassId),
}

impl Core {
    pub(super) fn update_group(&mut self, view: &PodGroupView) {
        let id = self.groups.find_or_add(&view.metadata.key());
        let parent = view.spec.parent_composite_pod_group_name.as_deref();
        let spec = GroupSpec {
            min_count: view.min_count().map(|count| usize::try_from(count).unwrap_or(0).max(1)),
            expected_count: view.expected_count().and_then(Result::ok),
            topology: view.topology_key().map(|key| self.cluster.topology_of(key)),
            priority: view.spec.priority.unwrap_or(0),
            reached_min_count: Condition::is_true(&view.status.conditions, "PodGroupInitiallyScheduled"),
            satisfied: view.is_satisfied(),
            owner: view.metadata.controller().map(ControllerRef::of),
            is_ours: view.is_managed_by_job_controller(),
            parent: parent.map(|name| ObjectKey::new(view.metadata.namespace.as_str(), name)),
        };
        let group = self.groups.get_mut(id);
        // Our own shell writes the conditions. Apart from the first quorum they change nothing here.
        if group.spec.as_ref() == Some(&spec) {
            return;
        }
        group.order.priority = Reverse(spec.priority);
        let membership_terms = |spec: &GroupSpec| (spec.owner.clone(), spec.priority);
        let must_reevaluate = group.spec.as_ref().map(membership_terms) != Some(membership_terms(&spec));
        let just_reached =
            spec.reached_min_count && !group.spec.as_ref().is_some_and(|before| before.reached_min_count);
        group.parent_obstacle = self.composites.obstacle(spec.parent.as_ref());
        if spec.parent.is_some() {
            self.composites.children.insert(id);
        } else {
            self.composites.children.remove(&id);
        }
        let before = self.groups.set_spec(id, Some(spec));
        if must_reevaluate {
            self.reevaluate_members(id, before.as_ref());
        }
        let group = self.groups.get_mut(id);
        // Members may have ended so soon that they were never observed bound at once.
        group.had_quorum |= just_reached && !group.placed.is_empty();
        group.note_quorum();
        self.requeue_group(id, MembershipChange::Other);
    }

    pub(super) fn remove_group(&mut self, key: &ObjectKey) {
        let Some(id) = self.groups.find(key) else { return };
        let before = self.groups.set_spec(id, None);
        let group = self.groups.get_mut(id);
        group.parent_obstacle = None;
        // As for a new core: running members may show that a PodGroup of this name had its quorum.
        (group.had_quorum, group.start_observed) = (false, false);
        self.composites.children.remove(&id);
        self.reevaluate_members(id, before.as_ref());
        self.requeue_group(id, MembershipChange::Other);
        self.drop_group_if_empty(id);
    }

    /// CompositePodGroups were added, removed or changed: groups below them may have to wait, or no longer have to.
    pub(super) fn update_parent_obstacles(&mut self) {
        for id in self.composites.children.clone() {
            let group = self.groups.get_mut(id);
            let obstacle = self.composites.obstacle(group.spec.as_ref().and_then(|spec| spec.parent.as_ref()));
            if group.parent_obstacle != obstacle {
                group.parent_obstacle = obstacle;
                self.requeue_group(id, MembershipChange::Other);
            }
        }
    }

    pub(super) fn drop_group_if_empty(&mut self, id: GroupId) {
        let group = self.groups.get(id);
        if group.spec.is_none() && group.members.is_empty() {
            self.queue.remove(UnitId::Group(id));
            self.forget_partial(id);
            self.drop_reservation(UnitId::Group(id));
            self.remedy_schedule.forget(UnitId::Group(id));
            self.groups.remove(id);
        }
    }

    /// Evaluates the membership of all pods again, because the group's owner or priority changed.
    fn reevaluate_members(&mut self, group: GroupId, before: Option<&GroupSpec>) {
        let members = self.groups.get(group).members.clone();
        // Each pod without a node that changes its stage reads which of the others count.
        for id in &members {
            let owner = self.pods.get(*id).owner.as_deref();
            let had_other_owner = before.is_some_and(|before| before.has_other_owner(owner));
            self.reevaluate_placed(group, *id, had_other_owner);
        }
        for id in members {
            if matches!(self.pods.get(id).stage, Stage::Pending | Stage::Excluded(_)) {
                let stage = self.stage_unbound(id);
                self.restage(id, stage);
                if stage == Stage::Excluded(ExclusionReason::Unsupported) {
                    self.unreported_pods.insert(id);
                }
            }
        }
    }

    /// Evaluates whether a member that is on a node or has succeeded counts.
    fn reevaluate_placed(&mut self, group: GroupId, id: PodId, had_other_owner: bool) {
        let has_other_owner = self.has_other_owner(id);
        let (group, pod) = (self.groups.get_mut(group), self.pods.get(id));
        match pod.stage {
            Stage::Assumed(node) | Stage::Bound(node) if has_other_owner || pod.is_deleting => {
                group.placed.remove(id, node);
            }
            Stage::Assumed(node) => group.placed.insert(id, node, false),
            Stage::Bound(node) => group.placed.insert(id, node, true),
            Stage::Succeeded if has_other_owner => group.run.forget(id),
            Stage::Succeeded if had_other_owner => {
                group.run.add_succeeded(id);
                // It may belong to an earlier run.
                group.run.reset();
            }
            Stage::Succeeded | Stage::Pending | Stage::Excluded(_) => {}
        }
    }

    /// A controller may have adopted or abandoned the pod. If it has no node, the caller evaluates its stage.
    pub(super) fn update_owner(&mut self, id: PodId, view: &PodView) {
        let (pod, owner) = (self.pods.get(id), view.metadata.controller());
        let Some(group) = pod.group else { return };
        if pod.owner.as_ref().map(|before| before.uid()) == owner.map(|owner| owner.uid.as_str()) {
            return;
        }
        let had_other_owner = self.has_other_owner(id);
        let owner = owner.map(|owner| self.groups.get_mut(group).intern_owner(ControllerRef::of(owner)));
        self.pods.get_mut(id).owner = owner;
        self.reevaluate_placed(group, id, had_other_owner);
        self.groups.get_mut(group).note_quorum();
        self.requeue_group(group, MembershipChange::Other);
    }

    /// The stage of a pod while it has no node.
    pub(super) fn stage_unbound(&self, id: PodId) -> Stage {
        match self.pods.get(id).observed_unbound {
            // A pod that is no member must not block the group.
            ObservedStage::Excluded(ExclusionReason::Unsupported) if self.has_other_owner(id) => {
                Stage::Excluded(ExclusionReason::OtherOwner)
            }
            ObservedStage::Excluded(reason) => Stage::Excluded(reason),
            _ => self.excluded_by_group(id).map_or(Stage::Pending, Stage::Excluded),
        }
    }

    fn has_other_owner(&self, id: PodId) -> bool {
        self.excluded_by_group(id) == Some(ExclusionReason::OtherOwner)
    }

    /// Why the pod is not a member of its group, if it is not.
    fn excluded_by_group(&self, id: PodId) -> Option<ExclusionReason> {
        let pod = self.pods.get(id);
        let spec = self.groups.get(pod.group?).spec.as_ref()?;
        let by_priority = self.config.priority_mismatch == PriorityMismatch::Refused;
        spec.exclude(pod.owner.as_deref(), pod.priority, by_priority)
    }

    pub(super) fn restage_member(&mut self, group_id: GroupId, id: PodId, arrival: u64, before: Stage, next: Stage) {
        let pod = self.pods.get(id);
        let (class, age) = (pod.class, (pod.created(), arrival));
        let has_other_owner = self.has_other_owner(id);
        let group = self.groups.get_mut(group_id);
        if group.pending.is_empty() && group.placed.is_empty() {
            group.run.reset();
        }
        match before {
            Stage::Pending => {
                group.pending.remove(class.expect("a pending pod has a class"), arrival);
                group.pending_by_age.remove(&age);
            }
            Stage::Assumed(node) | Stage::Bound(node) if Some(node) != next.node() => {
                group.placed.remove(id, node);
            }
            Stage::Assumed(_) | Stage::Bound(_) => {}
            Stage::Succeeded => group.run.forget(id),
            Stage::Excluded(reason) => {
                if let Some(count) = excluded_count(&mut group.excluded, reason) {
                    *count -= 1;
                }
            }
        }
        match next {
            Stage::Pending => {
                group.pending.insert(class.expect("a pending pod has a class"), arrival, id);
                group.pending_by_age.insert(age);
            }
            Stage::Assumed(node) | Stage::Bound(node) if Some(node) != before.node() && !has_other_owner => {
                group.placed.insert(id, node, matches!(next, Stage::Bound(_)));
            }
            Stage::Assumed(_) => {}
            Stage::Bound(_) => group.placed.set_bound(id),
            Stage::Succeeded if !has_other_owner => group.run.add_succeeded(id),
            Stage::Succeeded => {}
            Stage::Excluded(reason) => {
                if let Some(count) = excluded_count(&mut group.excluded, reason) {
                    *count += 1;
                }
            }
        }
        group.note_quorum();
        if before.node().is_some() && before.node() == next.node() {
            return;
        }
        let change = match (before, next) {
            // A run that continues needs only as many pods as exist.
            (Stage::Pending, Stage::Excluded(_)) if !group.run.is_continued() => MembershipChange::Fewer,
            (Stage::Excluded(_), Stage::Pending) => class.map_or(MembershipChange::Other, MembershipChange::More),
            _ => MembershipChange::Other,
        };
        self.requeue_group(group_id, change);
    }

    /// Updates the group in the queue after its members changed.
    pub(super) fn requeue_group(&mut self, id: GroupId, change: MembershipChange) {
        self.note_partial(id);
        let group = self.groups.get(id);
        let (unit, order) = (UnitId::Group(id), group.queue_order());
        match group.readiness() {
            Readiness::NothingPending => self.queue.set_idle(unit),
            Readiness::BlockedByParent => {
                let is_missing = matches!(group.parent_obstacle, Some(ParentObstacle::Missing(_)));
                self.queue.set_incomplete(
                    unit,
                    order,
                    if is_missing { IncompleteReason::MissingPodGroup } else { IncompleteReason::Unsupported },
                )
            }
            Readiness::NoPodGroup => self.queue.set_incomplete(unit, order, IncompleteReason::MissingPodGroup),
            Readiness::Incomplete | Readiness::Gated => {
                self.queue.set_incomplete(unit, order, IncompleteReason::MissingPods)
            }
            Readiness::Unsupported => self.queue.set_incomplete(unit, order, IncompleteReason::Unsupported),
            Readiness::Ready => match change {
                MembershipChange::Other => self.queue.enqueue(unit, order),
                MembershipChange::Fewer => self.queue.enqueue_unless_hopeless(unit, order, None),
                MembershipChange::More(class) => self.queue.enqueue_unless_hopeless(unit, order, Some(class)),
            },
        }
        self.queue.resize(id, self.groups.get(id).pending.len(), order);
    }

    /// A pod that is excluded from its group, and why. Each is reported once.
    pub(super) fn next_excluded_pod(&mut self) -> Option<Decision> {
        let pod = loop {
            let pod = self.pods.get(self.unreported_pods.pop_first()?);
            // A gang with unsupported pods waits as a whole.
            let is_in_gang = |id| self.groups.get(id).spec.as_ref().is_none_or(|spec| spec.min_count.is_some());
            if pod.stage != Stage::Excluded(ExclusionReason::Unsupported) || !pod.group.is_some_and(is_in_gang) {
                break pod;
            }
        };
        let group =
            || self.groups.get(pod.group.expect("only pods that name a group are excluded from it")).key.clone();
        let cause = match pod.stage {
            Stage::Excluded(ExclusionReason::Unsupported) => {
                RefusalCause::UnsupportedTerms { fields: pod.view.spec.unsupported_fields() }
            }
            Stage::Excluded(ExclusionReason::PriorityMismatch) => RefusalCause::PriorityMismatch { group: group() },
            _ => RefusalCause::OtherOwner { group: group() },
        };
        let unit = Unit::Pod(pod.key());
        let refusal = Refusal { cause, proven: true, ..Refusal::new(unit.clone(), 1, 1, 0) };
        Some(Decision { unit, action: DecisionAction::Wait(refusal), domain: None, unplaced: None })
    }
}

/// The counter of pods excluded for this reason. Deleted pods are not counted.
fn excluded_count(excluded: &mut ExcludedCounts, reason: ExclusionReason) -> Option<&mut usize> {
    match reason {
        ExclusionReason::Deleting => None,
        ExclusionReason::Gated => Some(&mut excluded.gated_count),
        ExclusionReason::OtherScheduler => Some(&mut excluded.other_scheduler_count),
        ExclusionReason::OtherOwner => Some(&mut excluded.other_owner_count),
        ExclusionReason::PriorityMismatch => Some(&mut excluded.priority_mismatch_count),
        ExclusionReason::Unsupported => Some(&mut excluded.unsupported_count),
    }
}

#[cfg(test)]
impl Core {
    /// Panics unless every group counts its members as one that evaluates all of them now would.
    pub(super) fn assert_members(&self) {
        for group in self.groups.all() {
            let (mut placed, mut bound_count, mut pending_count) = (Vec::new(), 0, 0);
            let mut excluded = ExcludedCounts::default();
            for id in &group.members {
                let (pod, is_other) = (self.pods.get(*id), self.has_other_owner(*id));
                match pod.stage {
                    Stage::Assumed(_) if !is_other => placed.push(*id),
                    Stage::Bound(_) if !is_other && !pod.is_deleting => {
                        placed.push(*id);
                        bound_count += 1;
                    }
                    Stage::Assumed(_) | Stage::Bound(_) => {}
                    Stage::Succeeded => assert!(!is_other || !group.run.has_succeeded(*id), "{:?}", pod.key()),
                    stage => {
                        assert_eq!(stage, self.stage_unbound(*id), "{:?}", pod.key());
                        pending_count += usize::from(stage == Stage::Pending);
                        if let Stage::Excluded(reason) = stage
                            && let Some(count) = excluded_count(&mut excluded, reason)
                        {
                            *count += 1;
                        }
                    }
                }
            }
            assert_eq!(group.placed.pods().collect::<Vec<_>>(), placed, "placed members of {:?}", group.key);
            assert_eq!(group.placed.bound_count(), bound_count, "bound members of {:?}", group.key);
            assert_eq!(group.pending.len(), pending_count, "pending members of {:?}", group.key);
            assert_eq!(group.excluded, excluded, "excluded members of {:?}", group.key);
        }
    }
}
