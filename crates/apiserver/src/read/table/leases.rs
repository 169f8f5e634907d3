//! Leases as rows.

use super::{PrinterColumn, PrinterTable, age};

/// Name, Holder, Age.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[PrinterColumn::NAME, PrinterColumn::text("Holder", "Identity of the holder."), PrinterColumn::AGE],
    cells: |lease, now| vec![lease.name().into(), lease.text(&["spec", "holderIdentity"]).into(), age(lease, now)],
};
