//! What a unit asks for: pods by class, how many of them at least, and in which domain.

use crate::classes::ClassId;
use crate::cluster::{Cluster, DomainId, NodeIndex, TopologyId, Whereabouts};
use crate::decision::Unit;
use crate::requests::Usage;

/// The demand of one unit at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) unit: Unit,
    pub(crate) policy: Policy,
    /// Pending pods by class, the largest class first. Never empty, and no lot is.
    pub(crate) lots: Vec<Lot>,
    /// Members that have a place already.
    pub(crate) placed_count: usize,
    /// Members that are expected later. A domain that has room for them as well is better than one that has not.
    pub(crate) coming_count: usize,
    pub(crate) constraint: Option<Constraint>,
}

/// So many pods of one class. Which of them goes where is settled only once it is known how many go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lot {
    pub(crate) class: ClassId,
    pub(crate) count: usize,
}

/// How the pods of a unit hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// A pod without a group.
    Alone,
    /// Each pod that fits is placed.
    Basic,
    /// At least `min_count` or none, members already placed included.
    Gang { min_count: usize },
}

/// All pods in one domain of a topology key.
#[derive(Clone, Debug)]
pub(crate) struct Constraint {
    pub(crate) topology: TopologyId,
    /// Domains of members already placed: none, one that all others must join, or, by someone else's doing, several.
    pub(crate) members_in: Vec<DomainId>,
    /// Nodes of members already placed that are in no domain: somebody took the label off. Those of nodes that are gone are
    /// not among them, since such pods do not run any more.
    pub(crate) members_outside: Vec<NodeIndex>,
}

impl Constraint {
    /// All pods in one domain, and in that of the members already placed.
    pub(crate) fn with_members(topology: TopologyId, members: Whereabouts, cluster: &Cluster) -> Constraint {
        let Whereabouts { domains: members_in, nowhere: mut members_outside } = members;
        members_outside.retain(|node| cluster.node(*node).present);
        Constraint { topology, members_in, members_outside }
    }
}

impl Need {
    /// How many pods wait for a place.
    pub(crate) fn pods_count(&self) -> usize {
        self.lots.iter().map(|lot| lot.count).sum()
    }

    /// How many members there must be in the end.
    pub(crate) fn wanted_count(&self) -> usize {
        match self.policy {
            Policy::Alone | Policy::Basic => 1,
            Policy::Gang { min_count } => min_count,
        }
    }

    /// How many pods a decision must place, so that it is worth making.
    pub(crate) fn required_count(&self) -> usize {
        self.wanted_count().saturating_sub(self.placed_count).max(1)
    }

    /// The same for all pods that a remedy must hold for: those that a gang lacks to start, or else every pod that waits.
    pub(crate) fn for_all_that_wait(&self) -> Need {
        let policy = match self.policy {
            Policy::Gang { min_count } if self.placed_count < min_count => self.policy,
            _ => Policy::Gang { min_count: self.placed_count + self.pods_count() },
        };
        Need { policy, ..self.clone() }
    }

    /// Sorts lots by size, so that large pods find room before small ones fill the gaps.
    pub(crate) fn largest_first(lots: &mut [Lot], usage_of: impl Fn(ClassId) -> u128) {
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
