//! Counts who refused: a histogram of the refusing filter, per domain and overall.
//!
//! The counts describe the moment after everything that fits was put in place, so they say what the next pod lacks.
//! For one class that moment need not be simulated: a node with n slots is full after n pods, and the filters can tell
//! what then is missing.

use std::sync::Arc;

use crate::classes::{Class, ClassId, Classes};
use crate::cluster::{Cluster, DomainId, NodeIndex, TopologyId};
use crate::filters::{Load, Reason};
use crate::index::{KeptIndex, Refuser};
use crate::need::{Constraint, Need, Policy};
use crate::place::Places;
use crate::refusal::{Cause, DomainReport, Histogram, NearestDomain, Refusal};
use crate::slots::{Ranking, Region};

/// What is missing, and where.
#[derive(Debug)]
pub(crate) struct Shortage {
    /// The class whose pods find no room.
    class: ClassId,
    /// The region that takes most of the unit; `None` when there is none at all.
    nearest: Option<Region>,
    /// How many pods of the unit it takes.
    fits_count: usize,
    proven: bool,
}

impl Shortage {
    /// The shortage that showed when pods were placed one by one. `proven`: no other way to place them does better.
    pub(crate) fn after(places: &Places, region: Region, proven: bool) -> Shortage {
        let class = places.short_of.expect("some pod found no node");
        Shortage { class, nearest: Some(region), fits_count: places.spots.len(), proven }
    }

    /// The shortage that the sums alone show; they are upper bounds, so what they deny is proven.
    pub(crate) fn from_sums(need: &Need, ranking: &Ranking, cluster: &Cluster, classes: &mut Classes) -> Shortage {
        let nearest = ranking.nearest.map(|(region, _)| region);
        let mut is_short = |class, pods_count: usize| {
            let (_, index) = classes.caught_up(class, cluster);
            let slots = match nearest {
                Some(Region::Domain(topology, domain)) => index.slots_by_domain(topology, cluster)[domain.at()],
                _ => index.slots_total(),
            };
            slots < pods_count as u64
        };
        let short = need.lots.iter().find(|lot| is_short(lot.class, lot.count));
        let fits_count = ranking.nearest.map_or(0, |(_, fits)| fits as usize);
        let class = short.unwrap_or(&need.lots[0]).class;
        Shortage { class, nearest, fits_count, proven: true }
    }
}

/// A group whose members already run in several domains can be completed in none, and where some run in no domain nobody
/// can tell in which.
pub(crate) fn members_are_split(need: &Need, cluster: &Cluster) -> Option<Refusal> {
    let is_split = |constraint: &&Constraint| constraint.members_in.len() > 1 || !constraint.members_outside.is_empty();
    let constraint = need.constraint.as_ref().filter(is_split)?;
    let topology = cluster.topology(constraint.topology);
    let value = |domain: &DomainId| cluster.names.text(topology.value(*domain)).to_string();
    let mut values: Vec<_> = constraint.members_in.iter().map(value).collect();
    values.sort_unstable();
    let mut unlabelled: Vec<_> =
        constraint.members_outside.iter().map(|node| cluster.node_name(*node).to_owned()).collect();
    unlabelled.sort_unstable();
    let key = cluster.names.text(topology.key()).to_string();
    Some(Refusal {
        cause: Cause::MembersSplit { key, values, unlabelled },
        could_wait: true,
        ..Refusal::about(need.unit.clone(), need.wanted_count(), need.pods_count(), need.placed_count)
    })
}

/// The refusal of a unit.
pub(crate) fn refusal(need: &Need, shortage: &Shortage, cluster: &Cluster, classes: &mut Classes) -> Refusal {
    let could_wait = fits_when_empty(need, cluster, classes);
    let topology = need.constraint.as_ref().map(|constraint| constraint.topology);
    let (class, index) = classes.caught_up(shortage.class, cluster);
    let findings = Findings::of(topology, class, index, cluster);
    let nearest = match shortage.nearest {
        Some(Region::Domain(topology, domain)) => Some((topology, domain)),
        _ => None,
    };
    let members_in: &[DomainId] = need.constraint.as_ref().map_or(&[], |constraint| &constraint.members_in);
    let overall = findings.overall(nearest.map(|(_, domain)| domain), members_in);
    let missing = need.required_count().saturating_sub(shortage.fits_count);
    let cause = match &need.constraint {
        Some(constraint) if shortage.nearest.is_none() => {
            Cause::NoDomain { key: cluster.names.text(cluster.topology(constraint.topology).key()).to_string() }
        }
        _ => Cause::NoRoom,
    };
    Refusal {
        cause,
        is_gang: matches!(need.policy, Policy::Gang { .. }),
        fits_count: shortage.fits_count,
        nodes_count: cluster.present_count(),
        nearest: nearest.map(|(topology, domain)| NearestDomain {
            key: cluster.names.text(cluster.topology(topology).key()).to_string(),
            value: cluster.names.text(cluster.topology(topology).value(domain)).to_string(),
            fits_count: shortage.fits_count,
            missing_count: missing,
            nodes_count: findings.domains[domain.at()].nodes_count,
            reasons: findings.domains[domain.at()].filled.to_histogram(cluster),
            pinned: !members_in.is_empty(),
        }),
        reasons: overall.to_histogram(cluster),
        domains: findings.report(members_in, cluster),
        proven: shortage.proven,
        could_wait,
        ..Refusal::about(need.unit.clone(), need.wanted_count(), need.pods_count(), need.placed_count)
    }
}

/// Whether the unit would fit if all pods left. An upper bound where classes are mixed, so "no" is certain.
fn fits_when_empty(need: &Need, cluster: &Cluster, classes: &mut Classes) -> bool {
    let required = need.required_count() as u64;
    let domains_count = match &need.constraint {
        Some(constraint) => cluster.topology(constraint.topology).domains().len(),
        None => 1,
    };
    let mut fits = vec![0; domains_count];
    for lot in &need.lots {
        let (class, index) = classes.caught_up(lot.class, cluster);
        let mut slots = vec![0; domains_count];
        for (at, room) in index.slots_when_empty(class, cluster).iter().enumerate() {
            if let Some(domain) = domain_at(need.constraint.as_ref(), NodeIndex(at as u32), cluster) {
                slots[domain] += u64::from(*room);
            }
        }
        for (fits, slots) in fits.iter_mut().zip(slots) {
            *fits += slots.min(lot.count as u64);
        }
    }
    fits.into_iter().any(|fits| fits >= required)
}

fn domain_at(constraint: Option<&Constraint>, node: NodeIndex, cluster: &Cluster) -> Option<usize> {
    let Some(constraint) = constraint else { return Some(0) };
    let domain = cluster.topology(constraint.topology).domain_of(node)?;
    let allowed = constraint.members_in.is_empty() || constraint.members_in.contains(&domain);
    allowed.then(|| domain.at())
}

/// Who refuses which nodes to a class, by domain; kept with the class's index while nothing changes.
#[derive(Debug)]
pub(crate) struct Findings {
    topology: Option<TopologyId>,
    /// One per domain; without a topology, one for all nodes.
    domains: Vec<InDomain>,
    unlabelled_count: usize,
    report: Option<Arc<[DomainReport]>>,
}

#[derive(Clone, Debug, Default)]
struct InDomain {
    nodes_count: usize,
    slots: u64,
    /// Nodes that take at least one pod.
    open_count: usize,
    /// Reasons of the nodes that take none.
    closed: Tally,
    /// Reasons of all nodes once each has taken what it can.
    filled: Tally,
}

impl Findings {
    fn of<'a>(
        topology: Option<TopologyId>,
        class: &Class,
        index: &'a mut KeptIndex,
        cluster: &Cluster,
    ) -> &'a mut Findings {
        let at = index.findings.iter().position(|findings| findings.topology == topology).unwrap_or_else(|| {
            let findings = Findings::made(topology, class, index, cluster);
            index.findings.push(findings);
            index.findings.len() - 1
        });
        &mut index.findings[at]
    }

    fn made(topology: Option<TopologyId>, class: &Class, index: &KeptIndex, cluster: &Cluster) -> Findings {
        let domains = topology.map(|id| cluster.topology(id));
        let domains_count = domains.map_or(1, |domains| domains.domains().len());
        let mut findings =
            Findings { topology, domains: vec![InDomain::default(); domains_count], unlabelled_count: 0, report: None };
        for node in cluster.indices().filter(|node| cluster.node(*node).present) {
            let domain = match domains {
                Some(domains) => domains.domain_of(node).map(DomainId::at),
                None => Some(0),
            };
            match domain {
                Some(domain) => findings.domains[domain].look_at(node, class, index, cluster),
                None => findings.unlabelled_count += 1,
            }
        }
        findings
    }

    /// Reasons over all nodes, when the unit fills the nearest domain as far as it goes and no other. Those of members
    /// that have a place are the only ones there are.
    fn overall(&self, nearest: Option<DomainId>, members_in: &[DomainId]) -> Tally {
        let mut overall = Tally::default();
        for (at, domain) in self.domains.iter().enumerate() {
            if self.topology.is_none() || nearest.is_some_and(|nearest| nearest.at() == at) {
                overall.add_all(&domain.filled);
            } else if !members_in.is_empty() {
                overall.add(Reason::OTHER_DOMAIN, domain.nodes_count);
            } else {
                overall.add_all(&domain.closed);
                overall.add(Reason::DOMAIN_TOO_SMALL, domain.open_count);
            }
        }
        overall.add(Reason::NO_TOPOLOGY_LABEL, self.unlabelled_count);
        overall
    }

    /// Every domain that the unit may go to: those of members that have a place, or all.
    fn report(&mut self, members_in: &[DomainId], cluster: &Cluster) -> Arc<[DomainReport]> {
        let Some(topology) = self.topology.map(|id| cluster.topology(id)) else { return Arc::from([]) };
        let report_of = |domain: DomainId, found: &InDomain| DomainReport {
            value: cluster.names.text(topology.value(domain)).to_string(),
            nodes_count: found.nodes_count,
            slots_count: found.slots,
            reasons: found.filled.to_histogram(cluster),
        };
        if !members_in.is_empty() {
            return members_in.iter().map(|domain| report_of(*domain, &self.domains[domain.at()])).collect();
        }
        let report = self.report.get_or_insert_with(|| {
            let domains = topology.domains().zip(&self.domains).filter(|(_, found)| found.nodes_count > 0);
            let mut reports: Vec<_> = domains.map(|(domain, found)| report_of(domain, found)).collect();
            reports.sort_by(|a, b| a.value.cmp(&b.value));
            Arc::from(reports)
        });
        Arc::clone(report)
    }
}

impl InDomain {
    fn look_at(&mut self, node: NodeIndex, class: &Class, index: &KeptIndex, cluster: &Cluster) {
        let slots = index.slots(node);
        self.nodes_count += 1;
        self.slots += u64::from(slots);
        self.open_count += usize::from(slots > 0);
        if index.refuser(node) == Refuser::HOLD {
            self.closed.add(Reason::HELD, 1);
            self.filled.add(Reason::HELD, 1);
            return;
        }
        match index.refusing_filter(node) {
            Some(filter) => filter.reasons(class, cluster.at(node), 0, &mut |reason| {
                self.closed.add(reason, 1);
                self.filled.add(reason, 1);
            }),
            // All filters agree on the node, so only counted ones can object after as many pods as it takes.
            None => {
                let mut is_full = false;
                for (_, filter) in index.plugins().counted_filters() {
                    if filter.room(class, cluster.at(node), Load::Now) <= slots {
                        filter.reasons(class, cluster.at(node), slots, &mut |reason| self.filled.add(reason, 1));
                        is_full = true;
                    }
                }
                if !is_full && cluster.shows_hold() {
                    self.filled.add(Reason::HELD, 1);
                }
            }
        }
    }
}

/// How many nodes each reason refused. A node that lacks two resources counts for both.
#[derive(Clone, Debug, Default)]
struct Tally(Vec<(Reason, usize)>);

impl Tally {
    fn add(&mut self, reason: Reason, nodes_count: usize) {
        if nodes_count == 0 {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += nodes_count,
            None => self.0.push((reason, nodes_count)),
        }
    }

    fn add_all(&mut self, other: &Tally) {
        for (reason, count) in &other.0 {
            self.add(*reason, *count);
        }
    }

    fn to_histogram(&self, cluster: &Cluster) -> Histogram {
        Histogram(self.0.iter().map(|(reason, count)| (reason.text(cluster), *count)).collect())
    }
}
