//! A node takes pods while their requests fit into what it has, and while it has room for another pod at all.

use std::collections::BTreeSet;

use super::{Filter, Kind, Load, Reason};
use crate::classes::Class;
use crate::cluster::{NodeRef, ResourceId};
use crate::reads::{Parts, Reads};
use crate::wakes::Wakes;

#[derive(Debug, Default)]
pub(crate) struct Resources {
    /// Extended resources that somebody else keeps account of, by name.
    pub(crate) ignored: BTreeSet<String>,
    /// The same by the part of the name before the slash.
    pub(crate) ignored_groups: BTreeSet<String>,
}

impl Resources {
    fn counts(&self, resource: ResourceId, node: NodeRef<'_>) -> bool {
        if self.ignored.is_empty() && self.ignored_groups.is_empty() {
            return true;
        }
        let name = node.cluster.resource_name(resource);
        let group = name.split_once('/').map(|(group, _)| group);
        !is_extended(name)
            || !(self.ignored.contains(name) || group.is_some_and(|group| self.ignored_groups.contains(group)))
    }
}

/// Whether a resource is none of Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(group, _)| group != "kubernetes.io" && !group.ends_with(".kubernetes.io"))
}

impl Filter for Resources {
    fn name(&self) -> &str {
        "NodeResourcesFit"
    }

    fn kind(&self) -> Kind {
        Kind::Counted
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::USAGE)
    }

    fn wakes(&self, _: &Class) -> Wakes {
        Wakes::NODE_ADDED | Wakes::ALLOCATABLE | Wakes::POD_LEFT
    }

    fn room(&self, class: &Class, node: NodeRef<'_>, load: Load) -> u32 {
        let (cluster, index) = (node.cluster, node.index);
        let taken = |amount: i64| if load == Load::Now { amount } else { 0 };
        let mut room = cluster.pods_allowed(index) - taken(cluster.pods_count(index));
        for (resource, amount) in class.usage.requests.iter().filter(|(resource, _)| self.counts(*resource, node)) {
            let free = cluster.allocatable(*resource, index) - taken(cluster.requested(*resource, index));
            room = room.min(free / amount);
        }
        // Never NO_LIMIT: a node allows a number of pods.
        room.clamp(0, i64::from(u32::MAX - 1)) as u32
    }

    fn reasons(&self, class: &Class, node: NodeRef<'_>, more: u32, say: &mut dyn FnMut(Reason)) {
        let (cluster, index, more) = (node.cluster, node.index, i64::from(more));
        if cluster.pods_allowed(index) - cluster.pods_count(index) <= more {
            say(Reason::TOO_MANY_PODS);
        }
        for (resource, amount) in class.usage.requests.iter().filter(|(resource, _)| self.counts(*resource, node)) {
            let free = cluster.allocatable(*resource, index) - cluster.requested(*resource, index);
            if free / amount <= more {
                say(Reason::insufficient(*resource));
            }
        }
    }
}
