//! Objects as rows of a table: the columns and cells of a kind.

mod duration; // durations as kubectl prints them
pub mod cron_jobs;
pub mod events;
pub mod jobs;
pub mod leases;
pub mod namespaces;
pub mod nodes;
pub mod pod_disruption_budgets;
pub mod pod_groups;
pub mod pods;
pub mod priority_classes;

use api::Timestamp;
use serde_json::{Value, json};

use crate::resources::object::ApiObject;

/// A cell without a value.
pub const NONE: &str = "<none>";

/// A cell whose value is unknown.
pub const UNKNOWN: &str = "<unknown>";

/// How a kind is shown as a table.
#[derive(Clone, Copy, Debug)]
pub struct PrinterTable {
    /// The columns, in order.
    pub columns: &'static [PrinterColumn],
    /// The cells of one object, one per column.
    pub cells: fn(&ApiObject, Timestamp) -> Vec<Value>,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct PrinterColumn {
    /// Its heading, before it is printed in capitals.
    pub name: &'static str,
    /// `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// `name` for the column with the object's name.
    pub format: &'static str,
    /// Zero: always shown; one: only in wide output.
    pub priority: u8,
    /// The description of the column.
    pub description: &'static str,
}

impl PrinterColumn {
    /// The object's name.
    pub const NAME: PrinterColumn = PrinterColumn {
        format: "name",
        ..PrinterColumn::text("Name", "Name of the object, unique among its kind in its namespace.")
    };

    /// The time since the object was created.
    pub const AGE: PrinterColumn = PrinterColumn::text("Age", "Time since the object was created.");

    /// A text column that is always shown.
    pub const fn text(name: &'static str, description: &'static str) -> PrinterColumn {
        PrinterColumn { name, kind: "string", format: "", priority: 0, description }
    }

    /// A text column that is shown only in wide output.
    pub const fn wide(name: &'static str, description: &'static str) -> PrinterColumn {
        PrinterColumn { priority: 1, ..PrinterColumn::text(name, description) }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

impl PrinterTable {
    /// A kind of which only name and age are shown.
    pub const PLAIN: PrinterTable = PrinterTable {
        columns: &[PrinterColumn::NAME, PrinterColumn::AGE],
        cells: |object, now| vec![object.name().into(), age(object, now)],
    };

    /// The column definitions as JSON.
    pub fn definitions(&self) -> String {
        Value::Array(self.columns.iter().map(PrinterColumn::definition).collect()).to_string()
    }
}

/// The time since the object was created.
pub fn age(object: &ApiObject, now: Timestamp) -> Value {
    since(object.text(&["metadata", "creationTimestamp"]), now).into()
}

/// The time since a timestamp in the document.
pub fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => duration::human(now.duration_since(time)),
        Err(_) => UNKNOWN.to_owned(),
    }
}

/// The time between two timestamps, or from the first one until now.
pub fn duration_between(from: &str, to: &str, now: Timestamp) -> String {
    since(from, to.parse().unwrap_or(now))
}

/// `text`, or the placeholder when it is empty.
pub fn non_empty_or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// The items of a list; none when there is no list.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The condition of this type in `status`.
pub fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    items(&status["conditions"]).iter().find(|condition| condition["type"] == kind)
}

/// Whether there is such a condition and it is `True`.
pub fn is_true(status: &Value, kind: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition["status"] == "True")
}
