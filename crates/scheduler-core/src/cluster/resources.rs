//! Resource names and their columns.

use std::sync::Arc;

use api::quantity::Quantity;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::NodeIndex;
use super::sums::Apart;

/// A resource. CPU counts in thousandths, all others in whole units (bytes, devices).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceId(u32);

impl ResourceId {
    pub(crate) const CPU: ResourceId = ResourceId(0);
    pub(crate) const MEMORY: ResourceId = ResourceId(1);
    pub(crate) const EPHEMERAL_STORAGE: ResourceId = ResourceId(2);

    /// Whether it matters to scores for pods that do not ask for it, too.
    pub(crate) fn is_everybodys(self) -> bool {
        self.0 <= ResourceId::EPHEMERAL_STORAGE.0
    }

    /// The quantity in this resource's unit.
    pub(crate) fn amount(self, quantity: Quantity) -> i64 {
        if self == ResourceId::CPU { quantity.milli_value() } else { quantity.value() }
    }
}

/// One resource over all nodes.
#[derive(Debug, Default)]
pub(crate) struct Column {
    pub(crate) allocatable: Vec<i64>,
    pub(crate) requested: Vec<i64>,
    pub(super) allocatable_total: i128,
}

#[derive(Debug)]
pub(super) struct Resources {
    names: IndexSet<Arc<str>, FxBuildHasher>,
    columns: Vec<Column>,
    requested_apart: Apart,
}

impl Default for Resources {
    fn default() -> Resources {
        let mut resources =
            Resources { names: IndexSet::default(), columns: Vec::new(), requested_apart: Apart::default() };
        resources.intern("cpu", 0);
        resources.intern("memory", 0);
        resources.intern("ephemeral-storage", 0);
        resources
    }
}

impl Resources {
    pub(super) fn intern(&mut self, name: &str, width: usize) -> ResourceId {
        let at = self.names.get_index_of(name).unwrap_or_else(|| {
            self.columns.push(Column { allocatable: vec![0; width], requested: vec![0; width], allocatable_total: 0 });
            self.names.insert_full(Arc::from(name)).0
        });
        ResourceId(at as u32)
    }

    pub(super) fn find(&self, name: &str) -> Option<ResourceId> {
        self.names.get_index_of(name).map(|at| ResourceId(at as u32))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ResourceId> + use<> {
        (0..self.columns.len() as u32).map(ResourceId)
    }

    pub(super) fn name(&self, resource: ResourceId) -> &str {
        self.names.get_index(resource.0 as usize).expect("an id is handed out only with its name")
    }

    pub(super) fn column(&self, resource: ResourceId) -> &Column {
        &self.columns[resource.0 as usize]
    }

    pub(super) fn grow(&mut self, width: usize) {
        for column in &mut self.columns {
            column.allocatable.resize(width, 0);
            column.requested.resize(width, 0);
        }
    }

    /// Says whether the amount is another than before.
    pub(super) fn set_allocatable(&mut self, resource: ResourceId, at: usize, amount: i64) -> bool {
        let column = &mut self.columns[resource.0 as usize];
        let before = std::mem::replace(&mut column.allocatable[at], amount);
        column.allocatable_total += i128::from(amount) - i128::from(before);
        before != amount
    }

    pub(super) fn clear_allocatable(&mut self, at: usize) {
        for resource in self.ids() {
            self.set_allocatable(resource, at, 0);
        }
    }

    pub(super) fn add_requested(&mut self, resource: ResourceId, node: NodeIndex, amount: i64) {
        let sum = &mut self.columns[resource.0 as usize].requested[node.at()];
        self.requested_apart.add(sum, (resource, node), amount);
    }

    /// How many sums are too large to be shown.
    #[cfg(test)]
    pub(super) fn sums_apart_count(&self) -> usize {
        self.requested_apart.len()
    }
}
