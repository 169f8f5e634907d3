//! Where a class fits, kept up to date: per node the slots, the score and the refusing filter.
//!
//! In: a class with its plugins, and the cluster's dirty log. Out: per node the slots, the score and the refusing
//! filter; slots per domain; the best node.
//!
//! What holds: an index that has caught up equals a newly built one. It catches up from the dirty log, so the cost of
//! a decision depends on what changed and not on the size of the cluster.

mod batch; // nodes that one call evaluates
mod batch_slots; // the slots that filters leave on a batch
mod marks; // the scores of each node
mod named_nodes; // the index of a class that names its nodes
pub(crate) mod tournament; // repeatedly finds the best of many

use std::sync::Arc;

use self::batch::{BATCH, Batch, batches};
use self::batch_slots::{BatchSlots, has_zero, static_refusers};
use self::marks::{ExternalChanges, NodeScores};
use self::named_nodes::NamedNodes;
use self::tournament::Tournament;
use crate::cluster::{Cluster, LogPosition, NodeChangeKind, NodeIndex, TopologyId, TouchedNode};
use crate::demand::classes::Class;
use crate::explain::reasons::ClassReasons;
use crate::plugins::Plugins;
use crate::plugins::filters::{Filter, LoadAssumption};

/// The cached result of all filters and scores for one class: about nine bytes per node.
#[derive(Debug)]
pub(crate) struct ClassIndex {
    plugins: Arc<Plugins>,
    /// Position in the dirty log up to which this is up to date.
    log_position: LogPosition,
    /// The refusing filter, per node.
    refused_by: Vec<RefusingFilter>,
    /// Set for a class that names its nodes. Then the columns of nodes are empty.
    named: Option<NamedNodes>,
    /// How many more pods of the class fit, per node.
    slots: Vec<u32>,
    slots_total: u64,
    scores: NodeScores,
    /// Total scores, per node on which the class fits.
    tree: Tournament,
    /// Slots per domain, for each topology key that was used.
    sums: Vec<DomainSums>,
    /// Cached reasons, valid while nothing changes.
    pub(crate) cached_reasons: Vec<ClassReasons>,
    slots_when_empty: Option<EmptySlots>,
    /// How many nodes were evaluated since it was built.
    #[cfg(test)]
    pub(crate) evaluated_count: u64,
}

/// Slots per node without any pods on it.
#[derive(Debug)]
struct EmptySlots {
    /// Position in the dirty log up to which they are up to date.
    log_position: LogPosition,
    slots: Vec<u32>,
}

/// The filter that refuses a node, as its position in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusingFilter(u8);

impl RefusingFilter {
    /// No filter refuses.
    pub(crate) const NONE: RefusingFilter = RefusingFilter(u8::MAX);
    /// The node does not exist.
    pub(crate) const ABSENT_NODE: RefusingFilter = RefusingFilter(u8::MAX - 1);

    /// The filter's position in the list; none when no filter refuses.
    fn filter(self) -> Option<usize> {
        (self.0 < RefusingFilter::ABSENT_NODE.0).then(|| usize::from(self.0))
    }

    fn is_static(self, plugins: &Plugins) -> bool {
        self == RefusingFilter::ABSENT_NODE || self.filter().is_some_and(|at| plugins.is_static(at))
    }
}

#[derive(Debug)]
struct DomainSums {
    topology: TopologyId,
    version: u64,
    by_domain: Vec<u64>,
}

impl ClassIndex {
    /// Builds the index: from all nodes, unless the class names its nodes.
    pub(crate) fn of(class: &Class, plugins: Arc<Plugins>, cluster: &Cluster) -> ClassIndex {
        let named = NamedNodes::of(class, &plugins, cluster);
        ClassIndex::build(class, plugins, named, cluster)
    }

    fn build(class: &Class, plugins: Arc<Plugins>, named: Option<NamedNodes>, cluster: &Cluster) -> ClassIndex {
        let mut index = ClassIndex {
            named,
            scores: NodeScores::new(class, &plugins, cluster),
            plugins,
            log_position: cluster.log_end(),
            refused_by: Vec::new(),
            slots: Vec::new(),
            slots_total: 0,
            tree: Tournament::of(&[]),
            sums: Vec::new(),
            cached_reasons: Vec::new(),
            slots_when_empty: None,
            #[cfg(test)]
            evaluated_count: 0,
        };
        if index.named.is_some() {
            index.sum_named_slots();
            return index;
        }
        index.widen(cluster.width());
        let mut keys = vec![0; cluster.width()];
        for batch in batches(cluster.indices()) {
            index.evaluate(class, cluster, &batch, NodeChangeKind::Shape, |_, node, key| keys[node.at()] = key);
        }
        index.renormalize_if_needed(class, cluster, |_, node, key| keys[node.at()] = key);
        index.tree = Tournament::of(&keys);
        #[cfg(test)]
        {
            index.evaluated_count = 0;
        }
        index
    }

    /// Whether nothing has changed since the index caught up.
    pub(crate) fn is_current(&self, cluster: &Cluster) -> bool {
        cluster.is_unchanged_since(self.log_position)
    }

    /// Applies what changed since the last call. Returns whether scores were normalized again, also of nodes that did
    /// not change.
    pub(crate) fn catch_up(&mut self, class: &Class, cluster: &Cluster) -> bool {
        if self.is_current(cluster) {
            return false;
        }
        if let Some(named) = &mut self.named {
            named.evaluate(class, &self.plugins, cluster);
            self.log_position = cluster.log_end();
            self.cached_reasons.clear();
            self.sums.clear();
            self.sum_named_slots();
            return true;
        }
        let touched = cluster.touched_since(self.log_position);
        if self.slots.len() < cluster.width() {
            self.widen(cluster.width());
        }
        self.log_position = cluster.log_end();
        self.cached_reasons.clear();
        let (mut with_other_pods, mut reshaped) = (Batch::default(), Batch::default());
        for TouchedNode { node, changed } in touched {
            let batch = if changed == NodeChangeKind::Pods { &mut with_other_pods } else { &mut reshaped };
            batch.push(node);
            if batch.is_full() {
                self.evaluate(class, cluster, batch, changed, set_key);
                batch.clear();
            }
        }
        self.evaluate(class, cluster, &with_other_pods, NodeChangeKind::Pods, set_key);
        self.evaluate(class, cluster, &reshaped, NodeChangeKind::Shape, set_key);
        let rescored = self.rescore_if_needed(class, cluster);
        self.renormalize_if_needed(class, cluster, set_key) || rescored
    }

    /// Scores nodes again that did not change, because something else changed that scores read. Returns whether it did.
    fn rescore_if_needed(&mut self, class: &Class, cluster: &Cluster) -> bool {
        let changes = self.scores.external_changes(class, cluster);
        if changes == ExternalChanges::default() {
            return false;
        }
        let mut outdated: Vec<NodeIndex> = Vec::new();
        for batch in batches(cluster.indices().filter(|node| self.slots(*node) > 0)) {
            if changes.of_counted {
                outdated.extend(&*batch);
            } else {
                self.scores.outdated(class, cluster.node_refs(&batch), |node| outdated.push(node));
            }
        }
        for batch in batches(outdated.into_iter()) {
            self.evaluate(class, cluster, &batch, NodeChangeKind::Shape, set_key);
        }
        true
    }

    /// The node with the highest total score that has a slot; of equal nodes the one observed first.
    pub(crate) fn best(&self) -> Option<NodeIndex> {
        match &self.named {
            Some(named) => named.with_slots().map(|named| named.node).max_by_key(|node| self.key(*node)),
            None => self.tree.best().map(|at| NodeIndex(at as u32)),
        }
    }

    /// Orders nodes as [`best`](Self::best) does; 0 for a node without slots.
    pub(crate) fn key(&self, node: NodeIndex) -> u64 {
        let tree_key = u64::from(self.tree_key_of(node));
        if tree_key == 0 { 0 } else { tree_key << 32 | u64::from(u32::MAX - node.0) }
    }

    /// The same for nodes that are compared in index order.
    pub(crate) fn tree_key_of(&self, node: NodeIndex) -> u32 {
        match &self.named {
            Some(named) => named.get(node).map_or(0, |named| named.tree_key),
            None => self.tree.entry(node.at()),
        }
    }

    /// Its size in bytes, without cached reasons.
    pub(crate) fn bytes(&self) -> usize {
        let sums: usize = self.sums.iter().map(|sums| sums.by_domain.capacity() * size_of::<u64>()).sum();
        let empty = self.slots_when_empty.as_ref().map_or(0, |empty| empty.slots.capacity());
        let per_node = self.refused_by.capacity() + (self.slots.capacity() + empty) * size_of::<u32>();
        let named = self.named.as_ref().map_or(0, NamedNodes::bytes);
        size_of::<ClassIndex>() + per_node + sums + self.tree.bytes() + self.scores.bytes() + named
    }

    /// How many more pods of the class fit on a node.
    pub(crate) fn slots(&self, node: NodeIndex) -> u32 {
        match &self.named {
            Some(named) => named.get(node).map_or(0, |named| named.slots),
            None => self.slots[node.at()],
        }
    }

    /// How many more pods of the class fit on all nodes.
    pub(crate) fn slots_total(&self) -> u64 {
        self.slots_total
    }

    /// How many more pods fit in each domain, by domain number.
    pub(crate) fn slots_by_domain(&mut self, topology: TopologyId, cluster: &Cluster) -> &[u64] {
        let domains = cluster.topology(topology);
        if domains.domains().len() == 0 {
            // Nothing is cached for a key that no node has: users can choose any number of such keys.
            return &[];
        }
        let at = self.sums.iter().position(|sums| sums.topology == topology).unwrap_or_else(|| {
            self.sums.push(DomainSums { topology, version: u64::MAX, by_domain: Vec::new() });
            self.sums.len() - 1
        });
        let sums = &mut self.sums[at];
        if sums.version != domains.version() {
            sums.version = domains.version();
            if let Some(named) = &self.named {
                sums.by_domain = vec![0; domains.domains().len()];
                for named in named.with_slots() {
                    let sum = domains.domain_of(named.node).map(|domain| &mut sums.by_domain[domain.at()]);
                    sum.into_iter().for_each(|sum| *sum += u64::from(named.slots));
                }
                return &sums.by_domain;
            }
            let slots_in = |domain| domains.nodes(domain).iter().map(|node| u64::from(self.slots[node.at()])).sum();
            sums.by_domain = domains.domains().map(slots_in).collect();
        }
        &sums.by_domain
    }

    /// Drops what is cached for topologies that are not `used`.
    pub(crate) fn retain_topologies(&mut self, used: impl Fn(TopologyId) -> bool) {
        self.sums.retain(|sums| used(sums.topology));
        self.cached_reasons.retain(|reasons| reasons.topology().is_none_or(&used));
    }

    /// What refuses a node.
    pub(crate) fn refuser(&self, node: NodeIndex) -> RefusingFilter {
        match &self.named {
            Some(named) => named.refuser(node),
            None => self.refused_by[node.at()],
        }
    }

    /// The nodes that the class names, sorted; `None` if it can use others. Node affinity refuses all others.
    pub(crate) fn named_nodes(&self) -> Option<Vec<NodeIndex>> {
        Some(self.named.as_ref()?.nodes().iter().map(|named| named.node).collect())
    }

    /// The position of the filter that refuses all nodes that are not named.
    pub(crate) fn affinity_filter(&self) -> Option<usize> {
        self.named.as_ref().and_then(|named| named.affinity().filter())
    }

    /// Whether it was built from all nodes.
    pub(crate) fn has_all_nodes(&self) -> bool {
        self.named.is_none()
    }

    /// The filter that refuses a node, with its position in the profile.
    pub(crate) fn refusing_filter(&self, node: NodeIndex) -> Option<(usize, &Arc<dyn Filter>)> {
        self.refuser(node).filter().map(|at| (at, &self.plugins.filters()[at]))
    }

    /// The filters and scores of this index.
    pub(crate) fn plugins(&self) -> &Arc<Plugins> {
        &self.plugins
    }

    /// The weighted points of each score that applies, by its position in the profile, for a node with slots.
    pub(crate) fn points(&self, node: NodeIndex, class: &Class, cluster: &Cluster) -> Vec<(usize, i64)> {
        let Some(named) = &self.named else { return self.scores.points(node, class, cluster) };
        let at = named.with_slots().position(|named| named.node == node);
        let points = named.points(class, &self.plugins, cluster);
        at.map_or(Vec::new(), |at| points.iter().map(|(position, points)| (*position, points[at])).collect())
    }

    /// The total score of a node with slots.
    pub(crate) fn total(&self, node: NodeIndex) -> i64 {
        i64::from(self.tree_key_of(node)) - 1
    }

    /// The nodes on which pods of the class would fit if they had no pods, sorted, and how many.
    pub(crate) fn slots_when_empty(&mut self, class: &Class, cluster: &Cluster) -> Vec<(NodeIndex, u32)> {
        if let Some(named) = &self.named {
            return named.slots_when_empty(class, &self.plugins, cluster);
        }
        let slots = self.all_slots_when_empty(class, cluster).iter().enumerate();
        slots.filter(|(_, slots)| **slots > 0).map(|(at, slots)| (NodeIndex(at as u32), *slots)).collect()
    }

    fn all_slots_when_empty(&mut self, class: &Class, cluster: &Cluster) -> &[u32] {
        let (mut slots, reshaped) = match self.slots_when_empty.take() {
            Some(EmptySlots { log_position, slots }) => {
                let touched = cluster.touched_since(log_position);
                let reshaped = touched.filter(|touched| touched.changed == NodeChangeKind::Shape);
                (slots, reshaped.map(|touched| touched.node).collect())
            }
            None => (Vec::new(), cluster.indices().collect::<Vec<_>>()),
        };
        // A node that is only named by a bound pod has a column entry too.
        slots.resize(cluster.width(), 0);
        reshaped.iter().for_each(|node| slots[node.at()] = 0);
        let open = reshaped.into_iter().filter(|node| !self.refuser(*node).is_static(&self.plugins));
        for batch in batches(open) {
            let (mut batch_slots, nodes) = (BatchSlots::unlimited(), cluster.node_refs(&batch));
            batch_slots.apply_filters(self.plugins.counted_filters(), class, nodes, LoadAssumption::Empty);
            batch.iter().zip(batch_slots.slots).for_each(|(node, count)| slots[node.at()] = count);
        }
        let empty = EmptySlots { log_position: cluster.log_end(), slots };
        &self.slots_when_empty.insert(empty).slots
    }

    /// Whether later pods of the class can be expected to use it. Not if no node fits one even when empty, as last
    /// computed, and not if the class names its nodes: such an index is as cheap to build as to keep.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        let is_hopeless = self.slots_total == 0
            && self.slots_when_empty.as_ref().is_some_and(|empty| empty.slots.iter().all(|slots| *slots == 0));
        !is_hopeless && self.has_all_nodes()
    }

    fn sum_named_slots(&mut self) {
        let named = self.named.iter().flat_map(NamedNodes::nodes);
        self.slots_total = named.map(|named| u64::from(named.slots)).sum();
    }

    fn widen(&mut self, width: usize) {
        self.refused_by.resize(width, RefusingFilter::ABSENT_NODE);
        self.slots.resize(width, 0);
        self.tree.widen(width);
        self.scores.widen(width);
    }

    /// Applies the filters and scores to nodes: the static ones only if more than the nodes' pods changed. `set`
    /// stores the tree keys of nodes with slots.
    fn evaluate(
        &mut self,
        class: &Class,
        cluster: &Cluster,
        nodes: &[NodeIndex],
        changed: NodeChangeKind,
        mut set: impl FnMut(&mut Tournament, NodeIndex, u32),
    ) {
        if nodes.is_empty() {
            return;
        }
        #[cfg(test)]
        {
            self.evaluated_count += nodes.len() as u64;
        }
        let slots = &self.slots;
        self.scores.remove_nodes(nodes.iter().copied().filter(|node| slots[node.at()] > 0));
        // No static filter refuses nodes with slots, unless the nodes themselves changed.
        let all_open = changed == NodeChangeKind::Pods && nodes.iter().all(|node| slots[node.at()] > 0);
        let still_open;
        let open = if all_open || (changed == NodeChangeKind::Shape && self.pass_static_filters(class, cluster, nodes))
        {
            nodes
        } else {
            still_open = self.open_nodes(cluster, nodes);
            &*still_open
        };
        let mut batch_slots = BatchSlots::unlimited();
        batch_slots.apply_filters(self.plugins.counted_filters(), class, cluster.node_refs(open), LoadAssumption::Now);
        let (mut feasible_batch, mut new_batch) = (Batch::default(), Batch::default());
        let all_feasible = !has_zero(&batch_slots.slots[..open.len()]);
        for ((node, now), refuser) in open.iter().zip(batch_slots.slots).zip(batch_slots.refusers) {
            let before = self.slots[node.at()];
            if before == 0 || now == 0 {
                self.refused_by[node.at()] = refuser;
            }
            self.set_slots(cluster, *node, now);
            if now > 0 && !all_feasible {
                feasible_batch.push(*node);
            }
            if now > 0 && before == 0 && changed == NodeChangeKind::Pods {
                new_batch.push(*node);
            }
        }
        let feasible = if all_feasible { open } else { &*feasible_batch };
        // A node that had no slots has no cached scores.
        let new = if changed == NodeChangeKind::Shape { feasible } else { &*new_batch };
        // All keys are read before the first is written: the processor then waits for memory once, not for each node.
        let mut keys = [0; BATCH];
        keys.iter_mut().zip(feasible).for_each(|(key, node)| *key = self.tree_key_of(*node));
        let mut totals = [0; BATCH];
        self.scores.add_nodes(class, cluster.node_refs(feasible), cluster.node_refs(new), &mut totals);
        for ((node, before), total) in feasible.iter().zip(keys).zip(totals) {
            let key = tree_key(total);
            if key != before {
                set(&mut self.tree, *node, key);
            }
        }
    }

    /// Applies the static filters. Returns whether they refuse none of the nodes.
    fn pass_static_filters(&mut self, class: &Class, cluster: &Cluster, nodes: &[NodeIndex]) -> bool {
        let refusers = static_refusers(&self.plugins, class, cluster, nodes);
        nodes.iter().zip(refusers).for_each(|(node, refuser)| self.refused_by[node.at()] = refuser);
        refusers[..nodes.len()].iter().all(|refuser| *refuser == RefusingFilter::NONE)
    }

    /// The nodes that no static filter refused when last evaluated.
    fn open_nodes(&mut self, cluster: &Cluster, nodes: &[NodeIndex]) -> Batch {
        let mut open = Batch::default();
        for node in nodes {
            if self.refuser(*node).is_static(&self.plugins) {
                self.set_slots(cluster, *node, 0);
            } else {
                open.push(*node);
            }
        }
        open
    }

    /// Sets the slots of a node. The caller must set the tree key of a node with slots.
    #[inline(always)]
    fn set_slots(&mut self, cluster: &Cluster, node: NodeIndex, now: u32) {
        let before = std::mem::replace(&mut self.slots[node.at()], now);
        if before == now {
            return;
        }
        if now == 0 {
            self.tree.set(node.at(), 0);
        }
        self.slots_total = self.slots_total + u64::from(now) - u64::from(before);
        if !self.sums.is_empty() {
            self.move_sums(cluster, node, before, now);
        }
    }

    fn move_sums(&mut self, cluster: &Cluster, node: NodeIndex, before: u32, now: u32) {
        let moved = |sum: u64| sum + u64::from(now) - u64::from(before);
        for sums in &mut self.sums {
            let topology = cluster.topology(sums.topology);
            // Sums of an older version are computed again on the next read.
            if let Some(domain) = topology.domain_of(node).filter(|_| topology.version() == sums.version) {
                sums.by_domain[domain.at()] = moved(sums.by_domain[domain.at()]);
            }
        }
    }

    /// Computes totals of unchanged nodes again if they are no longer valid. Returns whether it did.
    fn renormalize_if_needed(
        &mut self,
        class: &Class,
        cluster: &Cluster,
        mut set: impl FnMut(&mut Tournament, NodeIndex, u32),
    ) -> bool {
        if !self.scores.needs_renormalization() {
            return false;
        }
        let (slots, tree) = (&self.slots, &mut self.tree);
        let with_slots = cluster.indices().filter(|node| slots[node.at()] > 0);
        self.scores.renormalize(class, cluster, with_slots, |node, total| set(tree, node, tree_key(total)));
        true
    }

    /// An index over all nodes, whatever the class names.
    #[cfg(test)]
    pub(crate) fn of_all_nodes(class: &Class, plugins: Arc<Plugins>, cluster: &Cluster) -> ClassIndex {
        ClassIndex::build(class, plugins, None, cluster)
    }

    /// Everything an index guarantees about the cluster, in a form that two indexes can be compared by.
    #[cfg(test)]
    fn debug_state(&mut self, topologies: &[TopologyId], cluster: &Cluster) -> String {
        let keys: Vec<_> = cluster.indices().map(|node| self.tree_key_of(node)).collect();
        let sums: Vec<_> = topologies.iter().map(|id| self.slots_by_domain(*id, cluster).to_vec()).collect();
        let (best, total, raws) = (self.best(), self.slots_total, self.scores.debug_state());
        format!("{:?} {:?} {:?} {total} {raws} {keys:?} {best:?} {sums:?}", self.named, self.refused_by, self.slots)
    }

    /// Panics unless this index, brought up to date, equals a newly built one.
    #[cfg(test)]
    pub(crate) fn assert_fresh(&mut self, class: &Class, cluster: &Cluster) {
        let topologies: Vec<_> = self.sums.iter().map(|sums| sums.topology).collect();
        let rebuilt = ClassIndex::of(class, Arc::clone(&self.plugins), cluster).debug_state(&topologies, cluster);
        assert_eq!(self.debug_state(&topologies, cluster), rebuilt);
    }
}

/// Stores the tree key of a node.
fn set_key(tree: &mut Tournament, node: NodeIndex, key: u32) {
    tree.set(node.at(), key);
}

/// The tree key of a total; never 0, which means that a node has no slots.
fn tree_key(total: i64) -> u32 {
    // Negative scores do not exist, but a key must be positive for any total.
    total.clamp(0, i64::from(i32::MAX)) as u32 + 1
}
