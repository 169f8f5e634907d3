//! Changes of pods, nodes and PodGroups, and whom they wake.

use std::cmp::Reverse;
use std::sync::Arc;

use api::views::{NodeView, ObjectKey, PodGroupView, PodView};
use smallvec::SmallVec;

use super::{Core, Membership};
use crate::classes::{Class, ClassId};
use crate::cluster::{Cluster, NodeIndex};
use crate::decision::Change;
use crate::filters::{self, Load, Wakes};
use crate::groups::{GroupId, Terms};
use crate::pods::{PodId, Sighting, Stage};
use crate::queue::{Turn, UnitId};
use crate::requests::Usage;

impl Core {
    /// Takes in one change. Changes may come in any order across kinds: pods before their node or PodGroup.
    pub fn observe(&mut self, change: Change) {
        match change {
            Change::Pod { new: Some(pod), .. } => self.saw_pod(&pod),
            Change::Pod { old: Some(pod), new: None } => self.lost_pod(&pod.metadata.key()),
            Change::Node { new: Some(node), .. } => self.saw_node(&node),
            Change::Node { old: Some(node), new: None } => self.lost_node(&node.metadata.name),
            Change::PodGroup { new: Some(group), .. } => self.saw_group(&group),
            Change::PodGroup { old: Some(group), new: None } => self.lost_group(&group.metadata.key()),
            Change::Pod { old: None, new: None }
            | Change::Node { old: None, new: None }
            | Change::PodGroup { old: None, new: None } => {}
        }
    }

    fn saw_pod(&mut self, view: &PodView) {
        let key = view.metadata.key();
        let known = self.pods.find(&key).filter(|id| self.pods.get(*id).uid == view.metadata.uid);
        let sighting = Sighting::of(view, &self.config.scheduler_name);
        if known.is_none() || sighting.is_none() {
            // It ended, or it was created anew under its name and has nothing of the old one.
            self.lost_pod(&key);
        }
        let Some(sighting) = sighting else { return };
        let id = known.unwrap_or_else(|| self.add_pod(view));
        match sighting {
            Sighting::Succeeded => self.restage(id, Stage::Succeeded),
            Sighting::Bound => self.saw_bound(id, view),
            Sighting::Pending => self.saw_unbound(id, view, true),
            Sighting::Held => self.saw_unbound(id, view, false),
        }
    }

    fn add_pod(&mut self, view: &PodView) -> PodId {
        let group = view
            .group_name()
            .map(|name| self.groups.find_or_add(&ObjectKey::new(view.metadata.namespace.as_str(), name)));
        let id = self.pods.add(view, group, Arc::default());
        if let Some(group) = group {
            let seen = self.pods.get(id).seen;
            let group = self.groups.get_mut(group);
            if group.pods_count == 0 {
                group.turn = Turn { created: view.metadata.creation_timestamp, seen, ..group.turn };
            }
            group.pods_count += 1;
        }
        id
    }

    fn saw_unbound(&mut self, id: PodId, view: &PodView, eligible: bool) {
        let pod = self.pods.get_mut(id);
        pod.eligible = eligible;
        if matches!(pod.stage, Stage::Assumed(_)) {
            // The bind is under way, and this state of the pod is from before it.
            return;
        }
        if !eligible {
            return self.restage(id, Stage::Held);
        }
        let (before, priority) = (pod.class, std::mem::replace(&mut pod.priority, view.spec.priority.unwrap_or(0)));
        let class = self.hold_class(id, view);
        let unchanged = before == Some(class) && priority == self.pods.get(id).priority;
        // Conditions change often, mostly by our own hand; that alone is no reason to decide anew.
        if self.pods.get(id).stage != Stage::Pending {
            self.restage(id, Stage::Pending);
        } else if !unchanged {
            let (unit, turn) = self.unit_of(id);
            match unit {
                UnitId::Pod(_) => self.queue.offer(unit, turn),
                UnitId::Group(group) => self.requeue_group(group, Membership::Other),
            }
        }
    }

    fn saw_bound(&mut self, id: PodId, view: &PodView) {
        let node = self.cluster.index_of(&view.spec.node_name);
        let usage = Usage::of(&view.spec, &mut self.cluster);
        let pod = self.pods.get_mut(id);
        pod.eligible = false;
        if *pod.usage != usage {
            // First seen bound, or resized in place.
            if let Some(taken_on) = pod.stage.node() {
                let before = std::mem::replace(&mut pod.usage, Arc::new(usage.clone()));
                self.change_node(taken_on, Wakes::POD_LEFT, |cluster| {
                    cluster.take(taken_on, &usage);
                    cluster.give_back(taken_on, &before);
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
            // A member that is on its way out neither counts nor ties the others to its domain.
            if self.groups.get_mut(group).placed.remove(&id) {
                self.requeue_group(group, Membership::Other);
            }
        }
    }

    /// Moves a pod from where it stands to where it now belongs, and everything that counts it along.
    pub(super) fn restage(&mut self, id: PodId, next: Stage) {
        let pod = self.pods.get_mut(id);
        let before = std::mem::replace(&mut pod.stage, next);
        if before == next {
            return;
        }
        let (group, seen, usage) = (pod.group, pod.seen, Arc::clone(&pod.usage));
        if before.node() != next.node() {
            if let Some(node) = next.node() {
                self.cluster.take(node, &usage);
            }
            if let Some(node) = before.node() {
                self.change_node(node, Wakes::POD_LEFT, |cluster| cluster.give_back(node, &usage));
            }
        }
        match group {
            Some(group) => self.restage_member(group, id, seen, before, next),
            None if next == Stage::Pending => {
                let (unit, turn) = self.unit_of(id);
                self.queue.offer(unit, turn);
            }
            None if matches!(next, Stage::Bound(_)) => self.queue.remove(UnitId::Pod(id)),
            None => self.queue.idle(UnitId::Pod(id)),
        }
    }

    fn restage_member(&mut self, group_id: GroupId, id: PodId, seen: u64, before: Stage, next: Stage) {
        let group = self.groups.get_mut(group_id);
        let counted_before = group.pending.len() + group.placed_count();
        match before {
            Stage::Pending => drop(group.pending.remove(&seen)),
            Stage::Assumed(_) | Stage::Bound(_) if next.node().is_none() => drop(group.placed.remove(&id)),
            Stage::Succeeded => group.succeeded_count -= 1,
            _ => {}
        }
        match next {
            Stage::Pending => drop(group.pending.insert(seen, id)),
            Stage::Assumed(_) | Stage::Bound(_) if before.node().is_none() => drop(group.placed.insert(id)),
            Stage::Succeeded => group.succeeded_count += 1,
            _ => {}
        }
        let confirmed = before.node().is_some() && before.node() == next.node();
        let fewer = before == Stage::Pending && group.pending.len() + group.placed_count() < counted_before;
        if !confirmed {
            self.requeue_group(group_id, if fewer { Membership::Fewer } else { Membership::Other });
        }
    }

    /// Interns the pod's class and lets go of the one it had.
    fn hold_class(&mut self, id: PodId, view: &PodView) -> ClassId {
        let class = Class::of(view, &mut self.cluster);
        let held = self.classes.hold(class);
        let usage = Arc::clone(&self.classes.get(held).expect("a held class is kept").usage);
        let pod = self.pods.get_mut(id);
        pod.usage = usage;
        if let Some(before) = pod.class.replace(held) {
            self.classes.release(before);
        }
        held
    }

    fn lost_pod(&mut self, key: &ObjectKey) {
        let Some(id) = self.pods.find(key) else { return };
        self.restage(id, Stage::Held);
        self.queue.remove(UnitId::Pod(id));
        let pod = self.pods.get_mut(id);
        let (class, group) = (pod.class.take(), pod.group);
        if let Some(class) = class {
            self.classes.release(class);
        }
        self.pods.remove(id);
        if let Some(group) = group {
            self.groups.get_mut(group).pods_count -= 1;
            self.drop_group_if_empty(group);
        }
    }

    fn saw_node(&mut self, view: &NodeView) {
        let before = self.rooms(self.cluster.find(&view.metadata.name), Wakes::ANY);
        let change = self.cluster.set_node(view);
        let node = self.cluster.find(&view.metadata.name).expect("a node that was seen has an index");
        self.wake(node, &before, change.kinds);
        if change.moved {
            self.queue.wake_in_one_domain();
        }
    }

    fn lost_node(&mut self, name: &str) {
        if self.cluster.remove_node(name).moved {
            self.queue.wake_in_one_domain();
        }
    }

    fn saw_group(&mut self, view: &PodGroupView) {
        let id = self.groups.find_or_add(&view.metadata.key());
        let terms = Terms {
            min_count: view.min_count().map(|count| usize::try_from(count).unwrap_or(0).max(1)),
            topology: view.topology_key().map(|key| self.cluster.topology_of(key)),
            priority: view.spec.priority.unwrap_or(0),
            satisfied: view.is_satisfied(),
        };
        let group = self.groups.get_mut(id);
        // Conditions are written by our own shell; but for having been satisfied once they change nothing here.
        if group.terms.replace(terms) != Some(terms) {
            group.turn.priority = Reverse(terms.priority);
            self.requeue_group(id, Membership::Other);
        }
    }

    fn lost_group(&mut self, key: &ObjectKey) {
        let Some(id) = self.groups.find(key) else { return };
        self.groups.get_mut(id).terms = None;
        self.requeue_group(id, Membership::Other);
        self.drop_group_if_empty(id);
    }

    fn drop_group_if_empty(&mut self, id: GroupId) {
        let group = self.groups.get(id);
        if group.terms.is_none() && group.pods_count == 0 {
            self.queue.remove(UnitId::Group(id));
            self.groups.remove(id);
        }
    }

    /// Changes what is taken from a node, and wakes the units for which that made room.
    fn change_node(&mut self, node: NodeIndex, kinds: Wakes, change: impl FnOnce(&mut Cluster)) {
        let before = self.rooms(Some(node), kinds);
        change(&mut self.cluster);
        self.wake(node, &before, kinds);
    }

    /// The slots of a node for every class that units wait with and that such a change could help.
    fn rooms(&self, node: Option<NodeIndex>, kinds: Wakes) -> SmallVec<[(ClassId, u32); 8]> {
        let helped = self.queue.waiting_classes().filter(|class| self.classes.wakes(*class).meets(kinds));
        helped.map(|class| (class, node.map_or(0, |node| self.room(class, node)))).collect()
    }

    /// Wakes the units that wait with a class for which the node has more slots than before.
    fn wake(&mut self, node: NodeIndex, before: &[(ClassId, u32)], kinds: Wakes) {
        for (class, room) in before {
            if self.classes.wakes(*class).meets(kinds) && self.room(*class, node) > *room {
                self.queue.wake_class(*class);
            }
        }
    }

    fn room(&self, class: ClassId, node: NodeIndex) -> u32 {
        self.classes.get(class).map_or(0, |class| filters::room(class, node, &self.cluster, Load::Now))
    }
}
