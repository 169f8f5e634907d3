//! Frees names, resources and topologies that nothing uses.

use super::names::NameId;
use super::{Cluster, ResourceId, Topology, TopologyId};
use crate::demand::requests::{HostPort, Usage};

/// Topologies are not swept before there are this many.
const MIN_TOPOLOGIES: usize = 16;

/// The names and resources in use.
#[derive(Debug)]
pub(crate) struct UsedIds {
    names: Vec<bool>,
    resources: Vec<bool>,
}

impl UsedIds {
    pub(crate) fn add_name(&mut self, name: NameId) {
        self.names[name.at()] = true;
    }

    pub(crate) fn add_names(&mut self, names: impl IntoIterator<Item = NameId>) {
        names.into_iter().for_each(|name| self.add_name(name));
    }

    pub(crate) fn add_resource(&mut self, resource: ResourceId) {
        self.resources[resource.at()] = true;
    }

    pub(crate) fn add_ports(&mut self, ports: &[HostPort]) {
        self.add_names(ports.iter().flat_map(|port| [Some(port.protocol), port.address]).flatten());
    }

    pub(crate) fn add_usage(&mut self, usage: &Usage) {
        usage.requests.iter().for_each(|(resource, _)| self.add_resource(*resource));
        self.add_ports(&usage.ports);
    }
}

impl Cluster {
    /// What is interned now is never freed: plugins have its ids.
    pub(crate) fn make_names_permanent(&mut self) {
        self.names.table_mut().make_all_permanent();
        self.resources.names_mut().make_all_permanent();
    }

    /// Whether a table has grown so much that a sweep is worth its cost.
    pub(crate) fn is_sweep_due(&self) -> bool {
        self.names.table().is_sweep_due()
            || self.resources.names().is_sweep_due()
            || self.topologies.len() >= self.sweep_topologies_at.max(MIN_TOPOLOGIES)
    }

    /// Removes the topologies that are not `used`. Their ids are not used again.
    pub(crate) fn retain_topologies(&mut self, used: impl Fn(TopologyId) -> bool) {
        self.topologies.retain(|topology| used(topology.id()));
        self.sweep_topologies_at = 2 * self.topologies.len();
    }

    /// Frees the names and resources that neither `add_used` nor the cluster itself uses.
    pub(crate) fn sweep(&mut self, add_used: impl FnOnce(&mut UsedIds)) {
        let width = (self.names.table().width(), self.resources.names().width());
        let mut used = UsedIds { names: vec![false; width.0], resources: vec![false; width.1] };
        add_used(&mut used);
        for node in self.nodes.iter() {
            used.add_names(node.names());
        }
        self.ports.iter().for_each(|ports| used.add_ports(ports));
        self.topologies.iter().flat_map(Topology::names).for_each(|name| used.add_name(name));
        self.resources.used().for_each(|resource| used.add_resource(resource));
        self.ghosts.add_used(&mut used);
        self.names.table_mut().sweep(&used.names);
        self.resources.names_mut().sweep(&used.resources);
    }
}

#[cfg(test)]
impl Cluster {
    /// The number of names, of resources and of topologies.
    pub(crate) fn interned_counts(&self) -> [usize; 3] {
        [self.names.table().len(), self.resources.names().len(), self.topologies.len()]
    }
}
