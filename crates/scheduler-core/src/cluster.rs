//! What the cluster looks like, kept up to date: dense columns of integers per node.
//!
//! A node has an index for as long as it exists or pods are on it. Everything a filter or score reads about it stands
//! in columns at that index. Each change appends the index to the dirty log, from which the class indexes catch up.

mod dirty; // which nodes changed, in order
mod hold; // room kept free for one unit
mod images; // which images lie on how many nodes
mod node; // a node's fixed side: labels, taints, images
mod node_ref; // one node as filters and scores see it
mod resources; // resource names and their columns
mod sums; // what pods ask for together, whatever they ask for
mod tentative; // a layer that is dropped to undo
mod topology; // nodes by the value of a label

use std::collections::BTreeMap;

use api::views::NodeView;
use rustc_hash::FxHashMap;

pub(crate) use dirty::{Changed, Touch};
pub(crate) use hold::{HeldRoom, Share};
pub(crate) use images::full_name;
pub(crate) use node::{Effect, Node, Taint};
pub use node_ref::{NodeRef, NodeRefs};
pub(crate) use resources::{Column, ResourceId};
pub(crate) use sums::{ASKED_MAX, HAD_MAX};
pub(crate) use tentative::Tentative;
pub(crate) use topology::{DomainId, Topology, TopologyId, Whereabouts};

use self::dirty::DirtyLog;
use self::hold::Hold;
use self::images::Images;
use self::resources::Resources;
use self::sums::Apart;
use crate::names::{NameId, Names};
use crate::requests::{HostPort, Scored, Usage};
use crate::wakes::Wakes;

/// Where a node stands in every column. Given out in the order nodes are first seen, reused once free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeIndex(pub(crate) u32);

impl NodeIndex {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// All nodes and what is taken from them.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) names: Names,
    resources: Resources,
    nodes: Vec<Node>,
    by_name: FxHashMap<NameId, NodeIndex>,
    /// Indices that no node and no pod uses, the next one to reuse last.
    free: Vec<NodeIndex>,
    pods_allowed: Vec<i64>,
    pods_count: Vec<i64>,
    /// What scores count as taken, by node.
    scored_cpu: Vec<i64>,
    scored_memory: Vec<i64>,
    scored_apart: Apart,
    /// Host ports in use; a port stands here once per pod that has it.
    ports: Vec<Vec<HostPort>>,
    images: Images,
    topologies: Vec<Topology>,
    present_count: usize,
    /// Grows whenever something other than pods changes.
    shape: u64,
    log: DirtyLog,
    hold: Hold,
}

/// What a change of a node amounts to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeChange {
    /// Kinds of change a filter may wait for.
    pub(crate) kinds: Wakes,
    /// Whether the node, or pods of groups on it, are now in other topology domains than before.
    pub(crate) moved: bool,
}

impl Cluster {
    /// Takes in a node, new or changed.
    pub(crate) fn set_node(&mut self, view: &NodeView) -> NodeChange {
        let index = self.index_of(&view.metadata.name);
        let at = index.at();
        let name = self.nodes[at].name;
        let next = Node::of(view, name, &mut self.names);
        let mut change = NodeChange { kinds: next.differs_by(&self.nodes[at]), moved: false };
        if self.set_allocatable(index, view) {
            change.kinds |= Wakes::ALLOCATABLE;
        }
        if change.kinds.is_empty() {
            return change;
        }
        self.present_count += usize::from(!self.nodes[at].present);
        self.images.remove(&self.nodes[at].images);
        self.images.add(&next.images);
        self.nodes[at] = next;
        for topology in &mut self.topologies {
            change.moved |= topology.set(index, &self.nodes[at], self.pods_count[at]);
        }
        self.reshaped(index);
        change
    }

    /// Forgets a node. Pods that are still on it keep its index alive until they are gone.
    pub(crate) fn remove_node(&mut self, name: &str) -> NodeChange {
        let Some(index) = self.find(name).filter(|index| self.nodes[index.at()].present) else {
            return NodeChange::default();
        };
        let at = index.at();
        self.images.remove(&self.nodes[at].images);
        self.nodes[at] = Node::absent(self.nodes[at].name);
        self.present_count -= 1;
        self.pods_allowed[at] = 0;
        self.resources.clear_allocatable(index);
        // Members on a node without the label kept their group from going anywhere; those of a lost node do not.
        let mut moved = self.pods_count[at] > 0;
        for topology in &mut self.topologies {
            moved |= topology.set(index, &self.nodes[at], self.pods_count[at]);
        }
        self.reshaped(index);
        self.release_if_unused(index);
        NodeChange { kinds: Wakes::NONE, moved }
    }

    /// The index of the node called `name`, which may be yet to come: pods can be seen before their node.
    pub(crate) fn index_of(&mut self, name: &str) -> NodeIndex {
        let name = self.names.intern(name);
        if let Some(index) = self.by_name.get(&name) {
            return *index;
        }
        let index = self.free.pop().unwrap_or(NodeIndex(self.nodes.len() as u32));
        if index.at() == self.nodes.len() {
            self.nodes.push(Node::absent(name));
            self.pods_allowed.push(0);
            self.pods_count.push(0);
            self.scored_cpu.push(0);
            self.scored_memory.push(0);
            self.ports.push(Vec::new());
            self.resources.grow(self.nodes.len());
        }
        self.nodes[index.at()].name = name;
        self.by_name.insert(name, index);
        index
    }

    /// The index of the node called `name`, if the node or a pod on it was seen.
    pub(crate) fn find(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(&self.names.get(name)?).copied()
    }

    /// Counts a pod on a node.
    pub(crate) fn take(&mut self, index: NodeIndex, usage: &Usage) {
        self.count(index, usage, 1);
        self.ports[index.at()].extend_from_slice(&usage.ports);
    }

    /// Stops counting a pod on a node.
    pub(crate) fn give_back(&mut self, index: NodeIndex, usage: &Usage) {
        self.count(index, usage, -1);
        for port in &usage.ports {
            let used = &mut self.ports[index.at()];
            let at = used.iter().position(|held| held == port).expect("a counted pod's ports are in use");
            used.swap_remove(at);
        }
        self.release_if_unused(index);
    }

    /// Keeps so much of these nodes free, instead of what was before; `held_for` says for whom and until when. It takes
    /// effect when it is shown.
    pub(crate) fn hold(&mut self, shares: BTreeMap<NodeIndex, Share>, held_for: String) {
        self.show_hold(false);
        self.hold.set(shares, held_for);
    }

    /// Shows the hold to whom is decided next, or hides it.
    pub(crate) fn show_hold(&mut self, shown: bool) {
        for node in self.hold.show(shown) {
            self.log.push(node, Changed::Pods, self.nodes.len());
        }
    }

    /// The nodes of which something is kept free for one unit.
    pub(crate) fn held_nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.hold.nodes()
    }

    /// How much of what is kept free is free by now. Looks at all held nodes.
    pub(crate) fn held_room(&self) -> HeldRoom {
        self.hold.room(self)
    }

    /// For whom something is kept free and until when, in words.
    pub(crate) fn held_for(&self) -> &str {
        &self.hold.held_for
    }

    /// Whether something is kept free for another unit than the one that is decided.
    pub(crate) fn shows_hold(&self) -> bool {
        self.hold.is_shown()
    }

    /// How many pods that take this much have room on a node beside what is kept free there for another unit.
    pub(crate) fn room_beside_hold(&self, index: NodeIndex, usage: &Usage) -> u32 {
        self.hold.leaves(index, usage, self)
    }

    /// The same, whether it is shown or not.
    pub(crate) fn room_if_hold_shown(&self, index: NodeIndex, usage: &Usage) -> u32 {
        self.hold.would_leave(index, usage, self)
    }

    /// A layer of tentative pods over this cluster; dropping it takes them off again.
    pub(crate) fn tentative(&mut self) -> Tentative<'_> {
        Tentative::over(self)
    }

    /// The number of a resource, new for a new name.
    pub(crate) fn resource(&mut self, name: &str) -> ResourceId {
        self.resources.intern(name)
    }

    /// The number of a resource that was seen.
    pub(crate) fn find_resource(&self, name: &str) -> Option<ResourceId> {
        self.resources.find(name)
    }

    /// The name of a resource.
    pub(crate) fn resource_name(&self, resource: ResourceId) -> &str {
        self.resources.name(resource)
    }

    /// A resource over all nodes.
    pub(crate) fn column(&self, resource: ResourceId) -> &Column {
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

    /// What is left of a resource on a node; negative where pods have more than there is.
    pub(crate) fn free(&self, resource: ResourceId, index: NodeIndex) -> i64 {
        self.allocatable(resource, index) - self.requested(resource, index)
    }

    /// How many more pods a node may hold, whatever they ask for.
    pub(crate) fn places_free(&self, index: NodeIndex) -> i64 {
        self.pods_allowed(index) - self.pods_count(index)
    }

    /// What pods may use of a resource on all nodes together.
    pub(crate) fn allocatable_total(&self, resource: ResourceId) -> i128 {
        self.resources.column(resource).allocatable_total
    }

    /// What is taken of a resource on each node, as scores count it.
    pub(crate) fn scored(&self, resource: ResourceId) -> &[i64] {
        match resource {
            ResourceId::CPU => &self.scored_cpu,
            ResourceId::MEMORY => &self.scored_memory,
            _ => &self.resources.column(resource).requested,
        }
    }

    /// How many pods a node may hold.
    pub(crate) fn pods_allowed(&self, index: NodeIndex) -> i64 {
        self.pods_allowed[index.at()]
    }

    /// How many pods a node holds.
    pub(crate) fn pods_count(&self, index: NodeIndex) -> i64 {
        self.pods_count[index.at()]
    }

    /// Host ports in use on a node.
    pub(crate) fn ports(&self, index: NodeIndex) -> &[HostPort] {
        &self.ports[index.at()]
    }

    /// Labels, taints and the like of a node.
    pub(crate) fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.at()]
    }

    /// Every label key that some node carries. Looks at all nodes.
    pub(crate) fn label_keys(&self) -> std::collections::BTreeSet<NameId> {
        self.nodes.iter().flat_map(Node::label_keys).collect()
    }

    /// A node with what is taken from it.
    pub(crate) fn at(&self, index: NodeIndex) -> NodeRef<'_> {
        NodeRef { cluster: self, index }
    }

    /// Some nodes with what is taken from them.
    pub(crate) fn several<'a>(&'a self, nodes: &'a [NodeIndex]) -> NodeRefs<'a> {
        NodeRefs { cluster: self, nodes }
    }

    /// On how many nodes an image lies.
    pub(crate) fn nodes_with_image(&self, image: NameId) -> u32 {
        self.images.nodes_count(image)
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

    /// Differs from an earlier value when nodes changed in anything but their pods.
    pub(crate) fn shape(&self) -> u64 {
        self.shape
    }

    /// Where the dirty log ends now.
    pub(crate) fn log_end(&self) -> u64 {
        self.log.end()
    }

    /// The nodes that changed since position `seen`, each once; `None` when there were more changes than there are nodes.
    pub(crate) fn touched_since(&self, seen: u64) -> Option<impl Iterator<Item = Touch> + '_> {
        let few = self.log.count_since(seen) <= self.nodes.len().max(64) as u64;
        self.log.since(seen).filter(|_| few)
    }

    /// The domains of a node label; kept from the first time it is asked for.
    pub(crate) fn topology_of(&mut self, key: &str) -> TopologyId {
        let key = self.names.intern(key);
        if let Some(at) = self.topologies.iter().position(|topology| topology.key() == key) {
            return TopologyId(at as u32);
        }
        let mut topology = Topology::by(key);
        for (at, node) in self.nodes.iter().enumerate() {
            topology.set(NodeIndex(at as u32), node, self.pods_count[at]);
        }
        self.topologies.push(topology);
        TopologyId(self.topologies.len() as u32 - 1)
    }

    /// The domains of a node label.
    pub(crate) fn topology(&self, id: TopologyId) -> &Topology {
        &self.topologies[id.0 as usize]
    }

    fn set_allocatable(&mut self, index: NodeIndex, view: &NodeView) -> bool {
        let at = index.at();
        let mut changed = false;
        for (name, quantity) in view.status.allocatable.iter().filter(|(name, _)| *name != "pods") {
            let resource = self.resources.intern(name);
            changed |= self.resources.set_allocatable(resource, index, had(resource.amount(*quantity)));
        }
        for resource in self.resources.ids() {
            let had_some = self.resources.column(resource).allocatable[at] != 0;
            if had_some && view.status.allocatable.get(self.resources.name(resource)).is_none() {
                changed |= self.resources.set_allocatable(resource, index, 0);
            }
        }
        let allowed = view.status.allocatable.get("pods").map_or(0, |quantity| had(quantity.value()));
        changed |= std::mem::replace(&mut self.pods_allowed[at], allowed) != allowed;
        changed
    }

    fn count(&mut self, index: NodeIndex, usage: &Usage, sign: i64) {
        let at = index.at();
        for (resource, amount) in &usage.requests {
            self.resources.add_requested(*resource, index, sign * amount);
        }
        let Scored { cpu_milli, memory_bytes } = usage.scored;
        self.scored_apart.add(&mut self.scored_cpu[at], (ResourceId::CPU, index), sign * cpu_milli);
        self.scored_apart.add(&mut self.scored_memory[at], (ResourceId::MEMORY, index), sign * memory_bytes);
        self.pods_count[at] += sign;
        for topology in &mut self.topologies {
            topology.count(index, sign);
        }
        self.log.push(index, Changed::Pods, self.nodes.len());
    }

    fn reshaped(&mut self, index: NodeIndex) {
        self.shape += 1;
        self.log.push(index, Changed::Shape, self.nodes.len());
    }

    fn release_if_unused(&mut self, index: NodeIndex) {
        let node = &self.nodes[index.at()];
        if !node.present && self.pods_count[index.at()] == 0 {
            self.by_name.remove(&node.name);
            self.free.push(index);
            self.hold.forget(index);
        }
    }
}

/// What a node counts with of something. Less than nothing is nothing.
fn had(amount: i64) -> i64 {
    amount.clamp(0, HAD_MAX)
}

#[cfg(test)]
impl Cluster {
    /// How many tables there are with a row for each node, because of a name that somebody chose.
    pub(crate) fn tables_count(&self) -> usize {
        self.resources.columns_count() + self.topologies.iter().filter(|topology| topology.has_table()).count()
    }

    /// Panics unless the books are the sums of what these pods take from their nodes.
    pub(crate) fn assert_sums<'a>(&self, pods: impl Iterator<Item = (NodeIndex, &'a Usage)>) {
        let mut counts: std::collections::BTreeMap<NodeIndex, i64> = Default::default();
        let [mut scored, mut requested]: [std::collections::BTreeMap<sums::Of, i128>; 2] = Default::default();
        for (node, usage) in pods {
            *counts.entry(node).or_default() += 1;
            let Scored { cpu_milli, memory_bytes } = usage.scored;
            *scored.entry((ResourceId::CPU, node)).or_default() += i128::from(cpu_milli);
            *scored.entry((ResourceId::MEMORY, node)).or_default() += i128::from(memory_bytes);
            for (resource, amount) in &usage.requests {
                *requested.entry((*resource, node)).or_default() += i128::from(*amount);
            }
        }
        let shown = |sum: Option<&i128>| sum.map_or(0, |sum| (*sum).min(i128::from(sums::SHOWN_MAX)) as i64);
        for node in self.indices() {
            let name = self.node_name(node);
            assert_eq!(self.pods_count(node), counts.get(&node).copied().unwrap_or(0), "{name}");
            for resource in [ResourceId::CPU, ResourceId::MEMORY] {
                assert_eq!(self.scored(resource)[node.at()], shown(scored.get(&(resource, node))), "{name}");
            }
            for resource in self.resources.ids() {
                let resource_name = self.resource_name(resource);
                assert_eq!(
                    self.requested(resource, node),
                    shown(requested.get(&(resource, node))),
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
        assert!(!counts.is_empty() || self.scored_apart.len() + self.resources.sums_apart_count() == 0);
    }
}
