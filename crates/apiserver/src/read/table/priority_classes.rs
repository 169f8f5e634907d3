//! Priority classes as rows.

use serde_json::Value;

use super::{PrinterColumn, PrinterTable, age};

/// Name, Value, Global-Default, Age, PreemptionPolicy.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn { kind: "integer", ..PrinterColumn::text("Value", "Priority of the pods of this class.") },
        PrinterColumn {
            kind: "boolean",
            ..PrinterColumn::text("Global-Default", "Whether pods without a priority class have this priority.")
        },
        PrinterColumn::AGE,
        PrinterColumn::text("PreemptionPolicy", "Whether pods of this class may preempt others."),
    ],
    cells: |class, now| {
        let document = class.document();
        vec![
            class.name().into(),
            document["value"].as_i64().unwrap_or(0).into(),
            (document["globalDefault"] == Value::Bool(true)).into(),
            age(class, now),
            class.text(&["preemptionPolicy"]).into(),
        ]
    },
};
