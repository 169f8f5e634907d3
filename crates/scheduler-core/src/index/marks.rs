//! The scores of each node for one class. Scores that are points by themselves are summed at once. For scores that
//! are normalized by the largest value among feasible nodes, the raw values are stored once one of them is not 0.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{BATCH, batches};
use crate::cluster::{Cluster, NodeIndex, NodeRefs};
use crate::demand::classes::Class;
use crate::plugins::Plugins;
use crate::plugins::filters::PluginKind;
use crate::plugins::scores::{AllNodes, Score, ScoreNormalization};

/// The cached scores of all nodes.
#[derive(Debug)]
pub(super) struct NodeScores {
    /// Points that depend on the pods of a node.
    counted: Vec<WeightedScore>,
    /// Points that depend on the node alone.
    fixed: Vec<WeightedScore>,
    scaled: Vec<NormalizedScore>,
    width: usize,
    /// Weighted sum of `fixed`, per node with slots; empty while all are 0.
    by_node: Vec<i64>,
    /// The shape of the cluster for which the external versions were read.
    shape: u64,
}

/// One number for each node of a batch.
pub(super) type BatchTotals = [i64; BATCH];

/// A score with its weight and its position in the profile.
#[derive(Debug)]
struct WeightedScore {
    score: Arc<dyn Score>,
    weight: i64,
    position: usize,
    /// The version of what it reads beyond the nodes.
    external_version: u64,
}

/// Which scores of unchanged nodes may have changed, because of what they read beyond the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExternalChanges {
    /// Scores that are cached per node.
    pub(super) of_static: bool,
    /// Scores that are computed whenever a node changes.
    pub(super) of_counted: bool,
}

#[derive(Debug)]
struct NormalizedScore {
    by: WeightedScore,
    scale: ScoreNormalization,
    /// Whether its values depend on the node alone.
    is_static: bool,
    /// Raw values per node with slots; empty while all are 0.
    raw: Vec<i64>,
    /// How often each raw value other than zero occurs among those nodes.
    counts: BTreeMap<i64, usize>,
    /// The largest raw value that the totals were computed with.
    largest: i64,
}

impl NodeScores {
    /// No nodes yet.
    pub(super) fn new(class: &Class, plugins: &Plugins, cluster: &Cluster) -> NodeScores {
        let (mut counted, mut fixed, mut scaled) = (Vec::new(), Vec::new(), Vec::new());
        for (position, (score, weight)) in
            plugins.scores.iter().enumerate().filter(|(_, (score, _))| score.applies(class))
        {
            let external_version = score.external_version(class, AllNodes(cluster));
            let by = WeightedScore { score: Arc::clone(score), weight: *weight, position, external_version };
            match (score.normalization(), score.kind()) {
                (ScoreNormalization::Points, PluginKind::Static) => fixed.push(by),
                (ScoreNormalization::Points, _) => counted.push(by),
                (scale, kind) => {
                    let is_static = kind == PluginKind::Static;
                    scaled.push(NormalizedScore {
                        by,
                        scale,
                        is_static,
                        raw: Vec::new(),
                        counts: BTreeMap::new(),
                        largest: 0,
                    });
                }
            }
        }
        NodeScores { counted, fixed, scaled, width: 0, by_node: Vec::new(), shape: cluster.shape() }
    }

    pub(super) fn widen(&mut self, width: usize) {
        self.width = width;
        let raws = self.scaled.iter_mut().map(|scaled| &mut scaled.raw);
        for column in raws.chain([&mut self.by_node]).filter(|column| !column.is_empty()) {
            column.resize(width, 0);
        }
    }

    /// Which values are no longer valid for nodes that did not change.
    pub(super) fn external_changes(&mut self, class: &Class, cluster: &Cluster) -> ExternalChanges {
        let mut changes = ExternalChanges::default();
        if std::mem::replace(&mut self.shape, cluster.shape()) == self.shape {
            return changes;
        }
        let counted = self.counted.iter_mut().map(|by| (by, false));
        let fixed = self.fixed.iter_mut().map(|by| (by, true));
        let scaled = self.scaled.iter_mut().map(|scaled| (&mut scaled.by, scaled.is_static));
        for (by, is_static) in counted.chain(fixed).chain(scaled) {
            let version = by.score.external_version(class, AllNodes(cluster));
            let changed = std::mem::replace(&mut by.external_version, version) != version;
            *(if is_static { &mut changes.of_static } else { &mut changes.of_counted }) |= changed;
        }
        changes
    }

    /// Of nodes with slots, those whose cached scores are outdated.
    pub(super) fn outdated(&self, class: &Class, nodes: NodeRefs<'_>, mut report: impl FnMut(NodeIndex)) {
        let mut is_outdated = [false; BATCH];
        let mut compare = |column: &[i64], values: &BatchTotals| {
            for ((node, value), is_outdated) in nodes.nodes.iter().zip(values).zip(&mut is_outdated) {
                *is_outdated |= column.get(node.at()).copied().unwrap_or(0) != *value;
            }
        };
        let mut sums = [0; BATCH];
        sum_scores(&self.fixed, class, nodes, &mut sums);
        compare(&self.by_node, &sums);
        for scaled in self.scaled.iter().filter(|scaled| scaled.is_static) {
            let mut raws = [0; BATCH];
            scaled.by.score.add_weighted(class, nodes, 1, &mut raws[..nodes.nodes.len()]);
            compare(&scaled.raw, &raws);
        }
        nodes.nodes.iter().zip(is_outdated).filter(|(_, is_outdated)| *is_outdated).for_each(|(node, _)| report(*node));
    }

    /// Scores nodes with slots, and adds up their totals. Static scores are computed for the `new` nodes among them
    /// and cached for the others.
    pub(super) fn add_nodes(
        &mut self,
        class: &Class,
        nodes: NodeRefs<'_>,
        new: NodeRefs<'_>,
        totals: &mut BatchTotals,
    ) {
        if !self.fixed.is_empty() && !new.nodes.is_empty() {
            let mut sums = [0; BATCH];
            sum_scores(&self.fixed, class, new, &mut sums);
            write_column(&mut self.by_node, new.nodes, &sums, self.width);
        }
        for scaled in &mut self.scaled {
            scaled.add_nodes(class, nodes, if scaled.is_static { new } else { nodes }, self.width);
        }
        self.add_points(class, nodes, totals);
        self.scale(nodes.nodes, totals);
    }

    /// Removes nodes that had slots, because they may have none now, or other scores.
    pub(super) fn remove_nodes(&mut self, nodes: impl Iterator<Item = NodeIndex> + Clone) {
        for scaled in self.scaled.iter_mut().filter(|scaled| !scaled.raw.is_empty()) {
            nodes.clone().for_each(|node| scaled.remove_node(node));
        }
    }

    /// Whether the largest raw values differ from those that the totals were computed with.
    pub(super) fn needs_renormalization(&self) -> bool {
        self.scaled.iter().any(|scaled| scaled.largest != scaled.largest_now())
    }

    /// Computes totals with the current largest raw values, where they make a difference. `with_slots` are all nodes with
    /// slots, and `set_total` receives the totals.
    pub(super) fn renormalize(
        &mut self,
        class: &Class,
        cluster: &Cluster,
        with_slots: impl Iterator<Item = NodeIndex>,
        mut set_total: impl FnMut(NodeIndex, i64),
    ) {
        let changed: Vec<bool> = self.scaled.iter().map(|scaled| scaled.largest != scaled.largest_now()).collect();
        self.scaled.iter_mut().for_each(|scaled| scaled.largest = scaled.largest_now());
        // A raw value of 0 has the same points whatever the largest is.
        let scaled = || self.scaled.iter().zip(&changed).filter(|(_, changed)| **changed);
        let is_affected = |node: &NodeIndex| scaled().any(|(scaled, _)| scaled.raw_of(*node) != 0);
        for batch in batches(with_slots.filter(is_affected)) {
            let mut totals = [0; BATCH];
            self.add_points(class, cluster.node_refs(&batch), &mut totals);
            self.scale(&batch, &mut totals);
            batch.iter().zip(totals).for_each(|(node, total)| set_total(*node, total));
        }
    }

    /// The weighted points of each score, by its position in the profile.
    pub(super) fn points(&self, node: NodeIndex, class: &Class, cluster: &Cluster) -> Vec<(usize, i64)> {
        let unscaled = self.counted.iter().chain(&self.fixed);
        let mut points: Vec<_> =
            unscaled.map(|by| (by.position, by.weight * by.score.raw(class, cluster.node_ref(node)))).collect();
        points.extend(self.scaled.iter().map(|scaled| (scaled.by.position, scaled.weighted_points(node))));
        points.sort_unstable();
        points
    }

    /// The size of the columns in bytes.
    pub(super) fn bytes(&self) -> usize {
        let raws: usize = self.scaled.iter().map(|scaled| scaled.raw.capacity()).sum();
        (raws + self.by_node.capacity()) * size_of::<i64>()
    }

    /// What is guaranteed about raw values, in a form that two can be compared by.
    #[cfg(test)]
    pub(super) fn debug_state(&self) -> String {
        let scaled: Vec<_> = self.scaled.iter().map(|scaled| (&scaled.counts, scaled.largest)).collect();
        format!("{scaled:?}")
    }

    /// Adds all scores that are points by themselves.
    fn add_points(&self, class: &Class, nodes: NodeRefs<'_>, totals: &mut BatchTotals) {
        sum_scores(&self.counted, class, nodes, totals);
        if !self.by_node.is_empty() {
            nodes.nodes.iter().zip(totals).for_each(|(node, sum)| *sum += self.by_node[node.at()]);
        }
    }

    /// Adds the points of normalized scores.
    fn scale(&self, nodes: &[NodeIndex], totals: &mut BatchTotals) {
        for scaled in &self.scaled {
            if scaled.raw.is_empty() {
                let everywhere = scaled.by.weight * scaled.scale.points(0, scaled.largest);
                totals[..nodes.len()].iter_mut().for_each(|total| *total += everywhere);
            } else {
                nodes.iter().zip(&mut *totals).for_each(|(node, total)| *total += scaled.weighted_points(*node));
            }
        }
    }
}

impl NormalizedScore {
    fn add_nodes(&mut self, class: &Class, nodes: NodeRefs<'_>, changed: NodeRefs<'_>, width: usize) {
        if !changed.nodes.is_empty() {
            let mut raws = [0; BATCH];
            self.by.score.add_weighted(class, changed, 1, &mut raws[..changed.nodes.len()]);
            write_column(&mut self.raw, changed.nodes, &raws, width);
        }
        if !self.raw.is_empty() {
            for raw in nodes.nodes.iter().map(|node| self.raw[node.at()]).filter(|raw| *raw != 0) {
                *self.counts.entry(raw).or_default() += 1;
            }
        }
    }

    fn remove_node(&mut self, node: NodeIndex) {
        let raw = self.raw[node.at()];
        if raw != 0 {
            let count = self.counts.get_mut(&raw).expect("a removed value was counted");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&raw);
            }
        }
    }

    fn raw_of(&self, node: NodeIndex) -> i64 {
        self.raw.get(node.at()).copied().unwrap_or(0)
    }

    fn weighted_points(&self, node: NodeIndex) -> i64 {
        self.by.weight * self.scale.points(self.raw_of(node), self.largest)
    }

    fn largest_now(&self) -> i64 {
        self.counts.last_key_value().map_or(0, |(value, _)| (*value).max(0))
    }
}

/// Writes values of nodes into a column that is empty while all values are 0.
fn write_column(column: &mut Vec<i64>, nodes: &[NodeIndex], values: &BatchTotals, width: usize) {
    let has_any = values[..nodes.len()].iter().fold(0, |all, value| all | value) != 0;
    if column.is_empty() && has_any {
        column.resize(width, 0);
    }
    if !column.is_empty() {
        nodes.iter().zip(values).for_each(|(node, value)| column[node.at()] = *value);
    }
}

fn sum_scores(scores: &[WeightedScore], class: &Class, nodes: NodeRefs<'_>, sums: &mut BatchTotals) {
    for by in scores {
        by.score.add_weighted(class, nodes, by.weight, &mut sums[..nodes.nodes.len()]);
    }
}
