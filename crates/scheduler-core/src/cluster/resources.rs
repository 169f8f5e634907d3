//! Resource names and their columns.

use types::quantity::Quantity;

use super::NodeIndex;
use super::names::InternTable;
use super::overflow_sums::OverflowSums;

/// A resource, by the number of its name. CPU counts in thousandths, all others in whole units (bytes, devices).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceId(u32);

impl ResourceId {
    pub(crate) const CPU: ResourceId = ResourceId(0);
    pub(crate) const MEMORY: ResourceId = ResourceId(1);
    pub(crate) const EPHEMERAL_STORAGE: ResourceId = ResourceId(2);

    pub(super) fn at(self) -> usize {
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
    names: InternTable,
    /// By resource. None if no node has any of it: a user who creates a pod can choose any name, and a column uses
    /// sixteen bytes per node.
    columns: Vec<Option<ResourceColumn>>,
    /// The column of every such resource.
    empty_column: ResourceColumn,
    requested_overflow: OverflowSums,
}

impl Default for ResourceColumns {
    fn default() -> ResourceColumns {
        let builtin = ["cpu", "memory", "ephemeral-storage"];
        ResourceColumns {
            names: InternTable::with(&builtin, 64),
            columns: builtin.map(|_| Some(ResourceColumn::default())).into(),
            empty_column: ResourceColumn::default(),
            requested_overflow: OverflowSums::default(),
        }
    }
}

impl ResourceColumns {
    pub(super) fn intern(&mut self, name: &str) -> ResourceId {
        let resource = ResourceId(self.names.intern(name));
        if self.columns.len() == resource.at() {
            self.columns.push(None);
        }
        resource
    }

    pub(super) fn find(&self, name: &str) -> Option<ResourceId> {
        self.names.get(name).map(ResourceId)
    }

    pub(super) fn names(&self) -> &InternTable {
        &self.names
    }

    pub(super) fn names_mut(&mut self) -> &mut InternTable {
        &mut self.names
    }

    /// The resources that nodes have, or that pods on nodes request.
    pub(super) fn used(&self) -> impl Iterator<Item = ResourceId> + '_ {
        let with_column = self.ids().filter(|resource| self.columns[resource.at()].is_some());
        with_column.chain(self.requested_overflow.resources())
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ResourceId> + use<> {
        (0..self.columns.len() as u32).map(ResourceId)
    }

    pub(super) fn name(&self, resource: ResourceId) -> &str {
        self.names.text(resource.0)
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

impl ResourceColumns {
    /// Sets what is requested on a node to zero, of every resource with a column. Returns the exact sums, for
    /// [`restore_requested`](Self::restore_requested).
    pub(super) fn take_requested(&mut self, node: NodeIndex) -> Vec<(ResourceId, i128)> {
        let mut taken = Vec::with_capacity(self.columns.len());
        for resource in self.ids() {
            if let Some(column) = &mut self.columns[resource.at()] {
                let entry = &mut column.requested[node.at()];
                taken.push((resource, self.requested_overflow.take(entry, (resource, node))));
            }
        }
        taken
    }

    /// Restores what was requested on a node.
    pub(super) fn restore_requested(&mut self, node: NodeIndex, taken: &[(ResourceId, i128)]) {
        for (resource, sum) in taken {
            if let Some(column) = &mut self.columns[resource.at()] {
                self.requested_overflow.restore(&mut column.requested[node.at()], (*resource, node), *sum);
            }
        }
    }
}

#[cfg(test)]
impl ResourceColumns {
    /// The number of sums without a column, or too large for it.
    pub(super) fn overflow_sums_count(&self) -> usize {
        self.requested_overflow.len()
    }

    /// The resources that were not freed.
    pub(super) fn named(&self) -> Vec<ResourceId> {
        self.ids().filter(|resource| self.names.has(resource.0)).collect()
    }

    /// The number of columns.
    pub(super) fn columns_count(&self) -> usize {
        self.columns.iter().flatten().count()
    }
}
