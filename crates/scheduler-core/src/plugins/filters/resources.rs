//! Pods fit on a node while their requests fit into its free resources, and while it allows another pod at all.

use std::collections::BTreeSet;

use super::{Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason};
use crate::cluster::{Cluster, NodeRef, NodeRefs, ResourceColumn, ResourceId};
use crate::demand::classes::Class;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::plugins::profile::FitArgs;
use crate::queue::cluster_events::ClusterEvents;

#[derive(Debug, Default)]
pub(crate) struct NodeResourcesFit {
    /// Extended resources that other components account for, by name.
    pub(crate) ignored: BTreeSet<String>,
    /// The same by the group: the part of the name before the slash.
    pub(crate) ignored_groups: BTreeSet<String>,
}

impl NodeResourcesFit {
    pub(crate) fn of(args: &FitArgs) -> NodeResourcesFit {
        NodeResourcesFit {
            ignored: args.ignored_resources.clone(),
            ignored_groups: args.ignored_resource_groups.clone(),
        }
    }

    /// Whether a pod's request of this resource must fit.
    pub(crate) fn counts(&self, resource: ResourceId, node: NodeRef<'_>) -> bool {
        self.counts_in(node.cluster, resource)
    }

    fn counts_in(&self, cluster: &Cluster, resource: ResourceId) -> bool {
        if self.ignored.is_empty() && self.ignored_groups.is_empty() {
            return true;
        }
        let name = cluster.resource_name(resource);
        let group = name.split_once('/').map(|(group, _)| group);
        !is_extended(name)
            || !(self.ignored.contains(name) || group.is_some_and(|group| self.ignored_groups.contains(group)))
    }

    /// The columns of the resources that a pod of the class requests, with the requested amounts.
    fn requested_columns<'a>(
        &'a self,
        class: &'a Class,
        cluster: &'a Cluster,
    ) -> impl Iterator<Item = (&'a ResourceColumn, i64)> {
        let counted = class.usage.requests.iter().filter(|(resource, _)| self.counts_in(cluster, *resource));
        counted.map(|(resource, amount)| (cluster.column(*resource), *amount))
    }
}

/// Whether a resource is not one of Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(group, _)| group != "kubernetes.io" && !group.ends_with(".kubernetes.io"))
}

impl Filter for NodeResourcesFit {
    fn name(&self) -> &str {
        "NodeResourcesFit"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Counted
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::USAGE)
    }

    fn events_to_register(&self, _: &Class) -> ClusterEvents {
        ClusterEvents::NODE_ADD | ClusterEvents::NODE_ALLOCATABLE | ClusterEvents::ASSIGNED_POD_DELETE
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
        let mut slots = [NO_LIMIT];
        self.limit_slots(class, node.cluster.node_refs(&[node.index]), load, &mut slots);
        slots[0]
    }

    fn limit_slots(&self, class: &Class, nodes: NodeRefs<'_>, load: LoadAssumption, slots: &mut [u32]) {
        let used = |amount: i64| if load == LoadAssumption::Now { amount } else { 0 };
        for (node, slots) in nodes.iter().zip(&mut *slots) {
            // Never NO_LIMIT: a node allows a number of pods.
            let left = (node.pods_allowed() - used(node.pods_count())).clamp(0, i64::from(u32::MAX - 1));
            *slots = (*slots).min(left as u32);
        }
        for (ResourceColumn { allocatable, requested, .. }, amount) in self.requested_columns(class, nodes.cluster) {
            for (node, slots) in nodes.nodes.iter().zip(&mut *slots) {
                let free = allocatable[node.at()] - used(requested[node.at()]);
                let most = i64::from(*slots);
                // Usually one resource is the scarce one. A product rules out the others faster than a quotient.
                if most.checked_mul(amount).is_none_or(|all| all > free) {
                    // So the quotient is below the slots so far.
                    *slots = (free.max(0).cast_unsigned() / amount.cast_unsigned()) as u32;
                }
            }
        }
    }

    fn reasons(&self, class: &Class, node: NodeRef<'_>, more: u32, report: &mut dyn FnMut(Reason)) {
        let (cluster, index, more) = (node.cluster, node.index, i64::from(more));
        if cluster.pods_allowed(index) - cluster.pods_count(index) <= more {
            report(Reason::TOO_MANY_PODS);
        }
        for (resource, amount) in class.usage.requests.iter().filter(|(resource, _)| self.counts(*resource, node)) {
            let free = cluster.allocatable(*resource, index) - cluster.requested(*resource, index);
            if free / amount <= more {
                report(Reason::insufficient(*resource));
            }
        }
    }
}
