//! A node takes pods while their requests fit into what it has, and while it has room for another pod at all.

use super::{Filter, Kind, Load, Parts, Reason, Wakes};
use crate::classes::Class;
use crate::cluster::{Cluster, NodeIndex};

pub(super) struct Resources;

impl Filter for Resources {
    fn kind(&self) -> Kind {
        Kind::Counted
    }

    fn reads(&self) -> Parts {
        Parts::USAGE
    }

    fn wakes(&self, _: &Class) -> Wakes {
        Wakes::NODE_ADDED | Wakes::ALLOCATABLE | Wakes::POD_LEFT
    }

    fn room(&self, class: &Class, node: NodeIndex, cluster: &Cluster, load: Load) -> u32 {
        let taken = |amount: i64| if load == Load::Now { amount } else { 0 };
        let mut room = cluster.pods_allowed(node) - taken(cluster.pods_count(node));
        for (resource, amount) in &class.usage.requests {
            let free = cluster.allocatable(*resource, node) - taken(cluster.requested(*resource, node));
            room = room.min(free / amount);
        }
        // Never NO_LIMIT: a node allows a number of pods.
        room.clamp(0, i64::from(u32::MAX - 1)) as u32
    }

    fn reasons(&self, class: &Class, node: NodeIndex, cluster: &Cluster, more: u32, say: &mut dyn FnMut(Reason)) {
        let more = i64::from(more);
        if cluster.pods_allowed(node) - cluster.pods_count(node) <= more {
            say(Reason::TooManyPods);
        }
        for (resource, amount) in &class.usage.requests {
            let free = cluster.allocatable(*resource, node) - cluster.requested(*resource, node);
            if free / amount <= more {
                say(Reason::Insufficient(*resource));
            }
        }
    }
}
