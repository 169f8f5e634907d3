//! What a unit requests: pods by class, the least number to place, and the topology domain.
//!
//! In: views of pods, PodGroups and CompositePodGroups. Out: tracked pods and groups, classes, and the [`Demand`] of a
//! unit.
//!
//! What holds: pods of one class are equal in every field that a filter or score reads. Members of a group are counted
//! by class as they come and go, so making a demand does not iterate over pods.

pub(crate) mod pods; // pods as the core stores them, and the stage of each
pub(crate) mod requests; // what one pod uses of its node
pub(crate) mod reads; // what filters and scores read of a pod
pub(crate) mod classes; // pods that are equal in every field that is read
pub(crate) mod groups; // groups and their members

use crate::cluster::{Cluster, DomainId, NodeIndex, OccupiedDomains, TopologyId};
use crate::decision::Unit;
use crate::demand::classes::ClassId;
use crate::demand::requests::Usage;
use crate::placement::domains::Region;
use crate::queue::EqualDemand;

/// The demand of one unit at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    pub(crate) unit: Unit,
    pub(crate) policy: UnitPolicy,
    /// Pending pods by class, the largest class first. Neither the list nor any of its counts is empty.
    pub(crate) class_counts: Vec<ClassCount>,
    /// Members that are already placed.
    pub(crate) placed_count: usize,
    /// Members that are expected later. Domains with capacity for them as well are preferred.
    pub(crate) expected_later_count: usize,
    pub(crate) constraint: Option<DomainConstraint>,
}

/// A number of pods of one class. Which of them gets which node is chosen after it is known how many are placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassCount {
    pub(crate) class: ClassId,
    pub(crate) count: usize,
}

/// How the pods of a unit depend on each other.
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
    /// Domains of placed members: none, one that all others must join, or several, if another scheduler placed them.
    pub(crate) member_domains: Vec<DomainId>,
    /// Nodes of placed members that are in no domain, because the label was removed. Deleted nodes are not among
    /// them: their pods do not run any more.
    pub(crate) members_without_domain: Vec<NodeIndex>,
}

impl DomainConstraint {
    /// All pods in one domain, and in that of the members already placed.
    pub(crate) fn with_members(topology: TopologyId, members: OccupiedDomains, cluster: &Cluster) -> DomainConstraint {
        let OccupiedDomains { domains: member_domains, outside: mut members_without_domain } = members;
        members_without_domain.retain(|node| cluster.node(*node).present);
        DomainConstraint { topology, member_domains, members_without_domain }
    }

    /// Whether placed members decide the domain.
    pub(crate) fn is_pinned(&self) -> bool {
        !self.member_domains.is_empty()
    }

    /// The domains that the unit may use: those of placed members, or else every domain with a node.
    pub(crate) fn allowed_domains<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = DomainId> + 'a {
        let topology = cluster.topology(self.topology);
        let allows = |domain: &DomainId| !self.is_pinned() || self.member_domains.contains(domain);
        topology.domains().filter(move |domain| !topology.nodes(*domain).is_empty() && allows(domain))
    }
}

impl Demand {
    /// How many pods are pending.
    pub(crate) fn pods_count(&self) -> usize {
        self.class_counts.iter().map(|class_count| class_count.count).sum()
    }

    /// How many members must be placed in total.
    pub(crate) fn wanted_count(&self) -> usize {
        match self.policy {
            UnitPolicy::SinglePod | UnitPolicy::Basic => 1,
            UnitPolicy::Gang { min_count } => min_count,
        }
    }

    /// The least number of pods that a decision must place.
    pub(crate) fn required_count(&self) -> usize {
        self.wanted_count().saturating_sub(self.placed_count).max(1)
    }

    /// What other units must request to have the same result, if nothing else about this unit matters.
    pub(crate) fn if_comparable(&self) -> Option<EqualDemand> {
        (self.placed_count == 0).then(|| EqualDemand {
            class_counts: self.class_counts.iter().map(|class_count| (class_count.class, class_count.count)).collect(),
            required_count: self.required_count(),
            topology: self.constraint.as_ref().map(|constraint| constraint.topology),
        })
    }

    /// The demand that a remedy must satisfy: the pods that a gang lacks to start, or else every pending pod.
    pub(crate) fn for_all_pending(&self) -> Demand {
        let policy = match self.policy {
            UnitPolicy::Gang { min_count } if self.placed_count < min_count => self.policy,
            _ => UnitPolicy::Gang { min_count: self.placed_count + self.pods_count() },
        };
        Demand { policy, ..self.clone() }
    }

    /// The same demand in one region of those that it may use.
    pub(crate) fn limited_to(&self, region: Region) -> Demand {
        let mut demand = self.clone();
        if let (Some(constraint), Region::Domain(_, domain)) = (&mut demand.constraint, region) {
            constraint.member_domains = vec![domain];
        }
        demand
    }

    /// Sorts by pod size, so that large pods are placed before small ones fill the gaps.
    pub(crate) fn largest_first(class_counts: &mut [ClassCount], size_of: impl Fn(ClassId) -> u128) {
        class_counts.sort_by_cached_key(|class_count| std::cmp::Reverse(size_of(class_count.class)));
    }
}

/// The size of a pod: the sum of its shares of the cluster's resources, in billionths.
pub(crate) fn size(usage: &Usage, cluster: &Cluster) -> u128 {
    let share = |(resource, amount): &(_, i64)| {
        let total = cluster.allocatable_total(*resource).max(1) as u128;
        *amount as u128 * 1_000_000_000 / total
    };
    usage.requests.iter().map(share).sum()
}
