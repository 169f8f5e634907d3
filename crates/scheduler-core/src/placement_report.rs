//! Why pods are where they are: which domains and nodes could take them, and what the chosen ones had over the next best.
//!
//! This is worked out with the pods taken off their nodes, so it tells how the choice looks on the cluster as it is at
//! that moment. Right after the decision that is how it looked then; later others may have come and gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::Timestamp;

use crate::classes::{ClassId, Classes};
use crate::cluster::{Cluster, NodeIndex, OccupiedDomains, TopologyId};
use crate::decision::{ChosenDomain, Unit};
use crate::demand::{ClassCount, Demand, DomainConstraint, UnitPolicy};
use crate::index::ClassIndex;
use crate::removal_overlay::{PlacedUsages, RemovalOverlay};
use crate::slots::{self, Region};

/// How many of the chosen nodes are told with their points.
const MAX_NODES: usize = 5;

/// Why the pods of a unit are where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementReport {
    /// How many pods it is about.
    pub pods_count: usize,
    /// Why this domain, where the group has to share one.
    pub domain: Option<DomainChoice>,
    /// The domain in which all pods of the group have to be.
    pub within: Option<ChosenDomain>,
    /// The nodes with the highest scores among the chosen ones, for pods of every size: first those of the most pods.
    pub nodes: Vec<NodeChoice>,
    /// How many were chosen.
    pub nodes_count: usize,
    /// How many nodes could take one of the pods.
    pub feasible_count: usize,
    /// The best node that was not chosen.
    pub next_best: Option<NodeChoice>,
    /// The score in which the best of the chosen nodes is most ahead of the next best; none where none is ahead.
    pub decided_by: Option<String>,
    /// When this was worked out, if that was right after the decision. Otherwise it is from the cluster as it is now.
    pub recorded_at: Option<Timestamp>,
}

/// A domain beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainChoice {
    /// The topology key.
    pub key: String,
    /// The chosen value.
    pub value: String,
    /// How many of the pods fit there, and how many more would.
    pub fit: DomainFit,
    /// How many domains there are.
    pub domains_count: usize,
    /// How many of them could take all these pods.
    pub feasible_count: usize,
    /// The next best.
    pub next_best: Option<(String, DomainFit)>,
}

/// What domains are compared by: more pods of the group, then fewer slots left over.
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
    /// The sum of its points. 0 where it takes no such pod any more.
    pub total: i64,
    /// The weighted points of each score that applies.
    pub points: Vec<(String, i64)>,
}

impl PlacementReport {
    /// In words, a line each.
    pub fn lines(&self, unit: &Unit) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(domain) = &self.domain {
            lines.push(domain.text(self.pods_count));
        }
        let pods = if self.pods_count == 1 { "1 pod".to_owned() } else { format!("{} pods", self.pods_count) };
        let region = self.within.as_ref().map(|domain| format!(" in {}", domain.text())).unwrap_or_default();
        let could = format!("{} could take one", self.feasible_count);
        let lone = matches!(unit, Unit::Pod(_)) || self.nodes_count == 1;
        lines.push(match self.nodes.first() {
            Some(node) if lone => format!("{pods} on node {}; of the nodes{region} {could}", node.node),
            _ => format!("{pods} on {} nodes; of the nodes{region} {could}", self.nodes_count),
        });
        lines.extend(self.nodes.iter().map(|node| format!("  {}", node.text())));
        lines.extend(self.next_best.as_ref().map(|next| format!("  {}", self.next_best_text(next))));
        lines.push(match self.recorded_at {
            Some(_) => "this is how it looked right after the decision".to_owned(),
            None => "worked out anew: this is how it looks on the cluster as it is now".to_owned(),
        });
        lines
    }
}

impl PlacementReport {
    /// What the best node that was not chosen lacks, or has over the chosen ones.
    fn next_best_text(&self, next: &NodeChoice) -> String {
        let best = self.nodes.first().map_or(i64::MIN, |best| best.total);
        if next.total > best {
            let why = match self.recorded_at {
                Some(_) => "all pods had to find room together",
                None => "the cluster has changed since they were placed",
            };
            return format!("scores higher, but was not chosen: {}; {why}", next.text());
        }
        let why = match &self.decided_by {
            Some(plugin) if next.total < best => format!("{plugin} made the difference"),
            _ => "no score made a difference: among equals the node that was seen first is taken".to_owned(),
        };
        format!("next best: {}; {why}", next.text())
    }
}

impl DomainChoice {
    fn text(&self, pods_count: usize) -> String {
        let DomainChoice { key, value, fit: room, domains_count, feasible_count, next_best } = self;
        let next = next_best.as_ref().map(|(value, next)| {
            let place = if next.is_preferred_to(room) { "would come first now" } else { "next best" };
            format!("; {place}: {value} ({})", next.text())
        });
        format!(
            "in {key}={value}: {feasible_count} of {domains_count} domains could take all {pods_count}; chosen: {}{}",
            room.text(),
            next.unwrap_or_default()
        )
    }
}

impl DomainFit {
    /// Whether it is preferred to the other: it takes more of the pods, or as many and has less left over.
    fn is_preferred_to(self, other: &DomainFit) -> bool {
        (self.fits_count, other.spare_count) > (other.fits_count, self.spare_count)
    }

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
        let told = self.points.iter().filter(|(_, points)| *points != 0);
        let points: Vec<String> = told.map(|(name, points)| format!("{name} {points}")).collect();
        let points = if points.is_empty() { String::new() } else { format!(" ({})", points.join(", ")) };
        format!("{}{pods}: score {}{points}", self.node, self.total)
    }
}

/// Pods of one class that have their nodes.
pub(crate) struct PlacedClass {
    pub(crate) class: ClassId,
    pub(crate) nodes: Vec<NodeIndex>,
}

/// Works out why pods are where they are. `topology`: the key of which they have to share a domain, which
/// was chosen for `coming_count` pods more. `spots` are the same
/// pods with what they take. Leaves everything as it was.
pub(crate) fn build(
    unit: &Unit,
    lots: &[PlacedClass],
    spots: &PlacedUsages,
    (topology, coming_count): (Option<TopologyId>, usize),
    cluster: &mut Cluster,
    classes: &mut Classes,
) -> Option<PlacementReport> {
    let largest = lots.iter().min_by_key(|lot| std::cmp::Reverse(lot.nodes.len()))?;
    let mut absence = RemovalOverlay::of(spots, cluster);
    let cluster = &*absence.cluster();
    let region = topology.and_then(|topology| {
        let domain = cluster.topology(topology).domain_of(*largest.nodes.first()?)?;
        Some(Region::Domain(topology, domain))
    });
    let domain = region.and_then(|region| domain_choice(unit, lots, (region, coming_count), cluster, classes));
    let (class, index) = classes.with_current_index(largest.class, cluster);
    let mut counts: BTreeMap<NodeIndex, usize> = BTreeMap::new();
    lots.iter().flat_map(|lot| &lot.nodes).for_each(|node| *counts.entry(*node).or_default() += 1);
    let region = region.unwrap_or(Region::Everywhere);
    let feasible: Vec<NodeIndex> =
        cluster.indices().filter(|node| region.contains(*node, cluster) && index.slots(*node) > 0).collect();
    let others = feasible.iter().filter(|node| !counts.contains_key(node));
    let next_best = others.max_by_key(|node| index.key(**node)).map(|node| choice(*node, 0, class, index, cluster));
    let feasible_count = feasible.len();
    let nodes = chosen_nodes(lots, &counts, cluster, classes);
    Some(PlacementReport {
        pods_count: lots.iter().map(|lot| lot.nodes.len()).sum(),
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

/// The chosen nodes with the highest scores, each by the class of pods for which it is told. Every class has its turn, the
/// one of the most pods first, so that the node of a leader is told beside those of many workers.
fn chosen_nodes(
    lots: &[PlacedClass],
    counts: &BTreeMap<NodeIndex, usize>,
    cluster: &Cluster,
    classes: &mut Classes,
) -> Vec<NodeChoice> {
    let mut by_count: Vec<&PlacedClass> = lots.iter().collect();
    by_count.sort_by_key(|lot| std::cmp::Reverse(lot.nodes.len()));
    let ranked = by_count.iter().map(|lot| {
        let (_, index) = classes.with_current_index(lot.class, cluster);
        let mut nodes = lot.nodes.clone();
        nodes.sort_by_key(|node| (std::cmp::Reverse(index.key(*node)), *node));
        nodes.dedup();
        nodes
    });
    let ranked: Vec<Vec<NodeIndex>> = ranked.collect();
    let rounds = ranked.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..rounds).flat_map(|round| (0..ranked.len()).map(move |lot| (lot, round)));
    let mut told: Vec<(usize, usize, NodeIndex)> = Vec::new();
    for (lot, round) in turns {
        let new = ranked[lot].get(round).filter(|node| told.iter().all(|(_, _, known)| known != *node));
        told.extend(new.map(|node| (lot, round, *node)));
        if told.len() == MAX_NODES {
            break;
        }
    }
    told.sort_unstable();
    let choices = told.into_iter().map(|(lot, _, node)| {
        let (class, index) = classes.with_current_index(by_count[lot].class, cluster);
        choice(node, counts[&node], class, index, cluster)
    });
    choices.collect()
}

fn domain_choice(
    unit: &Unit,
    lots: &[PlacedClass],
    (region, coming_count): (Region, usize),
    cluster: &Cluster,
    classes: &mut Classes,
) -> Option<DomainChoice> {
    let Region::Domain(topology, chosen) = region else { return None };
    let pods_count = lots.iter().map(|lot| lot.nodes.len()).sum();
    let constraint = DomainConstraint::with_members(topology, OccupiedDomains::default(), cluster);
    let need = Demand {
        unit: unit.clone(),
        policy: UnitPolicy::Gang { min_count: pods_count },
        class_counts: lots.iter().map(|lot| ClassCount { class: lot.class, count: lot.nodes.len() }).collect(),
        placed_count: 0,
        expected_later_count: coming_count,
        constraint: None,
    };
    let ranked = slots::rank_domains(&need, &constraint, cluster, classes);
    let room = |ranked: &slots::RankedDomain| DomainFit { fits_count: ranked.fits_count, spare_count: ranked.spare.0 };
    let own = ranked.iter().find(|ranked| ranked.domain == chosen)?;
    let next_best = ranked.iter().filter(|ranked| ranked.domain != chosen && ranked.fits_count > 0).max();
    let key = cluster.names.text(cluster.topology(topology).key()).to_string();
    Some(DomainChoice {
        key,
        value: own.value.0.to_string(),
        fit: room(own),
        domains_count: ranked.len(),
        feasible_count: ranked.iter().filter(|ranked| ranked.fits_count >= pods_count as u64).count(),
        next_best: next_best.map(|next| (next.value.0.to_string(), room(next))),
    })
}

fn choice(
    node: NodeIndex,
    pods_count: usize,
    class: &Arc<crate::classes::Class>,
    index: &ClassIndex,
    cluster: &Cluster,
) -> NodeChoice {
    let takes = index.slots(node) > 0;
    let points = if takes { index.points(node, class, cluster) } else { Vec::new() };
    let name = |place: usize| index.plugins().scores[place].0.name().to_owned();
    NodeChoice {
        node: cluster.node_name(node).to_owned(),
        pods_count,
        total: if takes { index.total(node) } else { 0 },
        points: points.into_iter().map(|(place, points)| (name(place), points)).collect(),
    }
}

/// The score in which `best` is most ahead of `next`.
fn deciding_score(best: &NodeChoice, next: &NodeChoice) -> Option<String> {
    let of = |node: &NodeChoice, name: &str| {
        node.points.iter().find(|(known, _)| known == name).map_or(0, |(_, points)| *points)
    };
    let lead = best.points.iter().map(|(name, points)| (points - of(next, name), name));
    lead.filter(|(lead, _)| *lead > 0).max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1))).map(|(_, name)| name.clone())
}
