//! Pods as the core stores them: only what decides when and where each is placed, and its stage.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use types::views::{ObjectKey, PodPhase, PodView};

use crate::cluster::NodeIndex;
use crate::cluster::chunked_vec::ChunkedVec;
use crate::cluster::compact_timestamp::CompactTimestamp;
use crate::decision::{PodRef, UnsupportedTerms};
use crate::demand::classes::ClassId;
use crate::demand::groups::{ControllerRef, GroupId};
use crate::demand::requests::Usage;
use crate::plugins::Plugins;

/// Identifies a pod while the core tracks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodId(u32);

/// One pod. There are many: eight bytes here are about a megabyte in a large cluster.
#[derive(Clone, Debug)]
pub(crate) struct TrackedPod {
    /// As last observed. The caller's cache has it too, so this is only a reference.
    pub(crate) view: Arc<PodView>,
    /// The next pod whose key has the same hash.
    next: Option<PodId>,
    /// The order in which pods are first observed.
    pub(crate) arrival: u64,
    pub(crate) priority: i32,
    pub(crate) group: Option<GroupId>,
    /// Its controller; set only for members of a group.
    pub(crate) owner: Option<Arc<ControllerRef>>,
    pub(crate) stage: Stage,
    /// The last observed stage without a node: pending or excluded.
    pub(crate) observed_unbound: ObservedStage,
    /// Acquired when the pod is first observed pending, released when it is bound.
    pub(crate) class: Option<ClassId>,
    pub(crate) usage: Arc<Usage>,
    /// When it was bound, if that was observed.
    pub(crate) bound_at: CompactTimestamp,
    /// It is on a node and terminating.
    pub(crate) is_deleting: bool,
    /// The profile by which it may be released from an over-committed node. Set only if its bind was observed, it
    /// belongs to one of our schedulers, and a controller would recreate it.
    pub(crate) release_profile: Option<Arc<Plugins>>,
}

impl TrackedPod {
    pub(crate) fn pod_ref(&self) -> PodRef {
        PodRef { pod: self.key(), uid: self.uid().to_owned() }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        self.view.metadata.key()
    }

    pub(crate) fn uid(&self) -> &str {
        &self.view.metadata.uid
    }

    pub(crate) fn created(&self) -> CompactTimestamp {
        self.view.metadata.creation_timestamp.into()
    }

    fn has_name(&self, namespace: &str, name: &str) -> bool {
        self.view.metadata.name == name && self.view.metadata.namespace == namespace
    }
}

/// The stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not to be placed now.
    Excluded(ExclusionReason),
    /// Waits for a node.
    Pending,
    /// Decided, but not yet observed bound. Counts on its node.
    Assumed(NodeIndex),
    /// On its node.
    Bound(NodeIndex),
    /// Completed. Uses nothing, but counts for its group.
    Succeeded,
}

impl Stage {
    /// The node the pod counts on.
    pub(crate) fn node(self) -> Option<NodeIndex> {
        match self {
            Stage::Assumed(node) | Stage::Bound(node) => Some(node),
            Stage::Excluded(_) | Stage::Pending | Stage::Succeeded => None,
        }
    }
}

/// Why a pod is not to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusionReason {
    /// It is being deleted, or is not tracked.
    Deleting,
    /// It has scheduling gates.
    Gated,
    /// Another scheduler places it.
    OtherScheduler,
    /// It names a group of another owner.
    OtherOwner,
    /// Its priority differs from its group's, and the configuration refuses that.
    PriorityMismatch,
    /// It has a placement term that no plugin supports.
    Unsupported,
}

impl ExclusionReason {
    /// The reason as text, with "it" for the pod.
    pub fn text(self) -> &'static str {
        match self {
            ExclusionReason::Deleting => "it is being deleted",
            ExclusionReason::Gated => "it has scheduling gates",
            ExclusionReason::OtherScheduler => "it belongs to another scheduler",
            ExclusionReason::OtherOwner => "its group belongs to another owner",
            ExclusionReason::PriorityMismatch => "its priority differs from that of its group",
            ExclusionReason::Unsupported => "it has a placement term that this scheduler does not support",
        }
    }
}

/// The stage of a pod by its view alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObservedStage {
    Succeeded,
    Bound,
    Pending,
    Excluded(ExclusionReason),
}

impl ObservedStage {
    /// `None`: the pod is no longer relevant.
    pub(crate) fn of(pod: &PodView, profile: Option<&Plugins>, unsupported: UnsupportedTerms) -> Option<ObservedStage> {
        if pod.is_finished() {
            // Only groups track completed pods.
            let remembered = pod.status.phase == PodPhase::Succeeded && pod.group_name().is_some();
            return remembered.then_some(ObservedStage::Succeeded);
        }
        if pod.node_name().is_some() {
            return Some(ObservedStage::Bound);
        }
        Some(match profile {
            _ if pod.metadata.is_deleting() => ObservedStage::Excluded(ExclusionReason::Deleting),
            // Upstream: one member with another scheduler's name fails the whole group.
            None => ObservedStage::Excluded(ExclusionReason::OtherScheduler),
            Some(profile) if profile.scheduling_gates && !pod.spec.scheduling_gates.is_empty() => {
                ObservedStage::Excluded(ExclusionReason::Gated)
            }
            Some(_) if unsupported == UnsupportedTerms::Wait && !pod.spec.unsupported_fields().is_empty() => {
                ObservedStage::Excluded(ExclusionReason::Unsupported)
            }
            Some(_) => ObservedStage::Pending,
        })
    }
}

/// Pods by id and by node. A copy costs little: it shares all that does not change afterwards.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodTable {
    entries: ChunkedVec<Option<TrackedPod>>,
    /// The pods that count on each node.
    by_node: ChunkedVec<SmallVec<[PodId; 4]>>,
    /// How many pods of each group count on a node.
    on_nodes_by_group: Vec<u32>,
}

impl PodTable {
    pub(crate) fn get(&self, id: PodId) -> &TrackedPod {
        self.entries[id.0 as usize].as_ref().expect("an id is used only while its pod is tracked")
    }

    fn get_mut(&mut self, id: PodId) -> &mut TrackedPod {
        self.entries.get_mut(id.0 as usize).as_mut().expect("an id is used only while its pod is tracked")
    }

    /// The pods that count on a node: those assumed there and those bound.
    pub(crate) fn on_node(&self, node: NodeIndex) -> &[PodId] {
        self.by_node.get(node.at()).map_or(&[], SmallVec::as_slice)
    }

    /// How many pods of a group count on a node.
    pub(crate) fn on_nodes_count(&self, group: GroupId) -> usize {
        self.on_nodes_by_group.get(group.at()).map_or(0, |count| *count as usize)
    }

    /// Moves a pod to another stage, and returns the stage before.
    fn set_stage(&mut self, id: PodId, next: Stage) -> Stage {
        let pod = self.get_mut(id);
        let (before, group) = (std::mem::replace(&mut pod.stage, next), pod.group);
        if before.node() == next.node() {
            return before;
        }
        if let Some(node) = before.node() {
            let here = self.by_node.get_mut(node.at());
            here.swap_remove(here.iter().position(|other| *other == id).expect("a pod is listed on its node"));
        }
        if let Some(node) = next.node() {
            self.by_node.grow(node.at() + 1);
            self.by_node.get_mut(node.at()).push(id);
        }
        if let Some(group) = group {
            if self.on_nodes_by_group.len() <= group.at() {
                self.on_nodes_by_group.resize(group.at() + 1, 0);
            }
            let count = &mut self.on_nodes_by_group[group.at()];
            *count += u32::from(next.node().is_some());
            *count -= u32::from(before.node().is_some());
        }
        before
    }
}

/// All pods, by id and by name.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    table: PodTable,
    free: Vec<PodId>,
    /// The first pod for each hash of a key. The keys themselves are only in the pods.
    by_hash: FxHashMap<u32, PodId>,
    arrivals_count: u64,
}

impl Pods {
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<PodId> {
        self.find_named(&key.namespace, &key.name)
    }

    pub(crate) fn find_named(&self, namespace: &str, name: &str) -> Option<PodId> {
        let mut next = self.by_hash.get(&hash(namespace, name)).copied();
        while let Some(id) = next {
            let pod = self.get(id);
            if pod.has_name(namespace, name) {
                return Some(id);
            }
            next = pod.next;
        }
        None
    }

    pub(crate) fn get(&self, id: PodId) -> &TrackedPod {
        self.table.get(id)
    }

    /// A pod for any change but that of its stage.
    pub(crate) fn get_mut(&mut self, id: PodId) -> &mut TrackedPod {
        self.table.get_mut(id)
    }

    /// Like `get`, for a pod that may be gone. Another pod may have its id by then.
    pub(crate) fn try_get(&self, id: PodId) -> Option<&TrackedPod> {
        self.table.entries.get(id.0 as usize)?.as_ref()
    }

    /// Moves a pod to another stage, and returns the stage before.
    pub(crate) fn set_stage(&mut self, id: PodId, next: Stage) -> Stage {
        self.table.set_stage(id, next)
    }

    /// The pods by id and by node.
    pub(crate) fn table(&self) -> &PodTable {
        &self.table
    }

    /// Adds a pod without a stage yet.
    pub(crate) fn add(&mut self, pod: &Arc<PodView>, group: Option<GroupId>, usage: Arc<Usage>) -> PodId {
        self.arrivals_count += 1;
        let entries = &mut self.table.entries;
        let id = self.free.pop().unwrap_or(PodId(entries.len() as u32));
        entries.grow(id.0 as usize + 1);
        *entries.get_mut(id.0 as usize) = Some(TrackedPod {
            view: Arc::clone(pod),
            next: self.by_hash.insert(hash(&pod.metadata.namespace, &pod.metadata.name), id),
            arrival: self.arrivals_count,
            priority: pod.spec.priority.unwrap_or(0),
            group,
            owner: None,
            stage: Stage::Excluded(ExclusionReason::Deleting),
            observed_unbound: ObservedStage::Excluded(ExclusionReason::Deleting),
            class: None,
            usage,
            bound_at: CompactTimestamp::NEVER,
            is_deleting: false,
            release_profile: None,
        });
        id
    }

    /// Removes a pod that counts on no node.
    pub(crate) fn remove(&mut self, id: PodId) {
        let pod = self.table.entries.get_mut(id.0 as usize).take().expect("a pod is removed once");
        let hash = hash(&pod.view.metadata.namespace, &pod.view.metadata.name);
        let first = self.by_hash[&hash];
        if first != id {
            let mut before = first;
            while let Some(next) = self.get(before).next.filter(|next| *next != id) {
                before = next;
            }
            self.get_mut(before).next = pod.next;
        } else if let Some(next) = pod.next {
            self.by_hash.insert(hash, next);
        } else {
            self.by_hash.remove(&hash);
        }
        self.free.push(id);
    }

    /// Every pod.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &TrackedPod> {
        self.table.entries.iter().flatten()
    }

    /// The pods observed bound to a node.
    pub(crate) fn bound_to(&self, node: NodeIndex) -> impl Iterator<Item = PodId> + '_ {
        self.table.on_node(node).iter().copied().filter(move |id| self.get(*id).stage == Stage::Bound(node))
    }

    /// The number of pods.
    pub(crate) fn len(&self) -> usize {
        self.table.entries.len() - self.free.len()
    }

    /// Panics unless the index by node and the counts by group are those of the pods.
    #[cfg(test)]
    pub(crate) fn assert_indexed(&self) {
        let (mut by_node, mut by_group) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
        for (at, pod) in self.table.entries.iter().enumerate() {
            let Some((pod, node)) = pod.as_ref().and_then(|pod| Some((pod, pod.stage.node()?))) else { continue };
            by_node.entry(node.at()).or_insert_with(Vec::new).push(PodId(at as u32));
            if let Some(group) = pod.group {
                *by_group.entry(group.at()).or_insert(0) += 1;
            }
        }
        for (at, listed) in self.table.by_node.iter().enumerate() {
            let mut listed = listed.to_vec();
            listed.sort_unstable();
            assert_eq!(listed, by_node.remove(&at).unwrap_or_default(), "pods on node {at}");
        }
        for (at, count) in self.table.on_nodes_by_group.iter().enumerate() {
            assert_eq!(*count, by_group.remove(&at).unwrap_or(0), "pods of group {at} on nodes");
        }
        assert!(by_node.is_empty() && by_group.is_empty());
    }
}

fn hash(namespace: &str, name: &str) -> u32 {
    let mut hasher = FxHasher::default();
    (namespace, name).hash(&mut hasher);
    let hash = hasher.finish();
    (hash ^ hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Arc<PodView> {
        let mut pod = PodView::default();
        pod.metadata.name = name.to_owned();
        Arc::new(pod)
    }

    /// Two names with equal hashes, found by brute force.
    fn names_with_equal_hash() -> [String; 2] {
        let mut by_hash: FxHashMap<u32, String> = FxHashMap::default();
        let names = (0..).map(|number| format!("pod-{number}"));
        let mut pairs =
            names.filter_map(|name| by_hash.insert(hash("", &name), name.clone()).map(|other| [other, name]));
        pairs.next().expect("there are more numbers than hashes")
    }

    #[test]
    fn a_pod_entry_is_at_most_96_bytes() {
        assert!(size_of::<Option<TrackedPod>>() <= 96, "{}", size_of::<Option<TrackedPod>>());
    }

    #[test]
    fn pods_whose_names_have_the_same_hash_are_distinguished() {
        let names = names_with_equal_hash();
        for (first, second) in [(0, 1), (1, 0)] {
            let mut pods = Pods::default();
            let ids = [0, 1].map(|at: usize| pods.add(&pod(&names[at]), None, Arc::default()));
            assert_eq!([0, 1].map(|at: usize| pods.find_named("", &names[at])), ids.map(Some));
            pods.remove(ids[first]);
            assert_eq!(pods.find_named("", &names[first]), None);
            assert_eq!(pods.find_named("", &names[second]), Some(ids[second]));
            pods.remove(ids[second]);
            assert_eq!((pods.find_named("", &names[second]), pods.len()), (None, 0));
        }
    }
}
