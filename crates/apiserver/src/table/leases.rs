//! Leases as rows.

use super::{Column, Table, age};

/// Name, Holder, Age.
pub const TABLE: Table = Table {
    columns: &[Column::NAME, Column::text("Holder", "Who holds the lease."), Column::AGE],
    cells: |lease, now| vec![lease.name().into(), lease.text(&["spec", "holderIdentity"]).into(), age(lease, now)],
};
