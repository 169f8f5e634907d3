//! Namespaces as rows.

use super::{Column, Table, age};

/// Name, Status, Age.
pub const TABLE: Table = Table {
    columns: &[Column::NAME, Column::text("Status", "Whether the namespace is in use or going away."), Column::AGE],
    cells: |namespace, now| {
        vec![namespace.name().into(), namespace.text(&["status", "phase"]).into(), age(namespace, now)]
    },
};
