//! Changes of pods, nodes and PodGroups, and the units they wake.

use std::sync::Arc;

use types::views::{NodeView, ObjectKey, PodView};

use super::Core;
use super::members::MembershipChange;
use crate::cluster::{Cluster, NodeIndex};
use crate::decision::ClusterChange;
use crate::demand::classes::ClassId;
use crate::demand::groups::ControllerRef;
use crate::demand::pods::{ExclusionReason, ObservedStage, PodId, Stage};
use crate::demand::requests::Usage;
use crate::queue::cluster_events::ClusterEvents;
use crate::queue::{QueueOrder, UnitId};

impl Core {
    /// Applies one change. Changes of different events may arrive in any order: pods before their node or PodGroup.
    pub fn observe(&mut self, change: ClusterChange) {
        self.revision += 1;
        match change {
            ClusterChange::Pod { new: Some(pod), .. } => self.update_pod(&pod),
            ClusterChange::Pod { old: Some(pod), new: None } => self.remove_pod(&pod),
            ClusterChange::Node { new: Some(node), .. } => self.update_node(&node),
            ClusterChange::Node { old: Some(node), new: None } => self.remove_node(&node.metadata.name),
            ClusterChange::PodGroup { new: Some(group), .. } => self.update_group(&group),
            ClusterChange::PodGroup { old: Some(group), new: None } => self.remove_group(&group.metadata.key()),
            ClusterChange::CompositePodGroup { new: Some(composite), .. } => {
                self.composites.set(&composite);
                self.update_parent_obstacles();
            }
            ClusterChange::CompositePodGroup { old: Some(composite), new: None } => {
                self.composites.remove(&composite.metadata.key());
                self.update_parent_obstacles();
            }
            ClusterChange::Pod { old: None, new: None }
            | ClusterChange::Node { old: None, new: None }
            | ClusterChange::PodGroup { old: None, new: None }
            | ClusterChange::CompositePodGroup { old: None, new: None } => {}
        }
        self.sweep_if_due();
    }

    fn update_pod(&mut self, view: &Arc<PodView>) {
        let namesake = self.pods.find_named(&view.metadata.namespace, &view.metadata.name);
        let existing = namesake.filter(|id| self.pods.get(*id).uid() == view.metadata.uid);
        let profile = self.classes.profile(&view.spec.scheduler_name).map(|profile| &**profile);
        let observed = ObservedStage::of(view, profile, self.config.unsupported_terms);
        if existing.is_none() || observed.is_none() {
            // It has ended, or it was recreated under the same name and shares nothing with the old one.
            self.remove_pod(view);
        }
        let Some(observed) = observed else { return };
        let id = match existing {
            Some(id) => {
                self.pods.get_mut(id).view = Arc::clone(view);
                self.update_owner(id, view);
                id
            }
            None => self.add_pod(view),
        };
        match observed {
            ObservedStage::Succeeded => self.restage(id, Stage::Succeeded),
            ObservedStage::Bound => {
                let became_bound = existing.is_some() && !matches!(self.pods.get(id).stage, Stage::Bound(_));
                self.update_bound(id, view);
                self.note_bound(id, view, became_bound);
            }
            ObservedStage::Pending | ObservedStage::Excluded(_) => self.update_unbound(id, view, observed),
        }
        self.update_nomination(id, view);
    }

    fn add_pod(&mut self, view: &Arc<PodView>) -> PodId {
        let group = view
            .group_name()
            .map(|name| self.groups.find_or_add(&ObjectKey::new(view.metadata.namespace.as_str(), name)));
        let id = self.pods.add(view, group, Arc::default());
        if let Some(group) = group {
            let group = self.groups.get_mut(group);
            let pod = self.pods.get_mut(id);
            pod.owner = view.metadata.controller().map(|owner| group.intern_owner(ControllerRef::of(owner)));
            if group.members.is_empty() {
                group.order = QueueOrder { created: pod.created(), arrival: pod.arrival, ..group.order };
            }
            // A restarted scheduler observes the pods in the order of their names.
            group.order.created = group.order.created.min(pod.created());
            group.members.insert(id);
        }
        id
    }

    pub(super) fn update_unbound(&mut self, id: PodId, view: &PodView, observed: ObservedStage) {
        let pod = self.pods.get_mut(id);
        pod.observed_unbound = observed;
        if matches!(pod.stage, Stage::Assumed(_)) {
            // The bind is in flight, and this state of the pod is older.
            return;
        }
        if observed != ObservedStage::Pending {
            let stage = self.stage_unbound(id);
            return self.restage(id, stage);
        }
        let (before, priority) = (pod.class, std::mem::replace(&mut pod.priority, view.spec.priority.unwrap_or(0)));
        let class = self.assign_class(id, view);
        let (stage, next) = (self.pods.get(id).stage, self.stage_unbound(id));
        let changed = before != Some(class) || priority != self.pods.get(id).priority;
        // Conditions change often, mostly because we write them. That alone is no reason to decide again.
        if stage != next {
            self.restage(id, next);
        } else if changed && stage == Stage::Pending {
            let (unit, order) = self.unit_of(id);
            match unit {
                UnitId::Pod(_) => self.queue.enqueue(unit, order),
                UnitId::Group(group) => self.requeue_group(group, MembershipChange::Other),
            }
        }
    }

    fn update_bound(&mut self, id: PodId, view: &PodView) {
        let node = self.cluster.index_of(&view.spec.node_name);
        let usage = Usage::of(view, &mut self.cluster);
        let pod = self.pods.get_mut(id);
        if *pod.usage != usage {
            // First observed bound, or resized in place.
            if let Some(node) = pod.stage.node() {
                self.remedy_schedule.cluster_changed();
                let before = std::mem::replace(&mut pod.usage, Arc::new(usage.clone()));
                let events = ClusterEvents::ASSIGNED_POD_DELETE | ClusterEvents::ASSIGNED_POD_ADD;
                self.change_node(node, events, |cluster| {
                    cluster.add_pod(node, &usage);
                    cluster.remove_pod(node, &before);
                });
            } else {
                pod.usage = Arc::new(usage);
            }
        }
        self.restage(id, Stage::Bound(node));
        if let Some(class) = self.pods.get_mut(id).class.take() {
            self.classes.release(class);
        }
        if let Some(group) = self.pods.get(id).group.filter(|_| view.metadata.is_deleting()) {
            // A terminating member neither counts nor pins the others to its domain.
            if self.groups.get_mut(group).placed.remove(id, node) {
                self.requeue_group(group, MembershipChange::Other);
            }
        }
    }

    /// Moves a pod to another stage and updates everything that counts it.
    pub(super) fn restage(&mut self, id: PodId, next: Stage) {
        let before = self.pods.set_stage(id, next);
        if before == next {
            return;
        }
        let pod = self.pods.get(id);
        let (group, arrival, usage) = (pod.group, pod.arrival, Arc::clone(&pod.usage));
        if before.node() != next.node() {
            self.remedy_schedule.cluster_changed();
            if let Some(node) = next.node() {
                self.add_to_node(node, &usage);
            }
            if let Some(node) = before.node() {
                self.overcommits.remove_pod(node, id);
                self.change_node(node, ClusterEvents::ASSIGNED_POD_DELETE, |cluster| cluster.remove_pod(node, &usage));
            }
        }
        let gated = Stage::Excluded(ExclusionReason::Gated);
        self.gated_count += usize::from(next == gated);
        self.gated_count -= usize::from(before == gated);
        if matches!(
            next,
            Stage::Excluded(
                ExclusionReason::OtherOwner | ExclusionReason::PriorityMismatch | ExclusionReason::Unsupported
            )
        ) {
            self.unreported_pods.insert(id);
        } else {
            self.unreported_pods.remove(&id);
        }
        match group {
            Some(group) => self.restage_member(group, id, arrival, before, next),
            None if next == Stage::Pending => {
                let (unit, order) = self.unit_of(id);
                self.queue.enqueue(unit, order);
            }
            None if matches!(next, Stage::Bound(_)) => self.queue.remove(UnitId::Pod(id)),
            None => self.queue.set_idle(UnitId::Pod(id)),
        }
    }

    /// Interns the pod's class and releases its previous one.
    fn assign_class(&mut self, id: PodId, view: &PodView) -> ClassId {
        let class = self.classes.class_of(view, &mut self.cluster);
        let acquired = self.classes.acquire(class);
        let usage = Arc::clone(&self.classes.get(acquired).expect("an acquired class exists").usage);
        let pod = self.pods.get_mut(id);
        pod.usage = usage;
        if let Some(before) = pod.class.replace(acquired) {
            if let Some(group) = pod.group.filter(|_| pod.stage == Stage::Pending) {
                let pending = &mut self.groups.get_mut(group).pending;
                pending.remove(before, pod.arrival);
                pending.insert(acquired, pod.arrival, id);
            }
            self.classes.release(before);
        }
        acquired
    }

    fn remove_pod(&mut self, view: &PodView) {
        let Some(id) = self.pods.find_named(&view.metadata.namespace, &view.metadata.name) else { return };
        self.restage(id, Stage::Excluded(ExclusionReason::Deleting));
        self.queue.remove(UnitId::Pod(id));
        self.drop_reservation(UnitId::Pod(id));
        self.remove_nomination(id);
        let pod = self.pods.get_mut(id);
        let (class, group) = (pod.class.take(), pod.group);
        if let Some(class) = class {
            self.classes.release(class);
        }
        self.pods.remove(id);
        if let Some(group) = group {
            self.groups.get_mut(group).members.remove(&id);
            self.drop_group_if_empty(group);
        }
    }

    fn update_node(&mut self, view: &NodeView) {
        let node = self.cluster.find(&view.metadata.name);
        let (before, empty_before) = (self.capacity_snapshot(node, ClusterEvents::ANY), self.slots_when_empty(node));
        let change = self.cluster.set_node(view);
        let node = self.cluster.find(&view.metadata.name).expect("an observed node has an index");
        self.wake(node, &before, change.events);
        if !change.events.is_empty() {
            self.wake_hopeless(node, &empty_before);
            self.remedy_schedule.cluster_changed();
        }
        if change.moved {
            self.wake_in_one_domain();
        }
    }

    fn remove_node(&mut self, name: &str) {
        self.remedy_schedule.cluster_changed();
        if self.cluster.remove_node(name).moved {
            self.wake_in_one_domain();
        }
    }

    /// Counts a pod on a node, and wakes the units that this helps.
    fn add_to_node(&mut self, node: NodeIndex, usage: &Usage) {
        if self.classes.all_monotone() {
            self.cluster.add_pod(node, usage);
        } else {
            self.change_node(node, ClusterEvents::ASSIGNED_POD_ADD, |cluster| cluster.add_pod(node, usage));
        }
    }

    /// Changes the usage of a node, and wakes the units that this freed capacity for.
    fn change_node(&mut self, node: NodeIndex, events: ClusterEvents, change: impl FnOnce(&mut Cluster)) {
        let before = self.capacity_snapshot(Some(node), events);
        change(&mut self.cluster);
        self.wake(node, &before, events);
    }
}
