//! Pending and placed members, counted so that no decision has to look at each of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::classes::ClassId;
use crate::cluster::{NodeIndex, OccupiedDomains, Topology, TopologyId};
use crate::pods::PodId;

/// Pods to be placed, by class and by the order they were first seen.
#[derive(Debug, Default)]
pub(crate) struct PendingMembers {
    by_class: BTreeMap<ClassId, BTreeMap<u64, PodId>>,
    count: usize,
}

impl PendingMembers {
    pub(crate) fn insert(&mut self, class: ClassId, seen: u64, pod: PodId) {
        if self.by_class.entry(class).or_default().insert(seen, pod).is_none() {
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, class: ClassId, seen: u64) {
        let Some(pods) = self.by_class.get_mut(&class) else { return };
        if pods.remove(&seen).is_some() {
            self.count -= 1;
        }
        if pods.is_empty() {
            self.by_class.remove(&class);
        }
    }

    /// Takes out the pod of a class that was seen first.
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

/// Pods that have their place, and in which domains of the group's key that is.
#[derive(Debug, Default)]
pub(crate) struct PlacedMembers {
    pods: BTreeSet<PodId>,
    /// How many on each node.
    nodes: BTreeMap<NodeIndex, usize>,
    /// The domains of those nodes, as long as neither changes.
    domains: Option<CachedMemberDomains>,
}

#[derive(Debug)]
struct CachedMemberDomains {
    topology: TopologyId,
    /// Of the topology, when they were gathered.
    version: u64,
    occupied: OccupiedDomains,
    /// Nodes that came since.
    new_nodes: Vec<NodeIndex>,
}

impl PlacedMembers {
    pub(crate) fn insert(&mut self, pod: PodId, node: NodeIndex) {
        if self.pods.insert(pod) {
            let on_node = self.nodes.entry(node).or_default();
            *on_node += 1;
            if let Some(known) = self.domains.as_mut().filter(|_| *on_node == 1) {
                known.new_nodes.push(node);
            }
        }
    }

    /// True if the pod was there.
    pub(crate) fn remove(&mut self, pod: PodId, node: NodeIndex) -> bool {
        let was_there = self.pods.remove(&pod);
        if was_there && let Some(on_node) = self.nodes.get_mut(&node) {
            *on_node -= 1;
            if *on_node == 0 {
                self.nodes.remove(&node);
                self.domains = None;
            }
        }
        was_there
    }

    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = PodId> + '_ {
        self.pods.iter().copied()
    }

    /// The nodes the pods are on.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.nodes.keys().copied()
    }

    /// Where the pods are. `topology` is what `id` stands for.
    pub(crate) fn occupied_domains(&mut self, id: TopologyId, topology: &Topology) -> OccupiedDomains {
        let version = topology.version();
        let known = self.domains.take().filter(|known| (known.topology, known.version) == (id, version));
        let mut known = known.unwrap_or_else(|| {
            let unseen = self.nodes.keys().copied().collect();
            CachedMemberDomains { topology: id, version, occupied: OccupiedDomains::default(), new_nodes: unseen }
        });
        known.new_nodes.drain(..).for_each(|node| known.occupied.add(node, topology));
        self.domains.insert(known).occupied.clone()
    }
}
