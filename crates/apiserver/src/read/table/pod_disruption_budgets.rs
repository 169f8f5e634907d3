//! Pod disruption budgets as rows.

use serde_json::Value;

use super::{PrinterColumn, PrinterTable, age};

/// Name, Min Available, Max Unavailable, Allowed Disruptions, Age.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text("Min Available", "Number of pods that must be available."),
        PrinterColumn::text("Max Unavailable", "Number of pods that may be unavailable."),
        PrinterColumn {
            kind: "integer",
            ..PrinterColumn::text("Allowed Disruptions", "Number of pods that may be evicted now.")
        },
        PrinterColumn::AGE,
    ],
    cells: |budget, now| {
        let document = budget.document();
        let amount = |field: &str| match &document["spec"][field] {
            Value::Null => "N/A".into(),
            Value::String(text) => text.as_str().into(),
            number => number.to_string().into(),
        };
        let allowed = document["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
        vec![budget.name().into(), amount("minAvailable"), amount("maxUnavailable"), allowed.into(), age(budget, now)]
    },
};
