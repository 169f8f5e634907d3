//! Where a class fits, kept up to date: per node the slots, the score and the filter that refuses it.
//!
//! An index catches up from the cluster's dirty log, so a decision pays for what changed and not for the cluster.

use std::sync::Arc;

use crate::classes::Class;
use crate::cluster::{Cluster, NodeChangeKind, NodeIndex, NodeRefs, TopologyId, TouchedNode};
use crate::filters::{Filter, LoadAssumption, NO_LIMIT};
use crate::plugins::Plugins;
use crate::reasons::ClassReasons;
use crate::tournament::Tournament;

mod batch; // some nodes, to be asked about with one call
mod marks; // what scores give to each node
use batch::{BATCH, Batch, batches};
use marks::NodeScores;

/// The kept answer of all filters and scores for one class: about nine bytes a node.
#[derive(Debug)]
pub(crate) struct ClassIndex {
    plugins: Arc<Plugins>,
    /// Position in the dirty log up to which this has caught up.
    log_position: u64,
    /// Which filter refuses, per node.
    refused_by: Vec<RefusingFilter>,
    /// How many more pods of the class fit, per node.
    slots: Vec<u32>,
    slots_total: u64,
    scores: NodeScores,
    /// Totals of all scores, per node that takes pods.
    tree: Tournament,
    /// Slots per domain, for each topology key that was asked for.
    sums: Vec<DomainSums>,
    /// Reasons as last counted; they hold while nothing changes.
    pub(crate) cached_reasons: Vec<ClassReasons>,
    /// Slots per node if no pods were there, with the shape of the cluster they belong to.
    slots_when_empty: Option<(u64, Vec<u32>)>,
}

/// Which filter refuses a node, as its place in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusingFilter(u8);

impl RefusingFilter {
    /// No filter refuses.
    pub(crate) const NONE: RefusingFilter = RefusingFilter(u8::MAX);
    /// There is no such node.
    pub(crate) const ABSENT_NODE: RefusingFilter = RefusingFilter(u8::MAX - 1);
    /// What the node has is kept free for a unit that has waited for long.
    pub(crate) const RESERVATION: RefusingFilter = RefusingFilter(u8::MAX - 2);

    /// The filter's place in the list; none when no filter refuses.
    fn filter(self) -> Option<usize> {
        (self.0 < RefusingFilter::RESERVATION.0).then(|| usize::from(self.0))
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
    /// The index made from all nodes.
    pub(crate) fn of(class: &Class, plugins: Arc<Plugins>, cluster: &Cluster) -> ClassIndex {
        let mut index = ClassIndex {
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
        };
        index.widen(cluster.width());
        let mut marks = vec![0; cluster.width()];
        for batch in batches(cluster.indices()) {
            index.evaluate(class, cluster, &batch, NodeChangeKind::Shape, |_, node, mark| marks[node.at()] = mark);
        }
        index.tree = Tournament::of(&marks);
        index.renormalize_if_needed(class, cluster);
        index
    }

    /// Takes in what changed since the last look. Says whether all scores were weighed anew.
    pub(crate) fn catch_up(&mut self, class: &Class, cluster: &Cluster) -> bool {
        if self.log_position == cluster.log_end() {
            return false;
        }
        let Some(touched) = cluster.touched_since(self.log_position).filter(|_| self.scores.is_valid(class, cluster))
        else {
            *self = ClassIndex::of(class, Arc::clone(&self.plugins), cluster);
            return true;
        };
        if self.slots.len() < cluster.width() {
            self.widen(cluster.width());
        }
        self.log_position = cluster.log_end();
        self.cached_reasons.clear();
        let set = |tree: &mut Tournament, node: NodeIndex, mark| tree.set(node.at(), mark);
        let (mut with_other_pods, mut reshaped) = (Batch::default(), Batch::default());
        for TouchedNode { node, changed } in touched {
            let batch = if changed == NodeChangeKind::Pods { &mut with_other_pods } else { &mut reshaped };
            batch.push(node);
            if batch.is_full() {
                self.evaluate(class, cluster, batch, changed, set);
                batch.clear();
            }
        }
        self.evaluate(class, cluster, &with_other_pods, NodeChangeKind::Pods, set);
        self.evaluate(class, cluster, &reshaped, NodeChangeKind::Shape, set);
        self.renormalize_if_needed(class, cluster)
    }

    /// The node with the highest total score that takes another pod; the first seen among equals.
    pub(crate) fn best(&self) -> Option<NodeIndex> {
        self.tree.best().map(|at| NodeIndex(at as u32))
    }

    /// Orders nodes as [`best`](Self::best) does; 0 for a node that takes none.
    pub(crate) fn key(&self, node: NodeIndex) -> u64 {
        let mark = u64::from(self.tree_key_of(node));
        if mark == 0 { 0 } else { mark << 32 | u64::from(u32::MAX - node.0) }
    }

    /// The same among nodes that come in the order they were seen.
    pub(crate) fn tree_key_of(&self, node: NodeIndex) -> u32 {
        self.tree.entry(node.at())
    }

    /// How many bytes it takes, but for what is kept of reasons.
    pub(crate) fn bytes(&self) -> usize {
        let sums: usize = self.sums.iter().map(|sums| sums.by_domain.capacity() * size_of::<u64>()).sum();
        let empty = self.slots_when_empty.as_ref().map_or(0, |(_, slots)| slots.capacity());
        let per_node = self.refused_by.capacity() + (self.slots.capacity() + empty) * size_of::<u32>();
        size_of::<ClassIndex>() + per_node + sums + self.tree.bytes() + self.scores.bytes()
    }

    /// How many more pods of the class a node takes.
    pub(crate) fn slots(&self, node: NodeIndex) -> u32 {
        self.slots[node.at()]
    }

    /// How many more pods of the class all nodes take.
    pub(crate) fn slots_total(&self) -> u64 {
        self.slots_total
    }

    /// How many more pods each domain takes, by domain number.
    pub(crate) fn slots_by_domain(&mut self, topology: TopologyId, cluster: &Cluster) -> &[u64] {
        let domains = cluster.topology(topology);
        if domains.domains().len() == 0 {
            // Nothing is kept for a key that no node carries: anybody can make up such keys.
            return &[];
        }
        let at = self.sums.iter().position(|sums| sums.topology == topology).unwrap_or_else(|| {
            self.sums.push(DomainSums { topology, version: u64::MAX, by_domain: Vec::new() });
            self.sums.len() - 1
        });
        let sums = &mut self.sums[at];
        if sums.version != domains.version() {
            sums.version = domains.version();
            let slots_in = |domain| domains.nodes(domain).iter().map(|node| u64::from(self.slots[node.at()])).sum();
            sums.by_domain = domains.domains().map(slots_in).collect();
        }
        &sums.by_domain
    }

    /// Who refuses a node.
    pub(crate) fn refuser(&self, node: NodeIndex) -> RefusingFilter {
        self.refused_by[node.at()]
    }

    /// The filter that refuses a node.
    pub(crate) fn refusing_filter(&self, node: NodeIndex) -> Option<&Arc<dyn Filter>> {
        self.refuser(node).filter().map(|at| &self.plugins.filters()[at])
    }

    /// The filters and scores that this is the answer of.
    pub(crate) fn plugins(&self) -> &Plugins {
        &self.plugins
    }

    /// The weighted points of each score that applies, by its place in the profile, for a node that takes pods.
    pub(crate) fn points(&self, node: NodeIndex, class: &Class, cluster: &Cluster) -> Vec<(usize, i64)> {
        self.scores.points(node, class, cluster)
    }

    /// The sum of all scores of a node that takes pods.
    pub(crate) fn total(&self, node: NodeIndex) -> i64 {
        i64::from(self.tree_key_of(node)) - 1
    }

    /// How many pods of the class each node would take without any pods on it.
    pub(crate) fn slots_when_empty(&mut self, class: &Class, cluster: &Cluster) -> &[u32] {
        let shape = cluster.shape();
        // A node of which only the name is known, from a pod that is bound to it, takes a place and changes nothing else.
        let is_current = |(seen, slots): &(u64, Vec<u32>)| *seen == shape && slots.len() == cluster.width();
        if !self.slots_when_empty.as_ref().is_some_and(is_current) {
            let mut slots = vec![0; cluster.width()];
            let open = cluster.indices().filter(|node| !self.refuser(*node).is_static(&self.plugins));
            for batch in batches(open) {
                let mut found = BatchSlots::unlimited();
                found.apply_filters(
                    self.plugins.counted_filters(),
                    class,
                    cluster.node_refs(&batch),
                    LoadAssumption::Empty,
                );
                batch.iter().zip(found.slots).for_each(|(node, room)| slots[node.at()] = room);
            }
            self.slots_when_empty = Some((shape, slots));
        }
        self.slots_when_empty.as_ref().map_or(&[], |(_, slots)| slots)
    }

    /// Whether no node took a pod of the class even without any others on it, when that was last looked at.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.slots_total == 0
            && self.slots_when_empty.as_ref().is_some_and(|(_, slots)| slots.iter().all(|slots| *slots == 0))
    }

    fn widen(&mut self, width: usize) {
        self.refused_by.resize(width, RefusingFilter::ABSENT_NODE);
        self.slots.resize(width, 0);
        self.tree.widen(width);
        self.scores.widen(width);
    }

    /// Asks the filters and scores about nodes: the static ones only if more than their pods changed. `set` writes the
    /// marks of those that take pods.
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
        let slots = &self.slots;
        self.scores.remove_nodes(nodes.iter().copied().filter(|node| slots[node.at()] > 0));
        // Of nodes that take pods it is known that nobody refuses them, unless they changed by themselves.
        let are_known = changed == NodeChangeKind::Pods && nodes.iter().all(|node| slots[node.at()] > 0);
        let still_open;
        let open = if are_known || (changed == NodeChangeKind::Shape && self.pass_static_filters(class, cluster, nodes))
        {
            nodes
        } else {
            still_open = self.open_nodes(cluster, nodes);
            &*still_open
        };
        let mut found = BatchSlots::unlimited();
        found.apply_filters(self.plugins.counted_filters(), class, cluster.node_refs(open), LoadAssumption::Now);
        if cluster.enforces_reservation() {
            found.apply_reservation(class, &self.plugins, cluster, open);
        }
        let (mut some_taking, mut some_fresh) = (Batch::default(), Batch::default());
        let all_take = !has_zero(&found.slots[..open.len()]);
        for ((node, now), refuser) in open.iter().zip(found.slots).zip(found.refusers) {
            let before = self.slots[node.at()];
            if before == 0 || now == 0 {
                self.refused_by[node.at()] = refuser;
            }
            self.set_slots(cluster, *node, now);
            if now > 0 && !all_take {
                some_taking.push(*node);
            }
            if now > 0 && before == 0 && changed == NodeChangeKind::Pods {
                some_fresh.push(*node);
            }
        }
        let taking = if all_take { open } else { &*some_taking };
        // A node that took no pods has no marks that could have been kept.
        let fresh = if changed == NodeChangeKind::Shape { taking } else { &*some_fresh };
        // Read for all before the first is written: the processor then waits for memory once, not for each.
        let mut marks = [0; BATCH];
        marks.iter_mut().zip(taking).for_each(|(mark, node)| *mark = self.tree_key_of(*node));
        let mut totals = [0; BATCH];
        self.scores.add_nodes(class, cluster.node_refs(taking), cluster.node_refs(fresh), &mut totals);
        for ((node, before), total) in taking.iter().zip(marks).zip(totals) {
            let mark = tree_key(total);
            if mark != before {
                set(&mut self.tree, *node, mark);
            }
        }
    }

    /// Asks the static filters, and says whether they refuse none of the nodes.
    fn pass_static_filters(&mut self, class: &Class, cluster: &Cluster, nodes: &[NodeIndex]) -> bool {
        let refusers = static_refusers(&self.plugins, class, cluster, nodes);
        nodes.iter().zip(refusers).for_each(|(node, refuser)| self.refused_by[node.at()] = refuser);
        refusers[..nodes.len()].iter().all(|refuser| *refuser == RefusingFilter::NONE)
    }

    /// The nodes that no static filter refuses, as far as was last asked.
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

    /// How many pods a node takes from now on. One that takes some is to be marked.
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
            // Sums of an older version are made anew when they are asked for.
            if let Some(domain) = topology.domain_of(node).filter(|_| topology.version() == sums.version) {
                sums.by_domain[domain.at()] = moved(sums.by_domain[domain.at()]);
            }
        }
    }

    /// Reckons all totals anew where those of nodes that did not change are no longer right.
    fn renormalize_if_needed(&mut self, class: &Class, cluster: &Cluster) -> bool {
        if !self.scores.needs_renormalization() {
            return false;
        }
        let mut marks = vec![0; self.slots.len()];
        let open = cluster.indices().filter(|node| self.slots[node.at()] > 0);
        let told = |node: NodeIndex, total| marks[node.at()] = tree_key(total);
        self.scores.renormalize(class, cluster, batches(open), told);
        self.tree = Tournament::of(&marks);
        true
    }

    /// Everything an index promises about the cluster, in a form two indexes can be compared by.
    #[cfg(test)]
    fn debug_state(&mut self, topologies: &[TopologyId], cluster: &Cluster) -> String {
        let marks: Vec<_> = cluster.indices().map(|node| self.tree_key_of(node)).collect();
        let sums: Vec<_> = topologies.iter().map(|id| self.slots_by_domain(*id, cluster).to_vec()).collect();
        let (best, total, raws) = (self.tree.best(), self.slots_total, self.scores.debug_state());
        format!("{:?} {:?} {total} {raws} {marks:?} {best:?} {sums:?}", self.refused_by, self.slots)
    }

    /// Panics unless this index, having caught up, equals one made anew.
    #[cfg(test)]
    pub(crate) fn assert_fresh(&mut self, class: &Class, cluster: &Cluster) {
        let topologies: Vec<_> = self.sums.iter().map(|sums| sums.topology).collect();
        let fresh = ClassIndex::of(class, Arc::clone(&self.plugins), cluster).debug_state(&topologies, cluster);
        assert_eq!(self.debug_state(&topologies, cluster), fresh);
    }
}

/// The place of a total in the tree; never 0, which means that a node takes no pods.
fn tree_key(total: i64) -> u32 {
    // Negative scores do not exist, but a mark is kept positive whatever comes.
    total.clamp(0, i64::from(i32::MAX)) as u32 + 1
}

/// What filters leave of the nodes of a batch, and which of them leaves nothing.
struct BatchSlots {
    slots: [u32; BATCH],
    refusers: [RefusingFilter; BATCH],
}

impl BatchSlots {
    fn unlimited() -> BatchSlots {
        BatchSlots { slots: [NO_LIMIT; BATCH], refusers: [RefusingFilter::NONE; BATCH] }
    }

    fn refuse(&mut self, at: usize, refuser: RefusingFilter) {
        (self.slots[at], self.refusers[at]) = (0, refuser);
    }

    /// Leaves alone what is kept free. A hold comes last: it says nothing about whether the node would do.
    fn apply_reservation(&mut self, class: &Class, plugins: &Plugins, cluster: &Cluster, nodes: &[NodeIndex]) {
        // How much is kept free of what a filter of somebody's own counts is not known: there nothing may be taken.
        let may_share = plugins.counts_only_usage();
        for (at, node) in nodes.iter().enumerate() {
            let (had, room) = (self.slots[at], cluster.slots_beside_reservation(*node, &class.usage));
            if room < NO_LIMIT && had > 0 {
                self.slots[at] = had.min(room);
                if room == 0 || !may_share {
                    self.refuse(at, RefusingFilter::RESERVATION);
                }
            }
        }
    }

    /// Asks these filters, each with its place in the profile.
    fn apply_filters<'a>(
        &mut self,
        filters: impl Iterator<Item = (usize, &'a Arc<dyn Filter>)>,
        class: &Class,
        nodes: NodeRefs<'_>,
        load: LoadAssumption,
    ) {
        let count = nodes.nodes.len();
        for (place, filter) in filters {
            filter.limit_slots(class, nodes, load, &mut self.slots[..count]);
            // Mostly a filter refuses none of them.
            if !has_zero(&self.slots[..count]) {
                continue;
            }
            for (slots, refuser) in self.slots[..count].iter().zip(&mut self.refusers) {
                if *slots == 0 && *refuser == RefusingFilter::NONE {
                    *refuser = RefusingFilter(place as u8);
                }
            }
        }
    }
}

/// Looks at all of them, which is quicker than to look whether one was found after each.
fn has_zero(slots: &[u32]) -> bool {
    slots.iter().fold(false, |found, slots| found | (*slots == 0))
}

fn static_refusers(
    plugins: &Plugins,
    class: &Class,
    cluster: &Cluster,
    nodes: &[NodeIndex],
) -> [RefusingFilter; BATCH] {
    let mut rooms = BatchSlots::unlimited();
    for (at, node) in nodes.iter().enumerate() {
        if !cluster.node(*node).present {
            rooms.refuse(at, RefusingFilter::ABSENT_NODE);
        }
    }
    rooms.apply_filters(plugins.static_filters(), class, cluster.node_refs(nodes), LoadAssumption::Now);
    rooms.refusers
}
