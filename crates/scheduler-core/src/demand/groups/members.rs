//! Pending and placed members, counted so that no decision iterates over them.

use std::collections::BTreeMap;

use crate::cluster::{NodeIndex, OccupiedDomains, Topology, TopologyId};
use crate::demand::classes::ClassId;
use crate::demand::pods::PodId;

/// Pods to be placed, by class and by arrival.
#[derive(Debug, Default)]
pub(crate) struct PendingMembers {
    by_class: BTreeMap<ClassId, BTreeMap<u64, PodId>>,
    count: usize,
}

impl PendingMembers {
    pub(crate) fn insert(&mut self, class: ClassId, arrival: u64, pod: PodId) {
        if self.by_class.entry(class).or_default().insert(arrival, pod).is_none() {
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, class: ClassId, arrival: u64) {
        let Some(pods) = self.by_class.get_mut(&class) else { return };
        if pods.remove(&arrival).is_some() {
            self.count -= 1;
        }
        if pods.is_empty() {
            self.by_class.remove(&class);
        }
    }

    /// Removes the first pod of a class, by arrival.
    pub(crate) fn take_first(&mut self, class: ClassId) -> Option<PodId> {
        let pods = self.by_class.get_mut(&class)?;
        let (_, first) = pods.pop_first()?;
        self.count -= 1;
        if pods.is_empty() {
            self.by_class.remove(&class);
        }
        Some(first)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Every pod.
    pub(crate) fn pods(&self) -> impl Iterator<Item = PodId> + '_ {
        self.by_class.values().flat_map(|pods| pods.values().copied())
    }

    /// Every class with the number of its pods.
    pub(crate) fn class_counts(&self) -> impl Iterator<Item = (ClassId, usize)> + '_ {
        self.by_class.iter().map(|(class, pods)| (*class, pods.len()))
    }
}

/// Placed pods, and their domains of the group's topology key.
#[derive(Debug, Default)]
pub(crate) struct PlacedMembers {
    /// Each with whether it was observed bound.
    pods: BTreeMap<PodId, bool>,
    bound_count: usize,
    /// The number of pods on each node.
    nodes: BTreeMap<NodeIndex, usize>,
    /// The domains of those nodes, cached while neither changes.
    domains: Option<CachedMemberDomains>,
}

#[derive(Debug)]
struct CachedMemberDomains {
    topology: TopologyId,
    /// The topology's version when they were collected.
    version: u64,
    occupied: OccupiedDomains,
    /// Nodes added since.
    new_nodes: Vec<NodeIndex>,
}

impl PlacedMembers {
    pub(crate) fn insert(&mut self, pod: PodId, node: NodeIndex, is_bound: bool) {
        let was_bound = self.pods.insert(pod, is_bound);
        self.bound_count += usize::from(is_bound);
        self.bound_count -= usize::from(was_bound == Some(true));
        if was_bound.is_none() {
            let on_node = self.nodes.entry(node).or_default();
            *on_node += 1;
            if let Some(cached) = self.domains.as_mut().filter(|_| *on_node == 1) {
                cached.new_nodes.push(node);
            }
        }
    }

    /// The pod, if it counts as placed, was observed bound to its node.
    pub(crate) fn set_bound(&mut self, pod: PodId) {
        if let Some(is_bound) = self.pods.get_mut(&pod) {
            self.bound_count += usize::from(!std::mem::replace(is_bound, true));
        }
    }

    /// True if the pod was placed.
    pub(crate) fn remove(&mut self, pod: PodId, node: NodeIndex) -> bool {
        let was_bound = self.pods.remove(&pod);
        self.bound_count -= usize::from(was_bound == Some(true));
        let was_placed = was_bound.is_some();
        if was_placed && let Some(on_node) = self.nodes.get_mut(&node) {
            *on_node -= 1;
            if *on_node == 0 {
                self.nodes.remove(&node);
                self.domains = None;
            }
        }
        was_placed
    }

    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// How many of them were observed bound.
    pub(crate) fn bound_count(&self) -> usize {
        self.bound_count
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = PodId> + '_ {
        self.pods.keys().copied()
    }

    /// The nodes the pods are on.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.nodes.keys().copied()
    }

    /// The domains of the pods. `topology` is the one with this `id`.
    pub(crate) fn occupied_domains(&mut self, id: TopologyId, topology: &Topology) -> OccupiedDomains {
        let version = topology.version();
        let cached = self.domains.take().filter(|cached| (cached.topology, cached.version) == (id, version));
        let mut cached = cached.unwrap_or_else(|| {
            let new_nodes = self.nodes.keys().copied().collect();
            CachedMemberDomains { topology: id, version, occupied: OccupiedDomains::default(), new_nodes }
        });
        cached.new_nodes.drain(..).for_each(|node| cached.occupied.add(node, topology));
        self.domains.insert(cached).occupied.clone()
    }
}
