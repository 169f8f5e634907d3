//! The cluster in memory, kept up to date: dense columns of integers per node.
//!
//! In: views of nodes, and pods with their usage as they come to a node and leave it. Out: what filters and scores
//! read of a node, the domains of a topology key, and the dirty log.
//!
//! What holds: a node has an index while it exists or pods or ghosts are on it. Everything a filter or score reads
//! about it is in columns at that index. Each change is recorded in the dirty log, from which the class indexes catch
//! up. An overlay undoes its changes when it is dropped, and their record.

mod node; // static properties of a node: labels, taints, images, declared features
mod node_ref; // one node as filters and scores read it
mod resources; // resource names and their columns
mod overflow_sums; // exact sums of requests that exceed the columns
mod pod_counters; // sums over the pods of a node that plugins declare
mod images; // the number of nodes that have each image
mod topology; // nodes by the value of a label
mod hostnames; // nodes by their hostname
mod dirty; // which nodes changed since a reader last looked
mod sweep; // frees names, resources and topologies that nothing uses
mod overlay; // tentative pods; dropping the overlay undoes them
pub(crate) mod ghosts; // room that counts as used for some units
pub(crate) mod removal_overlay; // a cluster without some of its pods
pub(crate) mod chunked_vec; // a vector whose copies share what does not change
pub(crate) mod names; // strings interned as numbers
pub(crate) mod compact_timestamp; // timestamps in eight bytes

use rustc_hash::FxHashMap;
use types::views::{NodeView, PodView};

pub(crate) use dirty::{LogPosition, NodeChangeKind, TouchedNode, TrialStart};
pub(crate) use images::full_name;
pub use node::Effect;
pub(crate) use node::{NodeInfo, Taint};
pub use node_ref::{NodeRef, NodeRefs};
pub(crate) use overflow_sums::{MAX_ALLOCATABLE, MAX_REQUEST};
pub(crate) use overlay::PlacementOverlay;
pub use pod_counters::PodCounter;
pub(crate) use pod_counters::PodCounts;
pub(crate) use resources::{ResourceColumn, ResourceId};
pub(crate) use sweep::UsedIds;
pub(crate) use topology::{DomainId, OccupiedDomains, Topology, TopologyId};

use self::chunked_vec::ChunkedVec;
use self::dirty::DirtyLog;
use self::ghosts::Ghosts;
use self::hostnames::Hostnames;
use self::images::ImageCounts;
use self::overflow_sums::OverflowSums;
use self::pod_counters::PodCounters;
use self::resources::ResourceColumns;
use crate::cluster::names::{NameId, NameTable};
use crate::demand::requests::{HostPort, ScoredRequests, Usage};
use crate::queue::cluster_events::ClusterEvents;

/// The position of a node in every column. Assigned in the order of observation, reused once free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeIndex(pub(crate) u32);

impl NodeIndex {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// All nodes and their usage. A copy has its own columns, and shares what is static about nodes until that changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) names: NameTable,
    resources: ResourceColumns,
    nodes: ChunkedVec<NodeInfo>,
    by_name: FxHashMap<NameId, NodeIndex>,
    /// Indices that no node, no pod and no ghost uses. The last one is reused first.
    free: Vec<NodeIndex>,
    pods_allowed: Vec<i64>,
    pods_count: Vec<i64>,
    /// Usage as scores count it, by node.
    scored_cpu: Vec<i64>,
    scored_memory: Vec<i64>,
    scored_overflow: OverflowSums,
    /// Host ports in use; a port is listed once per pod that uses it.
    ports: ChunkedVec<Vec<HostPort>>,
    pod_counters: PodCounters,
    image_counts: ImageCounts,
    hostnames: Hostnames,
    /// Sorted by id.
    topologies: Vec<Topology>,
    next_topology: TopologyId,
    /// At how many topologies they are swept, if there are many.
    sweep_topologies_at: usize,
    present_count: usize,
    /// Incremented whenever something other than pods changes.
    shape: u64,
    log: DirtyLog,
    ghosts: Ghosts,
}

/// What a change of a node amounts to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeChange {
    /// The cluster events.
    pub(crate) events: ClusterEvents,
    /// Whether the node, or members of groups on it, changed topology domains.
    pub(crate) moved: bool,
}

impl Cluster {
    /// Adds or updates a node.
    pub(crate) fn set_node(&mut self, view: &NodeView) -> NodeChange {
        let index = self.index_of(&view.metadata.name);
        let at = index.at();
        let name = self.nodes[at].name;
        let next = NodeInfo::of(view, name, &mut self.names);
        let mut change = NodeChange { events: next.changes_since(&self.nodes[at]), moved: false };
        if self.set_allocatable(index, view) {
            change.events |= ClusterEvents::NODE_ALLOCATABLE;
        }
        if change.events.is_empty() {
            return change;
        }
        self.present_count += usize::from(!self.nodes[at].present);
        self.image_counts.remove(&self.nodes[at].images);
        self.image_counts.add(&next.images);
        self.hostnames.update(index, &self.nodes[at], &next);
        *self.nodes.get_mut(at) = next;
        for topology in &mut self.topologies {
            change.moved |= topology.set(index, &self.nodes[at], self.pods_count[at]);
        }
        self.note_shape_change(index);
        change
    }

    /// Removes a node. Its index lives until the pods that are still on it are gone.
    pub(crate) fn remove_node(&mut self, name: &str) -> NodeChange {
        let Some(index) = self.find(name).filter(|index| self.nodes[index.at()].present) else {
            return NodeChange::default();
        };
        let at = index.at();
        self.image_counts.remove(&self.nodes[at].images);
        let absent = NodeInfo::absent(self.nodes[at].name);
        self.hostnames.update(index, &self.nodes[at], &absent);
        *self.nodes.get_mut(at) = absent;
        self.present_count -= 1;
        self.pods_allowed[at] = 0;
        self.resources.clear_allocatable(index);
        // Members on a node without the label block their group; those on a deleted node do not.
        let mut moved = self.pods_count[at] > 0;
        for topology in &mut self.topologies {
            moved |= topology.set(index, &self.nodes[at], self.pods_count[at]);
        }
        self.note_shape_change(index);
        self.release_if_unused(index);
        NodeChange { events: ClusterEvents::NONE, moved }
    }

    /// The index of the node named `name`. The node may not exist yet: pods can be observed before their node.
    pub(crate) fn index_of(&mut self, name: &str) -> NodeIndex {
        let name = self.names.intern(name);
        if let Some(index) = self.by_name.get(&name) {
            return *index;
        }
        let index = self.free.pop().unwrap_or(NodeIndex(self.nodes.len() as u32));
        if index.at() == self.nodes.len() {
            self.nodes.grow(index.at() + 1);
            self.pods_allowed.push(0);
            self.pods_count.push(0);
            self.scored_cpu.push(0);
            self.scored_memory.push(0);
            self.ports.grow(index.at() + 1);
            self.resources.grow(self.nodes.len());
            self.pod_counters.grow(self.nodes.len());
        }
        *self.nodes.get_mut(index.at()) = NodeInfo::absent(name);
        self.by_name.insert(name, index);
        index
    }

    /// The index of the node named `name`, if the node or a pod on it was observed.
    pub(crate) fn find(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(&self.names.get(name)?).copied()
    }

    /// Sums this counter over the pods of each node from now on. Called before pods are observed.
    pub(crate) fn register_counter(&mut self, counter: PodCounter) {
        self.pod_counters.register(counter);
    }

    /// What a pod counts in the registered counters.
    pub(crate) fn counts_of(&self, pod: &PodView) -> PodCounts {
        self.pod_counters.counts_of(pod)
    }

    /// The sum of a counter over the pods on a node; 0 for an unknown name.
    pub(crate) fn counted(&self, counter: &str, index: NodeIndex) -> i64 {
        self.pod_counters.find(counter).map_or(0, |counter| self.pod_counters.sum(counter, index))
    }

    /// What one pod with this usage adds to a counter.
    pub(crate) fn counted_by(&self, counter: &str, usage: &Usage) -> i64 {
        let counter = self.pod_counters.find(counter);
        let own = usage.counts.iter().find(|(id, _)| Some(*id) == counter);
        own.map_or(0, |(_, count)| i64::from(*count))
    }

    /// The node with this name, if it or a pod on it was observed.
    pub(crate) fn find_named(&self, name: NameId) -> Option<NodeIndex> {
        self.by_name.get(&name).copied()
    }

    /// Tracks the hostnames of nodes from now on.
    pub(crate) fn track_hostnames(&mut self) {
        self.hostnames.track(&self.nodes);
    }

    /// The nodes with this hostname. They must be tracked.
    pub(crate) fn nodes_with_hostname(&self, hostname: NameId) -> &[NodeIndex] {
        self.hostnames.nodes(hostname)
    }

    /// Counts a pod on a node.
    pub(crate) fn add_pod(&mut self, index: NodeIndex, usage: &Usage) {
        self.add_unlogged(index, usage);
        self.log.push_pods(index);
    }

    /// Stops counting a pod on a node.
    pub(crate) fn remove_pod(&mut self, index: NodeIndex, usage: &Usage) {
        self.remove_unlogged(index, usage);
        self.log.push_pods(index);
        self.release_if_unused(index);
    }

    /// Begins a trial: pods that are added and removed from now on may be reverted.
    pub(crate) fn begin_trial(&mut self) -> TrialStart {
        self.log.begin_trial()
    }

    /// Ends a trial in which every change was reverted. It leaves no trace in the dirty log.
    pub(crate) fn end_undone_trial(&mut self, trial: TrialStart) {
        self.log.undo(trial, 0);
        self.log.end_trial();
    }

    /// An overlay of tentative pods over this cluster; dropping it removes them again.
    pub(crate) fn overlay(&mut self) -> PlacementOverlay<'_> {
        PlacementOverlay::new(self)
    }

    /// The id of a resource, new for a new name.
    pub(crate) fn resource(&mut self, name: &str) -> ResourceId {
        self.resources.intern(name)
    }

    /// The id of a resource, if it was ever observed.
    pub(crate) fn find_resource(&self, name: &str) -> Option<ResourceId> {
        self.resources.find(name)
    }

    /// The name of a resource.
    pub(crate) fn resource_name(&self, resource: ResourceId) -> &str {
        self.resources.name(resource)
    }

    /// A resource over all nodes.
    pub(crate) fn column(&self, resource: ResourceId) -> &ResourceColumn {
        self.resources.column(resource)
    }

    /// What pods may use of a resource on a node.
    pub(crate) fn allocatable(&self, resource: ResourceId, index: NodeIndex) -> i64 {
        self.resources.column(resource).allocatable[index.at()]
    }

    /// What pods have requested of a resource on a node.
    pub(crate) fn requested(&self, resource: ResourceId, index: NodeIndex) -> i64 {
        self.resources.requested(resource, index)
    }

    /// What is left of a resource on a node; negative if the node is over-committed.
    pub(crate) fn free(&self, resource: ResourceId, index: NodeIndex) -> i64 {
        self.allocatable(resource, index) - self.requested(resource, index)
    }

    /// How many more pods a node may have, whatever they request.
    pub(crate) fn free_pod_slots(&self, index: NodeIndex) -> i64 {
        self.pods_allowed(index) - self.pods_count(index)
    }

    /// What pods may use of a resource on all nodes together.
    pub(crate) fn allocatable_total(&self, resource: ResourceId) -> i128 {
        self.resources.column(resource).allocatable_total
    }

    /// The usage of a resource on each node, as scores count it.
    pub(crate) fn scored(&self, resource: ResourceId) -> &[i64] {
        match resource {
            ResourceId::CPU => &self.scored_cpu,
            ResourceId::MEMORY => &self.scored_memory,
            _ => &self.resources.column(resource).requested,
        }
    }

    /// How many pods a node may have.
    pub(crate) fn pods_allowed(&self, index: NodeIndex) -> i64 {
        self.pods_allowed[index.at()]
    }

    /// How many pods a node has.
    pub(crate) fn pods_count(&self, index: NodeIndex) -> i64 {
        self.pods_count[index.at()]
    }

    /// Host ports in use on a node.
    pub(crate) fn ports(&self, index: NodeIndex) -> &[HostPort] {
        &self.ports[index.at()]
    }

    /// Labels, taints and the like of a node.
    pub(crate) fn node(&self, index: NodeIndex) -> &NodeInfo {
        &self.nodes[index.at()]
    }

    /// Every label key that a node has. Visits all nodes.
    pub(crate) fn label_keys(&self) -> std::collections::BTreeSet<NameId> {
        self.nodes.iter().flat_map(NodeInfo::label_keys).collect()
    }

    /// A node with its usage.
    pub(crate) fn node_ref(&self, index: NodeIndex) -> NodeRef<'_> {
        NodeRef { cluster: self, index }
    }

    /// Several nodes with their usage.
    pub(crate) fn node_refs<'a>(&'a self, nodes: &'a [NodeIndex]) -> NodeRefs<'a> {
        NodeRefs { cluster: self, nodes }
    }

    /// How many nodes have an image.
    pub(crate) fn nodes_with_image(&self, image: NameId) -> u32 {
        self.image_counts.nodes_count(image)
    }

    /// The different sizes that nodes report for an image, sorted.
    pub(crate) fn image_sizes(&self, image: NameId) -> impl Iterator<Item = i64> + Clone + '_ {
        self.image_counts.sizes(image)
    }

    /// The name of a node.
    pub(crate) fn node_name(&self, index: NodeIndex) -> &str {
        self.names.text(self.nodes[index.at()].name)
    }

    /// Length of every column; some indices may be unused.
    pub(crate) fn width(&self) -> usize {
        self.nodes.len()
    }

    /// Every index there is, used or not.
    pub(crate) fn indices(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.nodes.len() as u32).map(NodeIndex)
    }

    /// How many nodes exist.
    pub(crate) fn present_count(&self) -> usize {
        self.present_count
    }

    /// Changes when nodes change in anything but their pods.
    pub(crate) fn shape(&self) -> u64 {
        self.shape
    }

    /// The end of the dirty log.
    pub(crate) fn log_end(&self) -> LogPosition {
        self.log.end()
    }

    /// Whether no node changed since `position`.
    pub(crate) fn is_unchanged_since(&self, position: LogPosition) -> bool {
        self.log.is_end(position)
    }

    /// The nodes that changed since `position`, each once.
    pub(crate) fn touched_since(&self, position: LogPosition) -> impl Iterator<Item = TouchedNode> + '_ {
        self.log.since(position)
    }

    /// The domains of a node label, tracked from the first request on.
    pub(crate) fn topology_of(&mut self, key: &str) -> TopologyId {
        let key = self.names.intern(key);
        if let Some(topology) = self.topologies.iter().find(|topology| topology.key() == key) {
            return topology.id();
        }
        let mut topology = Topology::new(self.next_topology, key);
        for (at, node) in self.nodes.iter().enumerate() {
            topology.set(NodeIndex(at as u32), node, self.pods_count[at]);
        }
        self.topologies.push(topology);
        let next = self.next_topology.next();
        std::mem::replace(&mut self.next_topology, next)
    }

    /// The domains of a node label.
    pub(crate) fn topology(&self, id: TopologyId) -> &Topology {
        // Nearly always there are one or two.
        self.topologies.iter().find(|topology| topology.id() == id).expect("a topology in use is not removed")
    }

    fn set_allocatable(&mut self, index: NodeIndex, view: &NodeView) -> bool {
        let at = index.at();
        let mut changed = false;
        for (name, quantity) in view.status.allocatable.iter().filter(|(name, _)| *name != "pods") {
            let resource = self.resources.intern(name);
            changed |= self.resources.set_allocatable(resource, index, clamp_allocatable(resource.amount(*quantity)));
        }
        for resource in self.resources.ids() {
            let had_some = self.resources.column(resource).allocatable[at] != 0;
            if had_some && view.status.allocatable.get(self.resources.name(resource)).is_none() {
                changed |= self.resources.set_allocatable(resource, index, 0);
            }
        }
        let allowed = view.status.allocatable.get("pods").map_or(0, |quantity| clamp_allocatable(quantity.value()));
        changed |= std::mem::replace(&mut self.pods_allowed[at], allowed) != allowed;
        changed
    }

    fn count(&mut self, index: NodeIndex, usage: &Usage, sign: i64) {
        let at = index.at();
        for (resource, amount) in &usage.requests {
            self.resources.add_requested(*resource, index, sign * amount);
        }
        let ScoredRequests { cpu_milli, memory_bytes } = usage.scored;
        self.scored_overflow.add(&mut self.scored_cpu[at], (ResourceId::CPU, index), sign * cpu_milli);
        self.scored_overflow.add(&mut self.scored_memory[at], (ResourceId::MEMORY, index), sign * memory_bytes);
        self.pod_counters.add(&usage.counts, index, sign);
        self.add_pods_count(index, sign);
    }

    fn add_pods_count(&mut self, index: NodeIndex, added: i64) {
        self.pods_count[index.at()] += added;
        for topology in &mut self.topologies {
            topology.count(index, added);
        }
    }

    fn take_pods_count(&mut self, index: NodeIndex) -> i64 {
        let count = self.pods_count(index);
        self.add_pods_count(index, -count);
        count
    }

    /// Like `add_pod`, for a change that is undone or logged by the caller.
    fn add_unlogged(&mut self, index: NodeIndex, usage: &Usage) {
        self.count(index, usage, 1);
        if !usage.ports.is_empty() {
            self.ports.get_mut(index.at()).extend_from_slice(&usage.ports);
        }
    }

    fn remove_unlogged(&mut self, index: NodeIndex, usage: &Usage) {
        self.count(index, usage, -1);
        for port in &usage.ports {
            let used = self.ports.get_mut(index.at());
            let at = used.iter().position(|used| used == port).expect("a counted pod's ports are in use");
            used.swap_remove(at);
        }
    }

    fn note_shape_change(&mut self, index: NodeIndex) {
        self.shape += 1;
        self.log.push(index, NodeChangeKind::Shape);
    }

    fn release_if_unused(&mut self, index: NodeIndex) {
        let node = &self.nodes[index.at()];
        if !node.present && self.pods_count[index.at()] == 0 && !self.ghosts.is_on(index) {
            self.by_name.remove(&node.name);
            self.nodes.get_mut(index.at()).name = NameId::EMPTY;
            self.free.push(index);
        }
    }
}

/// An allocatable amount within the range that columns support.
fn clamp_allocatable(amount: i64) -> i64 {
    amount.clamp(0, MAX_ALLOCATABLE)
}

#[cfg(test)]
impl Cluster {
    /// The number of tables with a row for each node that exist because a user chose a name.
    pub(crate) fn tables_count(&self) -> usize {
        self.resources.columns_count() + self.topologies.iter().filter(|topology| topology.has_table()).count()
    }

    /// The number of changes of nodes so far, undone ones included.
    pub(crate) fn changes_count(&self) -> u64 {
        self.log.changes_count()
    }

    /// The number of domains of all topology keys, empty ones included.
    pub(crate) fn domains_count(&self) -> usize {
        self.topologies.iter().map(|topology| topology.domains().len()).sum()
    }

    /// Panics unless the columns are the sums of the usage of these pods.
    pub(crate) fn assert_sums<'a>(&self, pods: impl Iterator<Item = (NodeIndex, &'a Usage)>) {
        let mut counts: std::collections::BTreeMap<NodeIndex, i64> = Default::default();
        let mut counters = PodCounters::default();
        self.pod_counters.copy_registrations(&mut counters);
        let [mut scored, mut requested]: [std::collections::BTreeMap<overflow_sums::SumKey, i128>; 2] =
            Default::default();
        for (node, usage) in pods {
            *counts.entry(node).or_default() += 1;
            counters.add(&usage.counts, node, 1);
            let ScoredRequests { cpu_milli, memory_bytes } = usage.scored;
            *scored.entry((ResourceId::CPU, node)).or_default() += i128::from(cpu_milli);
            *scored.entry((ResourceId::MEMORY, node)).or_default() += i128::from(memory_bytes);
            for (resource, amount) in &usage.requests {
                *requested.entry((*resource, node)).or_default() += i128::from(*amount);
            }
        }
        assert_eq!(self.pod_counters.sums(), counters.sums());
        let clamped =
            |sum: Option<&i128>| sum.map_or(0, |sum| (*sum).min(i128::from(overflow_sums::MAX_COLUMN_SUM)) as i64);
        for node in self.indices() {
            let name = self.node_name(node);
            assert_eq!(self.pods_count(node), counts.get(&node).copied().unwrap_or(0), "{name}");
            for resource in [ResourceId::CPU, ResourceId::MEMORY] {
                assert_eq!(self.scored(resource)[node.at()], clamped(scored.get(&(resource, node))), "{name}");
            }
            for resource in self.resources.named() {
                let resource_name = self.resource_name(resource);
                assert_eq!(
                    self.requested(resource, node),
                    clamped(requested.get(&(resource, node))),
                    "{name} {resource_name}"
                );
            }
        }
        for topology in &self.topologies {
            for domain in topology.domains() {
                let nodes = topology.nodes(domain).iter();
                assert_eq!(topology.pods_count(domain), nodes.map(|node| self.pods_count(*node)).sum::<i64>());
            }
        }
        assert!(!counts.is_empty() || self.scored_overflow.len() + self.resources.overflow_sums_count() == 0);
    }
}
