//! Why pods are on their nodes: which domains and nodes were feasible, and what the chosen ones had over the next
//! best.
//!
//! The report is computed on the current cluster with the pods removed from their nodes. Right after the decision
//! that is what the decision was based on; later, other pods may have come and gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::Timestamp;

use crate::cluster::removal_overlay::{PlacedUsages, RemovalOverlay};
use crate::cluster::{Cluster, NodeIndex, OccupiedDomains, TopologyId};
use crate::decision::{ChosenDomain, Unit};
use crate::demand::classes::{ClassId, Classes};
use crate::demand::{ClassCount, Demand, DomainConstraint, UnitPolicy};
use crate::index::ClassIndex;
use crate::placement::domains::{Domains, RankedDomain, Region};

/// How many of the chosen nodes are listed with their points.
const MAX_NODES: usize = 5;

/// Why the pods of a unit are on their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementReport {
    /// The number of pods.
    pub pods_count: usize,
    /// Why this domain, for a group with a topology key.
    pub domain: Option<DomainChoice>,
    /// The domain that all pods of the group must share.
    pub within: Option<ChosenDomain>,
    /// The chosen nodes with the highest scores, for pods of every class: those of the class with the most pods
    /// first.
    pub nodes: Vec<NodeChoice>,
    /// The number of chosen nodes.
    pub nodes_count: usize,
    /// How many nodes were feasible for one of the pods.
    pub feasible_count: usize,
    /// The best node that was not chosen.
    pub next_best: Option<NodeChoice>,
    /// The score by which the best chosen node is most ahead of the next best; none if it is not ahead.
    pub decided_by: Option<String>,
    /// When the report was computed, if right after the decision. Otherwise it describes the current cluster.
    pub recorded_at: Option<Timestamp>,
}

/// The chosen domain compared with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainChoice {
    /// The topology key.
    pub key: String,
    /// The chosen value.
    pub value: String,
    /// How well the pods fit there.
    pub fit: DomainFit,
    /// The number of domains.
    pub domains_count: usize,
    /// In how many of them all these pods fit.
    pub feasible_count: usize,
    /// The next best.
    pub next_best: Option<NextDomain>,
}

/// The best domain that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextDomain {
    /// Its label value.
    pub value: String,
    /// How well the pods fit there.
    pub fit: DomainFit,
    /// Whether it would be chosen now.
    pub is_preferred: bool,
}

/// The criteria of domains: more pods of the group, then fewer slots left over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainFit {
    /// How many of the pods fit.
    pub fits_count: u64,
    /// How many slots are left over.
    pub spare_count: u64,
}

/// A node and its scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChoice {
    /// The node.
    pub node: String,
    /// How many of the pods are on it.
    pub pods_count: usize,
    /// The sum of its points; 0 if no such pod fits any more.
    pub total: i64,
    /// The weighted points of each score that applies.
    pub points: Vec<(String, i64)>,
}

impl PlacementReport {
    /// As text, one line each.
    pub fn lines(&self, unit: &Unit) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(domain) = &self.domain {
            lines.push(domain.text(self.pods_count));
        }
        let pods = if self.pods_count == 1 { "1 pod".to_owned() } else { format!("{} pods", self.pods_count) };
        let region = self.within.as_ref().map(|domain| format!(" in {}", domain.text())).unwrap_or_default();
        let feasible = match self.feasible_count {
            1 => format!("1 node{region} was feasible"),
            count => format!("{count} nodes{region} were feasible"),
        };
        let is_one_node = matches!(unit, Unit::Pod(_)) || self.nodes_count == 1;
        lines.push(match self.nodes.first() {
            Some(node) if is_one_node => format!("{pods} on node {}; {feasible}", node.node),
            _ => format!("{pods} on {} nodes; {feasible}", self.nodes_count),
        });
        lines.extend(self.nodes.iter().map(|node| format!("  {}", node.text())));
        lines.extend(self.next_best.as_ref().map(|next| format!("  {}", self.next_best_text(next))));
        lines.push(match self.recorded_at {
            Some(_) => "recorded right after the decision".to_owned(),
            None => "computed on the current cluster".to_owned(),
        });
        lines
    }
}

impl PlacementReport {
    /// What the best node that was not chosen lacks, or has over the chosen ones.
    fn next_best_text(&self, next: &NodeChoice) -> String {
        let best = self.nodes.first().map_or(i64::MIN, |best| best.total);
        if next.total > best {
            let reason = match self.recorded_at {
                Some(_) => "all pods had to fit together",
                None => "the cluster has changed since they were placed",
            };
            return format!("scores higher, but was not chosen: {}; {reason}", next.text());
        }
        let reason = match &self.decided_by {
            Some(plugin) if next.total < best => format!("{plugin} made the difference"),
            _ => "equal scores: the node observed first is chosen".to_owned(),
        };
        format!("next best: {}; {reason}", next.text())
    }
}

impl DomainChoice {
    fn text(&self, pods_count: usize) -> String {
        let DomainChoice { key, value, fit, domains_count, feasible_count, next_best } = self;
        let next = next_best.as_ref().map(|next| {
            let rank = if next.is_preferred { "would be chosen now" } else { "next best" };
            format!("; {rank}: {} ({})", next.value, next.fit.text())
        });
        format!(
            "in {key}={value}: {feasible_count} of {domains_count} domains had capacity for all {pods_count}; chosen: {}{}",
            fit.text(),
            next.unwrap_or_default()
        )
    }
}

impl DomainFit {
    fn text(self) -> String {
        format!("{} of the pods fit, {} slots left over", self.fits_count, self.spare_count)
    }
}

impl NodeChoice {
    fn text(&self) -> String {
        let pods = match self.pods_count {
            0 => String::new(),
            1 => ", 1 pod".to_owned(),
            count => format!(", {count} pods"),
        };
        let nonzero = self.points.iter().filter(|(_, points)| *points != 0);
        let points: Vec<String> = nonzero.map(|(name, points)| format!("{name} {points}")).collect();
        let points = if points.is_empty() { String::new() } else { format!(" ({})", points.join(", ")) };
        format!("{}{pods}: score {}{points}", self.node, self.total)
    }
}

/// The nodes of the placed pods of one class.
pub(crate) struct PlacedClass {
    pub(crate) class: ClassId,
    pub(crate) nodes: Vec<NodeIndex>,
}

/// Computes why pods are on their nodes. `topology`: the key of the domain they must share, which was chosen with
/// `coming_count` more pods in mind. `usages` are the same pods with their usage. Changes nothing.
pub(crate) fn build(
    unit: &Unit,
    classes_placed: &[PlacedClass],
    usages: &PlacedUsages,
    (topology, coming_count): (Option<TopologyId>, usize),
    cluster: &mut Cluster,
    classes: &mut Classes,
) -> Option<PlacementReport> {
    let largest = classes_placed.iter().min_by_key(|placed| std::cmp::Reverse(placed.nodes.len()))?;
    let mut overlay = RemovalOverlay::of(usages, cluster);
    let cluster = &*overlay.cluster();
    let region = topology.and_then(|topology| {
        let domain = cluster.topology(topology).domain_of(*largest.nodes.first()?)?;
        Some(Region::Domain(topology, domain))
    });
    let domain =
        region.and_then(|region| domain_choice(unit, classes_placed, (region, coming_count), cluster, classes));
    let (class, index) = classes.with_current_index(largest.class, cluster);
    let mut counts: BTreeMap<NodeIndex, usize> = BTreeMap::new();
    classes_placed.iter().flat_map(|placed| &placed.nodes).for_each(|node| *counts.entry(*node).or_default() += 1);
    let region = region.unwrap_or(Region::Everywhere);
    let feasible: Vec<NodeIndex> =
        cluster.indices().filter(|node| region.contains(*node, cluster) && index.slots(*node) > 0).collect();
    let others = feasible.iter().filter(|node| !counts.contains_key(node));
    let next_best = others.max_by_key(|node| index.key(**node)).map(|node| choice(*node, 0, class, index, cluster));
    let feasible_count = feasible.len();
    let nodes = chosen_nodes(classes_placed, &counts, cluster, classes);
    Some(PlacementReport {
        pods_count: classes_placed.iter().map(|placed| placed.nodes.len()).sum(),
        domain,
        within: region.chosen_domain(cluster),
        decided_by: nodes.first().zip(next_best.as_ref()).and_then(|(best, next)| deciding_score(best, next)),
        nodes,
        nodes_count: counts.len(),
        feasible_count,
        next_best,
        recorded_at: None,
    })
}

/// The chosen nodes with the highest scores, each scored for one class of pods. The classes alternate, the one with
/// the most pods first, so that the node of a leader is listed beside those of many workers.
fn chosen_nodes(
    classes_placed: &[PlacedClass],
    counts: &BTreeMap<NodeIndex, usize>,
    cluster: &Cluster,
    classes: &mut Classes,
) -> Vec<NodeChoice> {
    let mut by_count: Vec<&PlacedClass> = classes_placed.iter().collect();
    by_count.sort_by_key(|placed| std::cmp::Reverse(placed.nodes.len()));
    let ranked = by_count.iter().map(|placed| {
        let (_, index) = classes.with_current_index(placed.class, cluster);
        let mut nodes = placed.nodes.clone();
        nodes.sort_by_key(|node| (std::cmp::Reverse(index.key(*node)), *node));
        nodes.dedup();
        nodes
    });
    let ranked: Vec<Vec<NodeIndex>> = ranked.collect();
    let rounds = ranked.iter().map(Vec::len).max().unwrap_or(0);
    let candidates = (0..rounds).flat_map(|round| (0..ranked.len()).map(move |class| (class, round)));
    let mut listed: Vec<(usize, usize, NodeIndex)> = Vec::new();
    for (class, round) in candidates {
        let new = ranked[class].get(round).filter(|node| listed.iter().all(|(_, _, other)| other != *node));
        listed.extend(new.map(|node| (class, round, *node)));
        if listed.len() == MAX_NODES {
            break;
        }
    }
    listed.sort_unstable();
    let choices = listed.into_iter().map(|(class, _, node)| {
        let (class, index) = classes.with_current_index(by_count[class].class, cluster);
        choice(node, counts[&node], class, index, cluster)
    });
    choices.collect()
}

fn domain_choice(
    unit: &Unit,
    classes_placed: &[PlacedClass],
    (region, coming_count): (Region, usize),
    cluster: &Cluster,
    classes: &mut Classes,
) -> Option<DomainChoice> {
    let Region::Domain(topology, _) = region else { return None };
    let pods_count = classes_placed.iter().map(|placed| placed.nodes.len()).sum();
    let constraint = DomainConstraint::with_members(topology, OccupiedDomains::default(), cluster);
    let class_count = |placed: &PlacedClass| ClassCount { class: placed.class, count: placed.nodes.len() };
    let demand = Demand {
        unit: unit.clone(),
        policy: UnitPolicy::Gang { min_count: pods_count },
        class_counts: classes_placed.iter().map(class_count).collect(),
        placed_count: 0,
        expected_later_count: coming_count,
        constraint: Some(constraint),
    };
    let domains = Domains::of(&demand, cluster, classes);
    let fit = |ranked: &RankedDomain| DomainFit { fits_count: ranked.fits_count, spare_count: ranked.spare.0 };
    let own = domains.all().find(|ranked| ranked.region == region)?;
    let next_best = domains.all().filter(|ranked| ranked.region != region && ranked.fits_count > 0).max();
    Some(DomainChoice {
        key: cluster.names.text(cluster.topology(topology).key()).to_string(),
        value: own.value().to_owned(),
        fit: fit(own),
        domains_count: domains.all().len(),
        feasible_count: domains.all().filter(|ranked| ranked.takes(pods_count)).count(),
        next_best: next_best.map(|next| NextDomain {
            value: next.value().to_owned(),
            fit: fit(next),
            is_preferred: next > own,
        }),
    })
}

fn choice(
    node: NodeIndex,
    pods_count: usize,
    class: &Arc<crate::demand::classes::Class>,
    index: &ClassIndex,
    cluster: &Cluster,
) -> NodeChoice {
    let has_slots = index.slots(node) > 0;
    let points = if has_slots { index.points(node, class, cluster) } else { Vec::new() };
    let name = |position: usize| index.plugins().scores[position].0.name().to_owned();
    NodeChoice {
        node: cluster.node_name(node).to_owned(),
        pods_count,
        total: if has_slots { index.total(node) } else { 0 },
        points: points.into_iter().map(|(position, points)| (name(position), points)).collect(),
    }
}

/// The score by which `best` is most ahead of `next`.
fn deciding_score(best: &NodeChoice, next: &NodeChoice) -> Option<String> {
    let of = |node: &NodeChoice, name: &str| {
        node.points.iter().find(|(other, _)| other == name).map_or(0, |(_, points)| *points)
    };
    let lead = best.points.iter().map(|(name, points)| (points - of(next, name), name));
    lead.filter(|(lead, _)| *lead > 0).max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1))).map(|(_, name)| name.clone())
}
