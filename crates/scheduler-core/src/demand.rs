//! What a unit asks for: pods by class, how many of them at least, and in which domain.

use crate::classes::ClassId;
use crate::cluster::{Cluster, DomainId, NodeIndex, OccupiedDomains, TopologyId};
use crate::decision::Unit;
use crate::requests::Usage;

/// The demand of one unit at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub(crate) unit: Unit,
    pub(crate) policy: UnitPolicy,
    /// Pending pods by class, the largest class first. Never empty, and no lot is.
    pub(crate) class_counts: Vec<ClassCount>,
    /// Members that have a place already.
    pub(crate) placed_count: usize,
    /// Members that are expected later. A domain that has room for them as well is better than one that has not.
    pub(crate) expected_later_count: usize,
    pub(crate) constraint: Option<DomainConstraint>,
}

/// So many pods of one class. Which of them goes where is settled only once it is known how many go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassCount {
    pub(crate) class: ClassId,
    pub(crate) count: usize,
}

/// How the pods of a unit hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitPolicy {
    /// A pod without a group.
    SinglePod,
    /// Each pod that fits is placed.
    Basic,
    /// At least `min_count` or none, members already placed included.
    Gang { min_count: usize },
}

/// All pods in one domain of a topology key.
#[derive(Clone, Debug)]
pub(crate) struct DomainConstraint {
    pub(crate) topology: TopologyId,
    /// Domains of members already placed: none, one that all others must join, or, by someone else's doing, several.
    pub(crate) member_domains: Vec<DomainId>,
    /// Nodes of members already placed that are in no domain: somebody took the label off. Those of nodes that are gone are
    /// not among them, since such pods do not run any more.
    pub(crate) members_without_domain: Vec<NodeIndex>,
}

impl DomainConstraint {
    /// All pods in one domain, and in that of the members already placed.
    pub(crate) fn with_members(topology: TopologyId, members: OccupiedDomains, cluster: &Cluster) -> DomainConstraint {
        let OccupiedDomains { domains: members_in, outside: mut members_outside } = members;
        members_outside.retain(|node| cluster.node(*node).present);
        DomainConstraint { topology, member_domains: members_in, members_without_domain: members_outside }
    }
}

impl Demand {
    /// How many pods wait for a place.
    pub(crate) fn pods_count(&self) -> usize {
        self.class_counts.iter().map(|lot| lot.count).sum()
    }

    /// How many members there must be in the end.
    pub(crate) fn wanted_count(&self) -> usize {
        match self.policy {
            UnitPolicy::SinglePod | UnitPolicy::Basic => 1,
            UnitPolicy::Gang { min_count } => min_count,
        }
    }

    /// How many pods a decision must place, so that it is worth making.
    pub(crate) fn required_count(&self) -> usize {
        self.wanted_count().saturating_sub(self.placed_count).max(1)
    }

    /// The same for all pods that a remedy must hold for: those that a gang lacks to start, or else every pod that waits.
    pub(crate) fn for_all_pending(&self) -> Demand {
        let policy = match self.policy {
            UnitPolicy::Gang { min_count } if self.placed_count < min_count => self.policy,
            _ => UnitPolicy::Gang { min_count: self.placed_count + self.pods_count() },
        };
        Demand { policy, ..self.clone() }
    }

    /// Sorts lots by size, so that large pods find room before small ones fill the gaps.
    pub(crate) fn largest_first(lots: &mut [ClassCount], usage_of: impl Fn(ClassId) -> u128) {
        lots.sort_by_cached_key(|lot| std::cmp::Reverse(usage_of(lot.class)));
    }
}

/// The size of a pod: its shares of all resources of the cluster, added up, in billionths.
pub(crate) fn size(usage: &Usage, cluster: &Cluster) -> u128 {
    let share = |(resource, amount): &(_, i64)| {
        let total = cluster.allocatable_total(*resource).max(1) as u128;
        *amount as u128 * 1_000_000_000 / total
    };
    usage.requests.iter().map(share).sum()
}
