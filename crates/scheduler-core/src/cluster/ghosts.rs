//! Ghost pods: room on nodes that counts as used although no pod is there.
//!
//! A set of ghosts holds room for one starved unit or one nominated pod, and has a place in queue order. Units behind
//! that place see its ghosts in the columns like pods, so every filter and score counts them. Its own unit, and units
//! before it, do not see them. Changing the view costs as much as the ghosts that come and go by it.
//!
//! Ghosts count in everything that filters and scores read: requests, host ports, pod slots, and the sums of
//! [`PodCounter`](super::PodCounter)s, also for a filter that more pods help. They are in no list of pods: none is a
//! blocker, is released, or makes a node over-committed.
//!
//! What holds: a node with ghosts keeps its index, whether they count or not.
// Upstream: a filter must accept a node both with and without its nominated pods.

pub(crate) mod emptied_node; // a node without its pods, to plan ghosts

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Cluster, NodeChangeKind, NodeIndex, ResourceId, UsedIds};
use crate::demand::requests::Usage;
use crate::queue::QueueOrder;

/// Identifies a set of ghosts; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GhostSetId(u32);

/// What a set of ghosts is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GhostPurpose {
    /// For a starved unit. `reserved_for` has the unit and the latest end, as text.
    Reservation { reserved_for: String },
    /// For a pod that another scheduler has nominated to a node.
    Nomination,
}

/// Equal ghosts on one node.
#[derive(Clone, Debug)]
pub(crate) struct GhostPods {
    pub(crate) node: NodeIndex,
    pub(crate) usage: Arc<Usage>,
    pub(crate) count: u32,
}

/// Which ghosts count: those of sets before a place in queue order, except the unit's own. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GhostView {
    pub(crate) before: Option<QueueOrder>,
    pub(crate) own: Option<GhostSetId>,
}

impl GhostView {
    fn shows(self, id: GhostSetId, order: QueueOrder) -> bool {
        self.own != Some(id) && self.before.is_some_and(|before| order < before)
    }
}

#[derive(Clone, Debug)]
struct GhostSet {
    order: QueueOrder,
    purpose: GhostPurpose,
    /// Sorted by node.
    pods: Vec<GhostPods>,
    /// Whether they are in the columns.
    is_counted: bool,
}

impl GhostSet {
    fn pods_on(&self, node: NodeIndex) -> &[GhostPods] {
        let start = self.pods.partition_point(|ghosts| ghosts.node < node);
        let end = self.pods.partition_point(|ghosts| ghosts.node <= node);
        &self.pods[start..end]
    }
}

/// All sets of ghosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghosts {
    sets: BTreeMap<GhostSetId, GhostSet>,
    by_order: BTreeSet<(QueueOrder, GhostSetId)>,
    /// The sets with ghosts on a node, in queue order.
    by_node: BTreeMap<NodeIndex, BTreeSet<(QueueOrder, GhostSetId)>>,
    view: GhostView,
    last_id: u32,
}

/// How much of the capacity that is reserved for starved units is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReservedCapacity {
    /// Its share of the cluster, by the resource with the largest share, in millionths.
    pub(crate) idle_millionths: i64,
    /// How many pods of each unit fit into it, in thousandths: half the room of a pod counts half.
    pub(crate) pods_milli: BTreeMap<GhostSetId, i64>,
    /// How many whole pods of each unit would fit into it now.
    pub(crate) whole_pods: BTreeMap<GhostSetId, i64>,
}

impl Ghosts {
    /// Whether a node has ghosts, counted or not.
    pub(super) fn is_on(&self, node: NodeIndex) -> bool {
        !self.by_node.is_empty() && self.by_node.contains_key(&node)
    }

    /// Adds the resources and names that ghosts use.
    pub(super) fn add_used(&self, used: &mut UsedIds) {
        self.sets.values().flat_map(|set| &set.pods).for_each(|ghosts| used.add_usage(&ghosts.usage));
    }

    /// The sets that may count in one of the views and not in the other.
    fn between(&self, one: GhostView, other: GhostView) -> Vec<GhostSetId> {
        // No set has the id 0.
        let bound = |order| (order, GhostSetId(0));
        let in_range: Vec<GhostSetId> = match (one.before.min(other.before), one.before.max(other.before)) {
            (_, None) => Vec::new(),
            (None, Some(end)) => self.by_order.range(..bound(end)).map(|(_, id)| *id).collect(),
            (Some(start), Some(end)) => self.by_order.range(bound(start)..bound(end)).map(|(_, id)| *id).collect(),
        };
        in_range.into_iter().chain(one.own).chain(other.own).collect()
    }

    /// The sets on a node in queue order, each with its ghosts there.
    fn on(&self, node: NodeIndex) -> impl Iterator<Item = (GhostSetId, &GhostSet, &[GhostPods])> {
        let ids = self.by_node.get(&node).into_iter().flatten();
        ids.map(move |(_, id)| (*id, &self.sets[id], self.sets[id].pods_on(node)))
    }
}

impl Cluster {
    /// Whether there are any.
    pub(crate) fn has_ghosts(&self) -> bool {
        !self.ghosts.sets.is_empty()
    }

    /// The index of a node for ghosts, also if neither the node nor a pod on it was observed.
    pub(crate) fn index_for_ghosts(&mut self, name: &str) -> NodeIndex {
        let is_new = self.find(name).is_none();
        let index = self.index_of(name);
        if is_new {
            // Class indexes get a row for it although nothing is counted there yet, and those that name it find it.
            self.log.push(index, NodeChangeKind::Shape);
        }
        index
    }

    /// Makes the ghosts of a view count, and no others.
    pub(crate) fn show_ghosts(&mut self, view: GhostView) {
        let before = std::mem::replace(&mut self.ghosts.view, view);
        if before == view {
            return;
        }
        for id in self.ghosts.between(before, view) {
            self.apply_view(id);
        }
    }

    /// Adds ghosts with a place in queue order.
    pub(crate) fn add_ghosts(
        &mut self,
        order: QueueOrder,
        purpose: GhostPurpose,
        mut pods: Vec<GhostPods>,
    ) -> GhostSetId {
        pods.sort_by_key(|ghosts| ghosts.node);
        self.ghosts.last_id += 1;
        let id = GhostSetId(self.ghosts.last_id);
        for ghosts in &pods {
            self.ghosts.by_node.entry(ghosts.node).or_default().insert((order, id));
        }
        self.ghosts.by_order.insert((order, id));
        self.ghosts.sets.insert(id, GhostSet { order, purpose, pods, is_counted: false });
        self.apply_view(id);
        id
    }

    /// Removes a set of ghosts. Returns the nodes where they were.
    pub(crate) fn remove_ghosts(&mut self, id: GhostSetId) -> Vec<NodeIndex> {
        self.count_set(id, false);
        let Some(GhostSet { order, pods, .. }) = self.ghosts.sets.remove(&id) else { return Vec::new() };
        self.ghosts.by_order.remove(&(order, id));
        let mut nodes: Vec<NodeIndex> = pods.iter().map(|ghosts| ghosts.node).collect();
        nodes.dedup();
        for node in &nodes {
            let others = self.ghosts.by_node.get_mut(node).expect("a node with ghosts is listed");
            others.remove(&(order, id));
            if others.is_empty() {
                self.ghosts.by_node.remove(node);
                self.release_if_unused(*node);
                if !self.nodes[node.at()].present {
                    // Class indexes that name it may find it no longer.
                    self.log.push(*node, NodeChangeKind::Shape);
                }
            }
        }
        nodes
    }

    /// The ghosts of a set.
    pub(crate) fn ghosts_of(&self, id: GhostSetId) -> &[GhostPods] {
        self.ghosts.sets.get(&id).map_or(&[], |set| &set.pods)
    }

    /// Counts a set, or stops counting it, whatever the view shows. The caller restores it.
    pub(crate) fn count_set(&mut self, id: GhostSetId, counted: bool) {
        let Some(set) = self.ghosts.sets.get_mut(&id).filter(|set| set.is_counted != counted) else { return };
        set.is_counted = counted;
        let pods = std::mem::take(&mut set.pods);
        for ghosts in &pods {
            self.count_ghosts(ghosts, counted);
            self.log.push(ghosts.node, NodeChangeKind::Pods);
        }
        self.ghosts.sets.get_mut(&id).expect("the set was read above").pods = pods;
    }

    /// Whether the ghosts of a set are in the columns.
    pub(crate) fn is_counted(&self, id: GhostSetId) -> bool {
        self.ghosts.sets.get(&id).is_some_and(|set| set.is_counted)
    }

    /// Calls `read` with a node as units at each place of the queue see it: without ghosts, with those of the first
    /// set there, and so on up to all of them; and with the number of these sets. The node is as before when this
    /// returns.
    pub(crate) fn at_each_ghost_level(&mut self, node: NodeIndex, mut read: impl FnMut(usize, &Cluster)) {
        if !self.ghosts.is_on(node) {
            return read(0, self);
        }
        let sets: Vec<(bool, Vec<GhostPods>)> =
            self.ghosts.on(node).map(|(_, set, pods)| (set.is_counted, pods.to_vec())).collect();
        for ghosts in sets.iter().filter(|(is_counted, _)| *is_counted).flat_map(|(_, pods)| pods) {
            self.count_ghosts(ghosts, false);
        }
        read(0, self);
        for (at, (_, pods)) in sets.iter().enumerate() {
            pods.iter().for_each(|ghosts| self.count_ghosts(ghosts, true));
            read(at + 1, self);
        }
        for ghosts in sets.iter().filter(|(is_counted, _)| !*is_counted).flat_map(|(_, pods)| pods) {
            self.count_ghosts(ghosts, false);
        }
    }

    /// The nodes with counted ghosts, each with the first set of them.
    pub(crate) fn nodes_with_counted_ghosts(&self) -> Vec<(NodeIndex, GhostSetId)> {
        let first = |node: &NodeIndex| self.ghosts.on(*node).find(|(_, set, _)| set.is_counted).map(|(id, ..)| id);
        self.ghosts.by_node.keys().filter_map(|node| Some((*node, first(node)?))).collect()
    }

    /// What a set of ghosts is for.
    pub(crate) fn ghost_purpose(&self, id: GhostSetId) -> Option<&GhostPurpose> {
        self.ghosts.sets.get(&id).map(|set| &set.purpose)
    }

    /// The ghosts on a node of all sets but one.
    pub(super) fn other_ghosts_on(&self, node: NodeIndex, own: Option<GhostSetId>) -> Vec<GhostPods> {
        let others = self.ghosts.on(node).filter(|(id, ..)| Some(*id) != own);
        others.flat_map(|(_, _, pods)| pods).cloned().collect()
    }

    /// How much of the reserved capacity is free. Visits all nodes with ghosts.
    pub(crate) fn reserved_capacity(&self) -> ReservedCapacity {
        let mut idle: BTreeMap<ResourceId, i128> = BTreeMap::new();
        let mut capacity = ReservedCapacity::default();
        for node in self.ghosts.by_node.keys().filter(|node| self.node(**node).present) {
            self.add_reserved_on(*node, &mut idle, &mut capacity);
        }
        let share_millionths =
            |(resource, idle): (ResourceId, i128)| idle * 1_000_000 / self.allocatable_total(resource).max(1);
        capacity.idle_millionths = idle.into_iter().map(share_millionths).max().unwrap_or(0) as i64;
        capacity
    }

    fn add_reserved_on(&self, node: NodeIndex, idle: &mut BTreeMap<ResourceId, i128>, capacity: &mut ReservedCapacity) {
        let counted = || self.ghosts.on(node).filter(|(_, set, _)| set.is_counted).flat_map(|(_, _, pods)| pods);
        let mut free_slots = self.free_pod_slots(node) + counted().map(|ghosts| i64::from(ghosts.count)).sum::<i64>();
        let mut free: BTreeMap<ResourceId, i64> = BTreeMap::new();
        for (id, _, pods) in self.ghosts.on(node).filter(|(_, set, _)| set.purpose != GhostPurpose::Nomination) {
            for GhostPods { usage, count, .. } in pods {
                // Not rounded for one pod: two of three pods fit into two thirds of the room.
                let pods_in = |free: i64, reserved: i64| {
                    let free = i128::from(free.clamp(0, reserved)) * i128::from(*count) * 1000;
                    (free / i128::from(reserved.max(1))) as i64
                };
                let mut least = pods_in(free_slots, i64::from(*count));
                let mut whole = free_slots.clamp(0, i64::from(*count));
                free_slots -= i64::from(*count);
                for (resource, amount) in &usage.requests {
                    let free = free.entry(*resource).or_insert_with(|| {
                        let of = |ghosts: &GhostPods| {
                            ghosts.usage.requested(*resource).saturating_mul(i64::from(ghosts.count))
                        };
                        counted().map(of).fold(self.free(*resource, node), i64::saturating_add)
                    });
                    let reserved = amount.saturating_mul(i64::from(*count));
                    *idle.entry(*resource).or_default() += i128::from((*free).clamp(0, reserved));
                    least = least.min(pods_in(*free, reserved));
                    whole = whole.min((*free).max(0) / (*amount).max(1));
                    *free = free.saturating_sub(reserved);
                }
                *capacity.pods_milli.entry(id).or_default() += least;
                *capacity.whole_pods.entry(id).or_default() += whole;
            }
        }
    }

    fn apply_view(&mut self, id: GhostSetId) {
        if let Some(set) = self.ghosts.sets.get(&id) {
            let shown = self.ghosts.view.shows(id, set.order);
            self.count_set(id, shown);
        }
    }

    /// Counts ghosts on their node, or stops, without an entry in the dirty log.
    fn count_ghosts(&mut self, ghosts: &GhostPods, counted: bool) {
        for _ in 0..ghosts.count {
            if counted {
                self.add_unlogged(ghosts.node, &ghosts.usage);
            } else {
                self.remove_unlogged(ghosts.node, &ghosts.usage);
            }
        }
    }
}

#[cfg(test)]
impl Cluster {
    /// The ghosts that are in the columns.
    pub(crate) fn counted_ghosts(&self) -> impl Iterator<Item = (NodeIndex, &Usage)> {
        let counted = self.ghosts.sets.values().filter(|set| set.is_counted).flat_map(|set| &set.pods);
        counted.flat_map(|ghosts| (0..ghosts.count).map(|_| (ghosts.node, &*ghosts.usage)))
    }

    /// Panics unless the lists of sets agree, and exactly the ghosts of the view count.
    pub(crate) fn assert_ghosts(&self) {
        let Ghosts { sets, by_order, by_node, view, .. } = &self.ghosts;
        assert_eq!(sets.iter().map(|(id, set)| (set.order, *id)).collect::<BTreeSet<_>>(), *by_order);
        let mut listed: BTreeMap<NodeIndex, BTreeSet<(QueueOrder, GhostSetId)>> = BTreeMap::new();
        for (id, set) in sets {
            assert_eq!(set.is_counted, view.shows(*id, set.order), "{id:?}");
            for ghosts in &set.pods {
                listed.entry(ghosts.node).or_default().insert((set.order, *id));
            }
        }
        assert_eq!(listed, *by_node);
    }
}
