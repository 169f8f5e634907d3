//! Frees names, resources and topologies that nothing uses.
//!
//! A table is swept when it has grown to twice the size that was in use, so the cost of a sweep is shared by as many
//! new names as there were names in use. A sweep visits the nodes, the classes and the groups, and no pods: those on
//! nodes count in the columns of their nodes, and pending ones by their class.

use std::collections::BTreeSet;

use super::Core;
use crate::cluster::TopologyId;

impl Core {
    /// Frees what nothing uses if a table has grown enough. Ids must not be held across this call, other than by the
    /// nodes, classes and groups.
    pub(super) fn sweep_if_due(&mut self) {
        if !self.cluster.is_sweep_due() {
            return;
        }
        let topologies: BTreeSet<TopologyId> =
            self.groups.all().filter_map(|group| group.spec.as_ref()?.topology).collect();
        self.cluster.retain_topologies(|id| topologies.contains(&id));
        self.classes.retain_topologies(|id| topologies.contains(&id));
        let classes = &self.classes;
        self.cluster.sweep(|used| classes.all().for_each(|class| class.add_used(used)));
    }
}
