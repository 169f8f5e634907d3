//! Namespaces as rows.

use super::{PrinterColumn, PrinterTable, age};

/// Name, Status, Age.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text("Status", "Whether the namespace is active or being deleted."),
        PrinterColumn::AGE,
    ],
    cells: |namespace, now| {
        vec![namespace.name().into(), namespace.text(&["status", "phase"]).into(), age(namespace, now)]
    },
};
