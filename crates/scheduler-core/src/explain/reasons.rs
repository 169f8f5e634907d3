//! Counts refusing filters: a histogram per domain and overall.
//!
//! The counts describe the moment after everything that fits was placed, so they show what the next pod lacks. For one
//! class that moment need not be simulated: a node with n slots is full after n pods, and the filters report what is
//! missing then.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::ghosts::GhostSetId;
use crate::cluster::{Cluster, DomainId, NodeIndex, TopologyId};
use crate::demand::classes::{Class, ClassId, Classes};
use crate::demand::{Demand, DomainConstraint, UnitPolicy};
use crate::explain::refusal::{DomainReport, Histogram, NearestDomain, Refusal, RefusalCause, RefusalReason};
use crate::index::ClassIndex;
use crate::placement::domains::{Domains, Region};
use crate::placement::place::UnitPlacement;
use crate::plugins::Plugins;
use crate::plugins::filters::{LoadAssumption, Reason};
use crate::plugins::id::PluginId;

/// What is missing, and where.
#[derive(Debug)]
pub(crate) struct Shortage {
    /// The class whose pods do not fit.
    class: ClassId,
    /// The region in which most of the unit fits; `None` when there is none at all.
    nearest: Option<Region>,
    /// How many pods of the unit fit there.
    fits_count: usize,
    proven: bool,
    /// For a unit of several classes: at most how many of its pods fit in each domain it may use.
    pub(crate) domain_fits: Option<BTreeMap<DomainId, u64>>,
}

impl Shortage {
    /// The shortage after pods were placed one by one. `proven`: no other placement is better.
    pub(crate) fn from_placement(placement: &UnitPlacement, region: Region, proven: bool) -> Shortage {
        let class = placement.unplaced_class.expect("some pod was not placed");
        Shortage { class, nearest: Some(region), fits_count: placement.assignments.len(), proven, domain_fits: None }
    }

    /// The shortage that the sums alone show. For pods that others cannot help they are upper bounds, so what they reject
    /// is proven.
    pub(crate) fn from_sums(demand: &Demand, domains: &Domains, cluster: &Cluster, classes: &mut Classes) -> Shortage {
        let nearest = domains.nearest().map(|(region, _)| region);
        let mut is_short = |class, pods_count: usize| {
            let (_, index) = classes.with_current_index(class, cluster);
            nearest.unwrap_or(Region::Everywhere).slots(index, cluster) < pods_count as u64
        };
        let short = demand.class_counts.iter().find(|count| is_short(count.class, count.count));
        let fits_count = domains.nearest().map_or(0, |(_, fits)| fits as usize);
        let class = short.unwrap_or(&demand.class_counts[0]).class;
        let proven = nearest.is_none() || classes.are_monotone(&demand.class_counts);
        Shortage { class, nearest, fits_count, proven, domain_fits: None }
    }
}

/// The refusal of a group whose members already run in several domains, so that none can have them all, or on nodes
/// without a domain, so that the domain is unknown.
pub(crate) fn members_are_split(demand: &Demand, cluster: &Cluster) -> Option<Refusal> {
    let is_split = |constraint: &&DomainConstraint| {
        constraint.member_domains.len() > 1 || !constraint.members_without_domain.is_empty()
    };
    let constraint = demand.constraint.as_ref().filter(is_split)?;
    let topology = cluster.topology(constraint.topology);
    let value = |domain: &DomainId| cluster.names.text(topology.value(*domain)).to_string();
    let mut values: Vec<_> = constraint.member_domains.iter().map(value).collect();
    values.sort_unstable();
    let mut unlabelled: Vec<_> =
        constraint.members_without_domain.iter().map(|node| cluster.node_name(*node).to_owned()).collect();
    unlabelled.sort_unstable();
    let key = cluster.names.text(topology.key()).to_string();
    Some(Refusal {
        cause: RefusalCause::MembersSplit { key, values, unlabelled },
        can_fit_later: true,
        ..Refusal::new(demand.unit.clone(), demand.wanted_count(), demand.pods_count(), demand.placed_count)
    })
}

/// The refusal of a unit.
pub(crate) fn refusal(demand: &Demand, shortage: &Shortage, cluster: &mut Cluster, classes: &mut Classes) -> Refusal {
    let can_fit_later = Domains::fits_when_empty(demand, cluster, classes);
    let topology = demand.constraint.as_ref().map(|constraint| constraint.topology);
    let (class, index) = classes.with_current_index(shortage.class, cluster);
    let plugins = Arc::clone(index.plugins());
    let reasons = ClassReasons::of(topology, class, index, cluster);
    let cluster = &*cluster;
    let nearest = match shortage.nearest {
        Some(Region::Domain(topology, domain)) => Some((topology, domain)),
        _ => None,
    };
    let constraint = demand.constraint.as_ref();
    let overall = reasons.overall(nearest.map(|(_, domain)| domain), constraint);
    let missing = demand.required_count().saturating_sub(shortage.fits_count);
    let cause = match &demand.constraint {
        Some(constraint) if shortage.nearest.is_none() => {
            RefusalCause::NoDomain { key: cluster.names.text(cluster.topology(constraint.topology).key()).to_string() }
        }
        _ => RefusalCause::DoesNotFit,
    };
    let domains = match (constraint, &shortage.domain_fits) {
        (None, _) => Arc::default(),
        (Some(constraint), None) => reasons.report(constraint, &plugins, cluster),
        (Some(constraint), Some(fits)) => {
            let fits_in = |domain: DomainId| match nearest {
                Some((_, nearest)) if nearest == domain => (shortage.fits_count as u64, false),
                _ => fits.get(&domain).map_or((0, false), |fits| (*fits, *fits > 0)),
            };
            reasons.build_report(constraint, fits_in, &plugins, cluster)
        }
    };
    Refusal {
        cause,
        is_gang: matches!(demand.policy, UnitPolicy::Gang { .. }),
        fits_count: shortage.fits_count,
        nodes_count: cluster.present_count(),
        nearest: nearest.map(|(topology, domain)| NearestDomain {
            key: cluster.names.text(cluster.topology(topology).key()).to_string(),
            value: cluster.names.text(cluster.topology(topology).value(domain)).to_string(),
            fits_count: shortage.fits_count,
            missing_count: missing,
            nodes_count: reasons.domains[domain.at()].nodes_count,
            reasons: reasons.domains[domain.at()].filled.to_histogram(&plugins, cluster),
            pinned: constraint.is_some_and(DomainConstraint::is_pinned),
        }),
        reasons: overall.to_histogram(&plugins, cluster),
        domains,
        proven: shortage.proven,
        can_fit_later,
        ..Refusal::new(demand.unit.clone(), demand.wanted_count(), demand.pods_count(), demand.placed_count)
    }
}

/// Which filters refuse which nodes to a class, by domain; cached with the class's index while nothing changes.
#[derive(Debug)]
pub(crate) struct ClassReasons {
    topology: Option<TopologyId>,
    /// One per domain; without a topology, one for all nodes.
    domains: Vec<DomainReasons>,
    unlabelled_count: usize,
    report: Option<Arc<[DomainReport]>>,
}

#[derive(Clone, Debug, Default)]
struct DomainReasons {
    nodes_count: usize,
    slots: u64,
    /// Nodes with at least one slot.
    open_count: usize,
    /// Reasons of the nodes without slots.
    closed: ReasonTally,
    /// Reasons of all nodes once their slots are used.
    filled: ReasonTally,
}

impl ClassReasons {
    pub(crate) fn topology(&self) -> Option<TopologyId> {
        self.topology
    }

    fn of<'a>(
        topology: Option<TopologyId>,
        class: &Class,
        index: &'a mut ClassIndex,
        cluster: &mut Cluster,
    ) -> &'a mut ClassReasons {
        let at = index.cached_reasons.iter().position(|reasons| reasons.topology == topology).unwrap_or_else(|| {
            let reasons = ClassReasons::build(topology, class, index, cluster);
            index.cached_reasons.push(reasons);
            index.cached_reasons.len() - 1
        });
        &mut index.cached_reasons[at]
    }

    fn build(topology: Option<TopologyId>, class: &Class, index: &ClassIndex, cluster: &mut Cluster) -> ClassReasons {
        let reserved = reserved_nodes(class, index, cluster);
        let cluster = &*cluster;
        let domains = topology.map(|id| cluster.topology(id));
        let domains_count = domains.map_or(1, |domains| domains.domains().len());
        let mut reasons = ClassReasons {
            topology,
            domains: vec![DomainReasons::default(); domains_count],
            unlabelled_count: 0,
            report: None,
        };
        let add = |reasons: &mut DomainReasons, node| match reserved.get(&node) {
            Some(ghosts) => reasons.add_reserved_node(index.slots(node), *ghosts),
            None => reasons.add_node(node, class, index, cluster),
        };
        if let Some(named) = index.named_nodes() {
            reasons.add_named(&named, index, cluster, add);
            return reasons;
        }
        for node in cluster.indices().filter(|node| cluster.node(*node).present) {
            let domain = match domains {
                Some(domains) => domains.domain_of(node).map(DomainId::at),
                None => Some(0),
            };
            match domain {
                Some(domain) => add(&mut reasons.domains[domain], node),
                None => reasons.unlabelled_count += 1,
            }
        }
        reasons
    }

    /// Adds all nodes for a class that names its nodes: those one by one with `add`, and all others by their number.
    fn add_named(
        &mut self,
        named: &[NodeIndex],
        index: &ClassIndex,
        cluster: &Cluster,
        add: impl Fn(&mut DomainReasons, NodeIndex),
    ) {
        let Some(topology) = self.topology.map(|id| cluster.topology(id)) else {
            let present = named.iter().filter(|node| cluster.node(**node).present);
            present.for_each(|node| add(&mut self.domains[0], *node));
            return self.domains[0].add_unnamed(cluster.present_count(), index);
        };
        for node in named {
            if let Some(domain) = topology.domain_of(*node) {
                add(&mut self.domains[domain.at()], *node);
            }
        }
        self.unlabelled_count = cluster.present_count();
        for (domain, reasons) in topology.domains().zip(&mut self.domains) {
            reasons.add_unnamed(topology.nodes(domain).len(), index);
            self.unlabelled_count -= reasons.nodes_count;
        }
    }

    /// Reasons over all nodes after the unit has filled the nearest domain. If members are placed, only their domains
    /// are allowed.
    fn overall(&self, nearest: Option<DomainId>, constraint: Option<&DomainConstraint>) -> ReasonTally {
        let mut overall = ReasonTally::default();
        for (at, domain) in self.domains.iter().enumerate() {
            if self.topology.is_none() || nearest.is_some_and(|nearest| nearest.at() == at) {
                overall.add_all(&domain.filled);
            } else if constraint.is_some_and(DomainConstraint::is_pinned) {
                overall.add(ReasonSource::Topology, Reason::OTHER_DOMAIN, domain.nodes_count);
            } else {
                overall.add_all(&domain.closed);
                overall.add(ReasonSource::Topology, Reason::DOMAIN_TOO_SMALL, domain.open_count);
            }
        }
        overall.add(ReasonSource::Topology, Reason::NO_TOPOLOGY_LABEL, self.unlabelled_count);
        overall
    }

    /// Every domain that a unit of equal pods may use: those of placed members, or all.
    fn report(&mut self, constraint: &DomainConstraint, plugins: &Plugins, cluster: &Cluster) -> Arc<[DomainReport]> {
        let slots = |domain: DomainId| (self.domains[domain.at()].slots, false);
        if constraint.is_pinned() {
            return self.build_report(constraint, slots, plugins, cluster);
        }
        if self.report.is_none() {
            self.report = Some(self.build_report(constraint, slots, plugins, cluster));
        }
        self.report.clone().unwrap_or_default()
    }

    /// With `fits_in`, the number of pods that fit in a domain, and whether it is an upper bound.
    fn build_report(
        &self,
        constraint: &DomainConstraint,
        fits_in: impl Fn(DomainId) -> (u64, bool),
        plugins: &Plugins,
        cluster: &Cluster,
    ) -> Arc<[DomainReport]> {
        let topology = cluster.topology(constraint.topology);
        let report_of = |domain: DomainId| {
            let (reasons, (fits_count, is_upper_bound)) = (&self.domains[domain.at()], fits_in(domain));
            DomainReport {
                value: cluster.names.text(topology.value(domain)).to_string(),
                nodes_count: reasons.nodes_count,
                fits_count,
                is_upper_bound,
                reasons: reasons.filled.to_histogram(plugins, cluster),
            }
        };
        let mut reports: Vec<_> = constraint.allowed_domains(cluster).map(report_of).collect();
        reports.sort_by(|a, b| a.value.cmp(&b.value));
        Arc::from(reports)
    }
}

/// Nodes that would have more slots without ghosts, each with the first set of ghosts there.
fn reserved_nodes(class: &Class, index: &ClassIndex, cluster: &mut Cluster) -> BTreeMap<NodeIndex, GhostSetId> {
    let mut reserved = BTreeMap::new();
    for (node, ghosts) in cluster.nodes_with_counted_ghosts() {
        let mut most = 0;
        cluster.at_each_ghost_level(node, |_, cluster| {
            most = most.max(index.plugins().slots(class, node, cluster, LoadAssumption::Now));
        });
        if most > index.slots(node) {
            reserved.insert(node, ghosts);
        }
    }
    reserved
}

impl DomainReasons {
    /// Adds the nodes that the class does not name, of `nodes_count` in all.
    fn add_unnamed(&mut self, nodes_count: usize, index: &ClassIndex) {
        let Some(at) = index.affinity_filter() else { return };
        let others_count = nodes_count - std::mem::replace(&mut self.nodes_count, nodes_count);
        self.closed.add(ReasonSource::Filter(at), Reason::NODE_AFFINITY, others_count);
        self.filled.add(ReasonSource::Filter(at), Reason::NODE_AFFINITY, others_count);
    }

    fn add_reserved_node(&mut self, slots: u32, ghosts: GhostSetId) {
        self.add_slots(slots);
        if slots == 0 {
            self.closed.add(ReasonSource::Reservation, Reason::reserved(ghosts), 1);
        }
        self.filled.add(ReasonSource::Reservation, Reason::reserved(ghosts), 1);
    }

    fn add_slots(&mut self, slots: u32) {
        self.nodes_count += 1;
        self.slots += u64::from(slots);
        self.open_count += usize::from(slots > 0);
    }

    fn add_node(&mut self, node: NodeIndex, class: &Class, index: &ClassIndex, cluster: &Cluster) {
        let slots = index.slots(node);
        self.add_slots(slots);
        match index.refusing_filter(node) {
            Some((at, filter)) => filter.reasons(class, cluster.node_ref(node), 0, &mut |reason| {
                self.closed.add(ReasonSource::Filter(at), reason, 1);
                self.filled.add(ReasonSource::Filter(at), reason, 1);
            }),
            // No filter refuses the node, so only counted filters can refuse it once its slots are used.
            None => {
                for (at, filter) in index.plugins().counted_filters() {
                    if filter.slots(class, cluster.node_ref(node), LoadAssumption::Now) <= slots {
                        let source = ReasonSource::Filter(at);
                        let add = &mut |reason| self.filled.add(source, reason, 1);
                        filter.reasons(class, cluster.node_ref(node), slots, add);
                    }
                }
            }
        }
    }
}

/// What refuses nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReasonSource {
    /// The filter at this position in the profile.
    Filter(usize),
    Topology,
    Reservation,
}

impl ReasonSource {
    fn plugin(self, plugins: &Plugins) -> PluginId {
        match self {
            ReasonSource::Filter(at) => plugins.filter_id(at).clone(),
            ReasonSource::Topology => PluginId::TOPOLOGY,
            ReasonSource::Reservation => PluginId::RESERVATION,
        }
    }
}

/// How many nodes each reason refused. A node that lacks two resources counts for both.
#[derive(Clone, Debug, Default)]
struct ReasonTally(Vec<(ReasonSource, Reason, usize)>);

impl ReasonTally {
    fn add(&mut self, source: ReasonSource, reason: Reason, nodes_count: usize) {
        if nodes_count == 0 {
            return;
        }
        let is_same =
            |(other_source, other, _): &&mut (ReasonSource, Reason, usize)| *other_source == source && *other == reason;
        match self.0.iter_mut().find(is_same) {
            Some((_, _, count)) => *count += nodes_count,
            None => self.0.push((source, reason, nodes_count)),
        }
    }

    fn add_all(&mut self, other: &ReasonTally) {
        for (source, reason, count) in &other.0 {
            self.add(*source, *reason, *count);
        }
    }

    fn to_histogram(&self, plugins: &Plugins, cluster: &Cluster) -> Histogram {
        let reason = |source: ReasonSource, reason: Reason| RefusalReason {
            text: reason.text(cluster),
            plugin: source.plugin(plugins),
            resource: reason.resource().map(|resource| cluster.resource_name(resource).to_owned()),
        };
        Histogram(self.0.iter().map(|(source, kind, count)| (reason(*source, *kind), *count)).collect())
    }
}
