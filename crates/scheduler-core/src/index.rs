//! Where a class fits, kept up to date: per node the slots, the score and the filter that refuses it.
//!
//! An index catches up from the cluster's dirty log, so a decision pays for what changed and not for the cluster.

use std::sync::Arc;

use crate::classes::Class;
use crate::cluster::{Cluster, NodeIndex, TopologyId};
use crate::filters::{Filter, Load, NO_LIMIT};
use crate::plugins::Plugins;
use crate::reasons::Findings;
use crate::tournament::Tournament;

mod marks; // what scores give to each node
use marks::Marks;

/// The kept answer of all filters and scores for one class.
#[derive(Debug)]
pub(crate) struct KeptIndex {
    plugins: Arc<Plugins>,
    /// Position in the dirty log up to which this has caught up.
    seen: u64,
    /// Which filter refuses, per node.
    refused_by: Vec<Refuser>,
    /// How many more pods of the class fit, per node.
    slots: Vec<u32>,
    slots_total: u64,
    marks: Marks,
    tree: Tournament,
    /// Slots per domain, for each topology key that was asked for.
    sums: Vec<Sums>,
    /// Reasons as last counted; they hold while nothing changes.
    pub(crate) findings: Vec<Findings>,
    /// Slots per node if no pods were there, with the shape of the cluster they belong to.
    empty: Option<(u64, Vec<u32>)>,
}

/// Which filter refuses a node, as its place in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refuser(u8);

impl Refuser {
    /// No filter refuses.
    pub(crate) const NOBODY: Refuser = Refuser(u8::MAX);
    /// There is no such node.
    pub(crate) const ABSENCE: Refuser = Refuser(u8::MAX - 1);
    /// The node is kept free for a unit that has waited for long.
    pub(crate) const HOLD: Refuser = Refuser(u8::MAX - 2);

    /// The filter's place in the list; none when no filter refuses.
    fn filter(self) -> Option<usize> {
        (self.0 < Refuser::HOLD.0).then(|| usize::from(self.0))
    }

    fn is_static(self, plugins: &Plugins) -> bool {
        self == Refuser::ABSENCE || self.filter().is_some_and(|at| plugins.is_static(at))
    }
}

#[derive(Debug)]
struct Sums {
    topology: TopologyId,
    version: u64,
    by_domain: Vec<u64>,
}

impl KeptIndex {
    /// The index made from all nodes.
    pub(crate) fn of(class: &Class, plugins: Arc<Plugins>, cluster: &Cluster) -> KeptIndex {
        let mut index = KeptIndex {
            marks: Marks::new(class, &plugins, cluster),
            plugins,
            seen: cluster.log_end(),
            refused_by: Vec::new(),
            slots: Vec::new(),
            slots_total: 0,
            tree: Tournament::of(std::iter::empty()),
            sums: Vec::new(),
            findings: Vec::new(),
            empty: None,
        };
        index.widen(cluster.width());
        for node in cluster.indices() {
            index.look_at(class, cluster, node, true);
        }
        index.weigh_all();
        index
    }

    /// Takes in what changed since the last look. Says whether all scores were weighed anew.
    pub(crate) fn catch_up(&mut self, class: &Class, cluster: &Cluster) -> bool {
        let touched = match cluster.touched_since(self.seen) {
            Some([]) => return false,
            Some(touched) if touched.len() <= cluster.width().max(64) && self.marks.hold(class, cluster) => touched,
            _ => {
                *self = KeptIndex::of(class, Arc::clone(&self.plugins), cluster);
                return true;
            }
        };
        let narrow = self.slots.len() < cluster.width();
        self.widen(cluster.width());
        self.seen = cluster.log_end();
        self.findings.clear();
        for touch in touched {
            let node = touch.node();
            self.look_at(class, cluster, node, touch.is_shape());
            if self.tree.holds(node.at()) {
                self.tree.set(node.at(), self.key(node));
            }
        }
        let reweigh = narrow || self.marks.are_out_of_proportion();
        if reweigh {
            self.weigh_all();
        }
        reweigh
    }

    /// The node with the highest total score that takes another pod; the first seen among equals.
    pub(crate) fn best(&self) -> Option<NodeIndex> {
        self.tree.best().map(node_of)
    }

    /// Orders nodes as [`best`](Self::best) does; 0 for a node that takes none.
    pub(crate) fn key(&self, node: NodeIndex) -> u64 {
        if self.slots[node.at()] == 0 {
            return 0;
        }
        // Negative scores do not exist, but a total is kept positive whatever comes.
        let total = self.marks.total(node).clamp(0, i64::from(i32::MAX)) as u64;
        (total + 1) << 32 | u64::from(u32::MAX - node.0)
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
        let at = self.sums.iter().position(|sums| sums.topology == topology).unwrap_or_else(|| {
            self.sums.push(Sums { topology, version: u64::MAX, by_domain: Vec::new() });
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
    pub(crate) fn refuser(&self, node: NodeIndex) -> Refuser {
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
        self.marks.points(node, class, cluster)
    }

    /// The sum of all scores of a node that takes pods.
    pub(crate) fn total(&self, node: NodeIndex) -> i64 {
        self.marks.total(node)
    }

    /// How many pods of the class each node would take without any pods on it.
    pub(crate) fn slots_when_empty(&mut self, class: &Class, cluster: &Cluster) -> &[u32] {
        let shape = cluster.shape();
        if self.empty.as_ref().is_none_or(|(seen, _)| *seen != shape) {
            let room = |node: NodeIndex| {
                let refused = self.refused_by[node.at()].is_static(&self.plugins);
                if refused { 0 } else { room(&self.plugins, class, cluster, node, Load::Empty).0 }
            };
            self.empty = Some((shape, cluster.indices().map(room).collect()));
        }
        self.empty.as_ref().map_or(&[], |(_, slots)| slots)
    }

    fn widen(&mut self, width: usize) {
        self.refused_by.resize(width, Refuser::ABSENCE);
        self.slots.resize(width, 0);
        self.marks.widen(width);
    }

    /// Asks the filters and scores about one node: the static ones only if more than its pods changed.
    fn look_at(&mut self, class: &Class, cluster: &Cluster, node: NodeIndex, shape_changed: bool) {
        let at = node.at();
        let before = self.slots[at];
        if before > 0 {
            self.marks.leave(node);
        }
        if shape_changed {
            self.refused_by[at] = static_refuser(&self.plugins, class, cluster, node);
        }
        let mut slots = 0;
        if !self.refused_by[at].is_static(&self.plugins) && self.refused_by[at] != Refuser::HOLD {
            (slots, self.refused_by[at]) = room(&self.plugins, class, cluster, node, Load::Now);
        }
        if slots > 0 {
            // A node that took no pods has no marks that could have been kept.
            self.marks.enter(class, cluster.at(node), shape_changed || before == 0);
        }
        if slots != before {
            self.count(cluster, node, before, slots);
        }
    }

    fn count(&mut self, cluster: &Cluster, node: NodeIndex, before: u32, now: u32) {
        let moved = |sum: u64| sum + u64::from(now) - u64::from(before);
        self.slots[node.at()] = now;
        self.slots_total = moved(self.slots_total);
        for sums in &mut self.sums {
            let topology = cluster.topology(sums.topology);
            // Sums of an older version are made anew when they are asked for.
            if let Some(domain) = topology.domain_of(node).filter(|_| topology.version() == sums.version) {
                sums.by_domain[domain.at()] = moved(sums.by_domain[domain.at()]);
            }
        }
    }

    fn weigh_all(&mut self) {
        self.marks.measure();
        self.tree = Tournament::of((0..self.slots.len()).map(|at| self.key(NodeIndex(at as u32))));
    }

    /// Everything an index promises about the cluster, in a form two indexes can be compared by.
    #[cfg(test)]
    fn facts(&mut self, topologies: &[TopologyId], cluster: &Cluster) -> String {
        let keys: Vec<_> = cluster.indices().map(|node| self.tree.key(node.at())).collect();
        let sums: Vec<_> = topologies.iter().map(|id| self.slots_by_domain(*id, cluster).to_vec()).collect();
        let (best, total) = (self.tree.best(), self.slots_total);
        let scores = self.marks.facts(cluster.indices().filter(|node| self.slots[node.at()] > 0));
        format!("{:?} {:?} {total} {scores} {keys:?} {best:?} {sums:?}", self.refused_by, self.slots)
    }

    /// Panics unless this index, having caught up, equals one made anew.
    #[cfg(test)]
    pub(crate) fn assert_fresh(&mut self, class: &Class, cluster: &Cluster) {
        let topologies: Vec<_> = self.sums.iter().map(|sums| sums.topology).collect();
        let fresh = KeptIndex::of(class, Arc::clone(&self.plugins), cluster).facts(&topologies, cluster);
        assert_eq!(self.facts(&topologies, cluster), fresh);
    }
}

/// The node behind a key.
pub(crate) fn node_of(key: u64) -> NodeIndex {
    NodeIndex(u32::MAX - (key & u64::from(u32::MAX)) as u32)
}

fn static_refuser(plugins: &Plugins, class: &Class, cluster: &Cluster, node: NodeIndex) -> Refuser {
    if !cluster.node(node).present {
        return Refuser::ABSENCE;
    }
    let mut filters = plugins.static_filters();
    let refuser = filters.find(|(_, filter)| filter.room(class, cluster.at(node), Load::Now) == 0);
    // A hold comes last: it says nothing about whether the node would do.
    let unrefused = if cluster.is_held(node) { Refuser::HOLD } else { Refuser::NOBODY };
    refuser.map_or(unrefused, |(at, _)| Refuser(at as u8))
}

/// What the counted filters leave of a node, and which of them leaves nothing.
fn room(plugins: &Plugins, class: &Class, cluster: &Cluster, node: NodeIndex, load: Load) -> (u32, Refuser) {
    let mut slots = NO_LIMIT;
    for (at, filter) in plugins.counted_filters() {
        slots = slots.min(filter.room(class, cluster.at(node), load));
        if slots == 0 {
            return (0, Refuser(at as u8));
        }
    }
    (slots, Refuser::NOBODY)
}
