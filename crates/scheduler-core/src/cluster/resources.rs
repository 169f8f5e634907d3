//! Resource names and their columns.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use types::quantity::Quantity;

use super::NodeIndex;
use super::overflow_sums::OverflowSums;

/// A resource. CPU counts in thousandths, all others in whole units (bytes, devices).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceId(u32);

impl ResourceId {
    pub(crate) const CPU: ResourceId = ResourceId(0);
    pub(crate) const MEMORY: ResourceId = ResourceId(1);
    pub(crate) const EPHEMERAL_STORAGE: ResourceId = ResourceId(2);

    fn at(self) -> usize {
        self.0 as usize
    }

    /// Whether scores consider it also for pods that do not request it.
    pub(crate) fn is_builtin(self) -> bool {
        self.0 <= ResourceId::EPHEMERAL_STORAGE.0
    }

    /// The quantity in this resource's unit.
    pub(crate) fn amount(self, quantity: Quantity) -> i64 {
        if self == ResourceId::CPU { quantity.milli_value() } else { quantity.value() }
    }
}

/// One resource over all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceColumn {
    pub(crate) allocatable: Vec<i64>,
    pub(crate) requested: Vec<i64>,
    pub(super) allocatable_total: i128,
}

impl ResourceColumn {
    fn of_width(width: usize) -> ResourceColumn {
        ResourceColumn { allocatable: vec![0; width], requested: vec![0; width], allocatable_total: 0 }
    }

    fn widen(&mut self, width: usize) {
        self.allocatable.resize(width, 0);
        self.requested.resize(width, 0);
    }
}

#[derive(Clone, Debug)]
pub(super) struct ResourceColumns {
    names: IndexSet<Arc<str>, FxBuildHasher>,
    /// By resource. None if no node has any of it: a user who creates a pod can choose any name, and a column uses
    /// sixteen bytes per node.
    columns: Vec<Option<ResourceColumn>>,
    /// The column of every such resource.
    empty_column: ResourceColumn,
    requested_overflow: OverflowSums,
}

impl Default for ResourceColumns {
    fn default() -> ResourceColumns {
        let mut resources = ResourceColumns {
            names: IndexSet::default(),
            columns: Vec::new(),
            empty_column: ResourceColumn::default(),
            requested_overflow: OverflowSums::default(),
        };
        for name in ["cpu", "memory", "ephemeral-storage"] {
            let resource = resources.intern(name);
            resources.columns[resource.at()] = Some(ResourceColumn::default());
        }
        resources
    }
}

impl ResourceColumns {
    pub(super) fn intern(&mut self, name: &str) -> ResourceId {
        let at = self.names.get_index_of(name).unwrap_or_else(|| {
            self.columns.push(None);
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
        self.names.get_index(resource.0 as usize).expect("an id is created only with its name")
    }

    /// The column of a resource. For one that no node has, use [`requested`](Self::requested) for the requested
    /// amount.
    pub(super) fn column(&self, resource: ResourceId) -> &ResourceColumn {
        self.columns[resource.at()].as_ref().unwrap_or(&self.empty_column)
    }

    pub(super) fn requested(&self, resource: ResourceId, node: NodeIndex) -> i64 {
        match &self.columns[resource.at()] {
            Some(column) => column.requested[node.at()],
            None => self.requested_overflow.sum_without_column((resource, node)),
        }
    }

    pub(super) fn grow(&mut self, width: usize) {
        self.columns.iter_mut().flatten().for_each(|column| column.widen(width));
        self.empty_column.widen(width);
    }

    /// Returns whether the amount changed. The column exists while a node has some of the resource.
    pub(super) fn set_allocatable(&mut self, resource: ResourceId, node: NodeIndex, amount: i64) -> bool {
        let (slot, overflow) = (&mut self.columns[resource.at()], &mut self.requested_overflow);
        if slot.is_none() && amount == 0 {
            return false;
        }
        let column = slot.get_or_insert_with(|| {
            let mut column = ResourceColumn::of_width(self.empty_column.allocatable.len());
            overflow.move_to_column(resource, &mut column.requested);
            column
        });
        let before = std::mem::replace(&mut column.allocatable[node.at()], amount);
        column.allocatable_total += i128::from(amount) - i128::from(before);
        if column.allocatable_total == 0 && !resource.is_builtin() {
            overflow.move_from_column(resource, &column.requested);
            *slot = None;
        }
        before != amount
    }

    pub(super) fn clear_allocatable(&mut self, node: NodeIndex) {
        for resource in self.ids() {
            self.set_allocatable(resource, node, 0);
        }
    }

    pub(super) fn add_requested(&mut self, resource: ResourceId, node: NodeIndex, amount: i64) {
        match &mut self.columns[resource.at()] {
            Some(column) => self.requested_overflow.add(&mut column.requested[node.at()], (resource, node), amount),
            None => self.requested_overflow.add_without_column((resource, node), amount),
        }
    }
}

#[cfg(test)]
impl ResourceColumns {
    /// The number of sums without a column, or too large for it.
    pub(super) fn overflow_sums_count(&self) -> usize {
        self.requested_overflow.len()
    }

    /// The number of columns.
    pub(super) fn columns_count(&self) -> usize {
        self.columns.iter().flatten().count()
    }
}
