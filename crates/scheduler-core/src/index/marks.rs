//! What scores give to each node for one class: sums of those that are points by themselves, raw values of those that
//! are scaled by the largest among feasible nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::classes::Class;
use crate::cluster::{Cluster, NodeIndex, NodeRef};
use crate::filters::Kind;
use crate::plugins::Plugins;
use crate::scores::{Nodes, Scale, Score};

/// The kept marks of all nodes.
#[derive(Debug)]
pub(super) struct Marks {
    /// Points that depend on the pods of a node.
    counted: Vec<Weighed>,
    /// Points that depend on the node alone.
    fixed: Vec<Weighed>,
    scaled: Vec<Scaled>,
    /// Weighted sum of `counted`, per node that takes pods.
    by_usage: Vec<i64>,
    /// The same of `fixed`; empty when there are none.
    by_node: Vec<i64>,
    /// What the scores saw beyond the nodes, and in which shape of the cluster.
    beyond: u64,
    shape: u64,
}

/// A score with its weight and its place in the profile.
#[derive(Debug)]
struct Weighed {
    score: Arc<dyn Score>,
    weight: i64,
    place: usize,
}

#[derive(Debug)]
struct Scaled {
    by: Weighed,
    scale: Scale,
    /// Whether only the node itself reaches its values.
    is_static: bool,
    /// Raw values per node that takes pods.
    raw: Vec<i64>,
    /// How often each raw value other than zero occurs among those nodes.
    counts: BTreeMap<i64, usize>,
    /// The largest raw value that totals are reckoned with.
    largest: i64,
}

impl Marks {
    /// No nodes yet.
    pub(super) fn new(class: &Class, plugins: &Plugins, cluster: &Cluster) -> Marks {
        let (mut counted, mut fixed, mut scaled) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (score, weight)) in plugins.scores.iter().enumerate().filter(|(_, (score, _))| score.applies(class))
        {
            let by = Weighed { score: Arc::clone(score), weight: *weight, place };
            match (score.scale(), score.kind()) {
                (Scale::Points, Kind::Static) => fixed.push(by),
                (Scale::Points, _) => counted.push(by),
                (scale, kind) => {
                    let is_static = kind == Kind::Static;
                    scaled.push(Scaled { by, scale, is_static, raw: Vec::new(), counts: BTreeMap::new(), largest: 0 });
                }
            }
        }
        let mut marks = Marks {
            counted,
            fixed,
            scaled,
            by_usage: Vec::new(),
            by_node: Vec::new(),
            beyond: 0,
            shape: cluster.shape(),
        };
        marks.beyond = marks.beyond_the_nodes(class, cluster);
        marks
    }

    pub(super) fn widen(&mut self, width: usize) {
        self.by_usage.resize(width, 0);
        if !self.fixed.is_empty() {
            self.by_node.resize(width, 0);
        }
        for scaled in &mut self.scaled {
            scaled.raw.resize(width, 0);
        }
    }

    /// Whether what is kept still holds for nodes that did not change. If not, all must be made anew.
    pub(super) fn hold(&mut self, class: &Class, cluster: &Cluster) -> bool {
        if std::mem::replace(&mut self.shape, cluster.shape()) == self.shape {
            return true;
        }
        self.beyond == self.beyond_the_nodes(class, cluster)
    }

    /// Marks a node that takes pods. Marks that depend on the node alone are kept unless it changed.
    pub(super) fn enter(&mut self, class: &Class, node: NodeRef<'_>, node_changed: bool) {
        let at = node.index.at();
        self.by_usage[at] = sum(&self.counted, class, node);
        if node_changed && !self.fixed.is_empty() {
            self.by_node[at] = sum(&self.fixed, class, node);
        }
        for scaled in &mut self.scaled {
            if node_changed || !scaled.is_static {
                scaled.raw[at] = scaled.by.score.raw(class, node);
            }
            if scaled.raw[at] != 0 {
                *scaled.counts.entry(scaled.raw[at]).or_default() += 1;
            }
        }
    }

    /// A node that took pods may no longer, or has other marks.
    pub(super) fn leave(&mut self, node: NodeIndex) {
        for scaled in &mut self.scaled {
            let raw = scaled.raw[node.at()];
            if raw != 0 {
                let count = scaled.counts.get_mut(&raw).expect("a counted value leaves");
                *count -= 1;
                if *count == 0 {
                    scaled.counts.remove(&raw);
                }
            }
        }
    }

    /// Whether the largest raw values are others than those that totals are reckoned with.
    pub(super) fn are_out_of_proportion(&self) -> bool {
        self.scaled.iter().any(|scaled| scaled.largest != scaled.largest_now())
    }

    /// From now on totals are reckoned with the largest raw values there are.
    pub(super) fn measure(&mut self) {
        for scaled in &mut self.scaled {
            scaled.largest = scaled.largest_now();
        }
    }

    /// The weighted sum of all scores of a node that takes pods.
    pub(super) fn total(&self, node: NodeIndex) -> i64 {
        let at = node.at();
        let mut total = self.by_usage[at] + self.by_node.get(at).copied().unwrap_or(0);
        for scaled in &self.scaled {
            total += scaled.by.weight * scaled.scale.points(scaled.raw[at], scaled.largest);
        }
        total
    }

    /// The weighted points of each score, by its place in the profile.
    pub(super) fn points(&self, node: NodeIndex, class: &Class, cluster: &Cluster) -> Vec<(usize, i64)> {
        let single = self.counted.iter().chain(&self.fixed);
        let mut points: Vec<_> =
            single.map(|by| (by.place, by.weight * by.score.raw(class, cluster.at(node)))).collect();
        points.extend(self.scaled.iter().map(|scaled| {
            (scaled.by.place, scaled.by.weight * scaled.scale.points(scaled.raw[node.at()], scaled.largest))
        }));
        points.sort_unstable();
        points
    }

    /// What is promised about these nodes, in a form two can be compared by.
    #[cfg(test)]
    pub(super) fn facts(&self, nodes: impl Iterator<Item = NodeIndex>) -> String {
        let totals: Vec<_> = nodes.map(|node| (node, self.total(node))).collect();
        let scaled: Vec<_> = self.scaled.iter().map(|scaled| (&scaled.counts, scaled.largest)).collect();
        format!("{totals:?} {scaled:?}")
    }

    fn beyond_the_nodes(&self, class: &Class, cluster: &Cluster) -> u64 {
        let scores = self.counted.iter().chain(&self.fixed).chain(self.scaled.iter().map(|scaled| &scaled.by));
        let seen = scores.map(|by| by.score.beyond_the_node(class, Nodes(cluster)));
        seen.fold(0, |mixed: u64, one| mixed.rotate_left(7) ^ one)
    }
}

impl Scaled {
    fn largest_now(&self) -> i64 {
        self.counts.last_key_value().map_or(0, |(value, _)| (*value).max(0))
    }
}

fn sum(scores: &[Weighed], class: &Class, node: NodeRef<'_>) -> i64 {
    scores.iter().map(|by| by.weight * by.score.raw(class, node)).sum()
}
