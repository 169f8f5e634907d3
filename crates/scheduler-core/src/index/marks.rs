//! What scores give to each node for one class. Those that are points by themselves are summed at once; of those that
//! are scaled by the largest value among feasible nodes the raw values are kept, as soon as one of them is not 0.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{BATCH, Batch};
use crate::classes::Class;
use crate::cluster::{Cluster, NodeIndex, NodeRefs};
use crate::filters::PluginKind;
use crate::plugins::Plugins;
use crate::scores::{AllNodes, Score, ScoreNormalization};

/// The kept marks of all nodes.
#[derive(Debug)]
pub(super) struct NodeScores {
    /// Points that depend on the pods of a node.
    counted: Vec<WeightedScore>,
    /// Points that depend on the node alone.
    fixed: Vec<WeightedScore>,
    scaled: Vec<NormalizedScore>,
    width: usize,
    /// Weighted sum of `fixed`, per node that takes pods; empty as long as all are 0.
    by_node: Vec<i64>,
    /// Weighted sum of `counted` and `fixed`, per node that takes pods. Empty until it is needed to weigh nodes anew.
    points: Vec<i64>,
    /// What the scores saw beyond the nodes, and in which shape of the cluster.
    external_version: u64,
    shape: u64,
}

/// One number for each node of a batch.
pub(super) type BatchTotals = [i64; BATCH];

/// A score with its weight and its place in the profile.
#[derive(Debug)]
struct WeightedScore {
    score: Arc<dyn Score>,
    weight: i64,
    place: usize,
}

#[derive(Debug)]
struct NormalizedScore {
    by: WeightedScore,
    scale: ScoreNormalization,
    /// Whether only the node itself reaches its values.
    is_static: bool,
    /// Raw values per node that takes pods; empty as long as all are 0.
    raw: Vec<i64>,
    /// How often each raw value other than zero occurs among those nodes.
    counts: BTreeMap<i64, usize>,
    /// The largest raw value that totals are reckoned with.
    largest: i64,
}

impl NodeScores {
    /// No nodes yet.
    pub(super) fn new(class: &Class, plugins: &Plugins, cluster: &Cluster) -> NodeScores {
        let (mut counted, mut fixed, mut scaled) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (score, weight)) in plugins.scores.iter().enumerate().filter(|(_, (score, _))| score.applies(class))
        {
            let by = WeightedScore { score: Arc::clone(score), weight: *weight, place };
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
        let mut marks = NodeScores {
            counted,
            fixed,
            scaled,
            width: 0,
            by_node: Vec::new(),
            points: Vec::new(),
            external_version: 0,
            shape: cluster.shape(),
        };
        marks.external_version = marks.external_version(class, cluster);
        marks
    }

    pub(super) fn widen(&mut self, width: usize) {
        self.width = width;
        let raws = self.scaled.iter_mut().map(|scaled| &mut scaled.raw);
        for column in raws.chain([&mut self.by_node, &mut self.points]).filter(|column| !column.is_empty()) {
            column.resize(width, 0);
        }
    }

    /// Whether what is kept still holds for nodes that did not change. If not, all must be made anew.
    pub(super) fn is_valid(&mut self, class: &Class, cluster: &Cluster) -> bool {
        if std::mem::replace(&mut self.shape, cluster.shape()) == self.shape {
            return true;
        }
        self.external_version == self.external_version(class, cluster)
    }

    /// Marks nodes that take pods, and adds up their totals. What depends on a node alone is asked of the `fresh` among
    /// them, and kept of the others.
    pub(super) fn add_nodes(
        &mut self,
        class: &Class,
        nodes: NodeRefs<'_>,
        fresh: NodeRefs<'_>,
        totals: &mut BatchTotals,
    ) {
        if !self.fixed.is_empty() && !fresh.nodes.is_empty() {
            let mut sums = [0; BATCH];
            sum_scores(&self.fixed, class, fresh, &mut sums);
            write_column(&mut self.by_node, fresh.nodes, &sums, self.width);
        }
        for scaled in &mut self.scaled {
            scaled.add_nodes(class, nodes, if scaled.is_static { fresh } else { nodes }, self.width);
        }
        self.add_points(class, nodes, totals);
        self.scale(nodes.nodes, totals);
    }

    /// Nodes that took pods may no longer, or have other marks.
    pub(super) fn remove_nodes(&mut self, nodes: impl Iterator<Item = NodeIndex> + Clone) {
        for scaled in self.scaled.iter_mut().filter(|scaled| !scaled.raw.is_empty()) {
            nodes.clone().for_each(|node| scaled.remove_node(node));
        }
    }

    /// Whether the largest raw values are others than those that totals are reckoned with.
    pub(super) fn needs_renormalization(&self) -> bool {
        self.scaled.iter().any(|scaled| scaled.largest != scaled.largest_now())
    }

    /// From now on totals are reckoned with the largest raw values there are. `batches` are all nodes that take pods,
    /// and `told` gets their totals.
    pub(super) fn renormalize(
        &mut self,
        class: &Class,
        cluster: &Cluster,
        batches: impl Iterator<Item = Batch>,
        mut told: impl FnMut(NodeIndex, i64),
    ) {
        self.scaled.iter_mut().for_each(|scaled| scaled.largest = scaled.largest_now());
        let are_kept = !self.points.is_empty();
        self.points.resize(self.width, 0);
        for batch in batches {
            let mut totals = [0; BATCH];
            if are_kept {
                batch.iter().zip(&mut totals).for_each(|(node, total)| *total = self.points[node.at()]);
            } else {
                self.add_points(class, cluster.node_refs(&batch), &mut totals);
            }
            self.scale(&batch, &mut totals);
            batch.iter().zip(totals).for_each(|(node, total)| told(*node, total));
        }
    }

    /// The weighted points of each score, by its place in the profile.
    pub(super) fn points(&self, node: NodeIndex, class: &Class, cluster: &Cluster) -> Vec<(usize, i64)> {
        let single = self.counted.iter().chain(&self.fixed);
        let mut points: Vec<_> =
            single.map(|by| (by.place, by.weight * by.score.raw(class, cluster.node_ref(node)))).collect();
        points.extend(self.scaled.iter().map(|scaled| (scaled.by.place, scaled.weighted_points(node))));
        points.sort_unstable();
        points
    }

    /// How many bytes the columns take.
    pub(super) fn bytes(&self) -> usize {
        let raws: usize = self.scaled.iter().map(|scaled| scaled.raw.capacity()).sum();
        (raws + self.by_node.capacity() + self.points.capacity()) * size_of::<i64>()
    }

    /// What is promised about raw values, in a form two can be compared by.
    #[cfg(test)]
    pub(super) fn debug_state(&self) -> String {
        let scaled: Vec<_> = self.scaled.iter().map(|scaled| (&scaled.counts, scaled.largest)).collect();
        format!("{scaled:?}")
    }

    /// Adds all scores that are points by themselves.
    fn add_points(&mut self, class: &Class, nodes: NodeRefs<'_>, totals: &mut BatchTotals) {
        sum_scores(&self.counted, class, nodes, totals);
        if !self.by_node.is_empty() {
            nodes.nodes.iter().zip(&mut *totals).for_each(|(node, sum)| *sum += self.by_node[node.at()]);
        }
        if !self.points.is_empty() {
            nodes.nodes.iter().zip(totals).for_each(|(node, sum)| self.points[node.at()] = *sum);
        }
    }

    /// Adds the points of scaled scores.
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

    fn external_version(&self, class: &Class, cluster: &Cluster) -> u64 {
        let scores = self.counted.iter().chain(&self.fixed).chain(self.scaled.iter().map(|scaled| &scaled.by));
        let seen = scores.map(|by| by.score.external_version(class, AllNodes(cluster)));
        seen.fold(0, |mixed: u64, one| mixed.rotate_left(7) ^ one)
    }
}

impl NormalizedScore {
    fn add_nodes(&mut self, class: &Class, nodes: NodeRefs<'_>, asked: NodeRefs<'_>, width: usize) {
        if !asked.nodes.is_empty() {
            let mut raws = [0; BATCH];
            self.by.score.add_weighted(class, asked, 1, &mut raws[..asked.nodes.len()]);
            write_column(&mut self.raw, asked.nodes, &raws, width);
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
            let count = self.counts.get_mut(&raw).expect("a counted value leaves");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&raw);
            }
        }
    }

    fn weighted_points(&self, node: NodeIndex) -> i64 {
        let raw = self.raw.get(node.at()).copied().unwrap_or(0);
        self.by.weight * self.scale.points(raw, self.largest)
    }

    fn largest_now(&self) -> i64 {
        self.counts.last_key_value().map_or(0, |(value, _)| (*value).max(0))
    }
}

/// Writes values of nodes into a column that is empty as long as all are 0.
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
