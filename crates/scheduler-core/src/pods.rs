//! Pods as the core keeps them: only what decides who is placed when, and where each one stands.

use std::sync::Arc;

use api::Timestamp;
use api::views::{ObjectKey, PodPhase, PodView};
use rustc_hash::FxHashMap;

use crate::classes::ClassId;
use crate::cluster::NodeIndex;
use crate::groups::{GroupId, Owner};
use crate::plugins::Plugins;
use crate::requests::Usage;

/// Stands for a pod while the core knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodId(u32);

/// One pod.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    /// Counts pods in the order they are first seen.
    pub(crate) seen: u64,
    pub(crate) created: Option<Timestamp>,
    pub(crate) priority: i32,
    pub(crate) group: Option<GroupId>,
    /// Who manages it; only members of a group are asked.
    pub(crate) owner: Option<Arc<Owner>>,
    pub(crate) stage: Stage,
    /// What was last seen of it while it had no node: pending, or set aside.
    pub(crate) unbound: Sighting,
    /// Held from the first sight of the pending pod until it is bound.
    pub(crate) class: Option<ClassId>,
    pub(crate) usage: Arc<Usage>,
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not to be placed now.
    Aside(Aside),
    /// Waits for a node.
    Pending,
    /// Decided, and not yet seen bound. Counts on its node.
    Assumed(NodeIndex),
    /// On its node.
    Bound(NodeIndex),
    /// Ran to its end. Takes nothing, but its group has had it.
    Succeeded,
}

impl Stage {
    /// The node the pod counts on.
    pub(crate) fn node(self) -> Option<NodeIndex> {
        match self {
            Stage::Assumed(node) | Stage::Bound(node) => Some(node),
            Stage::Aside(_) | Stage::Pending | Stage::Succeeded => None,
        }
    }
}

/// Why a pod is not to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// It is being deleted, or not yet or no longer known.
    Leaving,
    /// It has scheduling gates.
    Gated,
    /// Another scheduler places it.
    OtherScheduler,
    /// It names a group that belongs to somebody else.
    Foreign,
    /// Its priority is not that of its group, and the configuration makes that a reason.
    OtherPriority,
}

/// What a view says about where its pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    Succeeded,
    Bound,
    Pending,
    Aside(Aside),
}

impl Sighting {
    /// `None`: the pod is of no further concern.
    pub(crate) fn of(pod: &PodView, profile: Option<&Plugins>) -> Option<Sighting> {
        if pod.is_finished() {
            // Only a group remembers a pod that ran to its end.
            let remembered = pod.status.phase == PodPhase::Succeeded && pod.group_name().is_some();
            return remembered.then_some(Sighting::Succeeded);
        }
        if pod.node_name().is_some() {
            return Some(Sighting::Bound);
        }
        Some(match profile {
            _ if pod.metadata.is_deleting() => Sighting::Aside(Aside::Leaving),
            // Upstream: one member with another scheduler's name fails the whole group.
            None => Sighting::Aside(Aside::OtherScheduler),
            Some(profile) if profile.scheduling_gates && !pod.spec.scheduling_gates.is_empty() => {
                Sighting::Aside(Aside::Gated)
            }
            Some(_) => Sighting::Pending,
        })
    }
}

/// All pods, by id and by name.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    entries: Vec<Option<Pod>>,
    free: Vec<PodId>,
    by_key: FxHashMap<ObjectKey, PodId>,
    seen_count: u64,
}

impl Pods {
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<PodId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn get(&self, id: PodId) -> &Pod {
        self.entries[id.0 as usize].as_ref().expect("an id is used only while its pod is known")
    }

    pub(crate) fn get_mut(&mut self, id: PodId) -> &mut Pod {
        self.entries[id.0 as usize].as_mut().expect("an id is used only while its pod is known")
    }

    /// Takes in a pod that stands nowhere yet.
    pub(crate) fn add(&mut self, pod: &PodView, group: Option<GroupId>, usage: Arc<Usage>) -> PodId {
        self.seen_count += 1;
        let key = pod.metadata.key();
        let entry = Pod {
            key: key.clone(),
            uid: pod.metadata.uid.clone(),
            seen: self.seen_count,
            created: pod.metadata.creation_timestamp,
            priority: pod.spec.priority.unwrap_or(0),
            group,
            owner: None,
            stage: Stage::Aside(Aside::Leaving),
            unbound: Sighting::Aside(Aside::Leaving),
            class: None,
            usage,
        };
        let id = self.free.pop().unwrap_or(PodId(self.entries.len() as u32));
        if id.0 as usize == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[id.0 as usize] = Some(entry);
        self.by_key.insert(key, id);
        id
    }

    pub(crate) fn remove(&mut self, id: PodId) {
        let pod = self.entries[id.0 as usize].take().expect("a pod is removed once");
        self.by_key.remove(&pod.key);
        self.free.push(id);
    }

    /// Every pod there is.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Pod> {
        self.entries.iter().flatten()
    }
}
