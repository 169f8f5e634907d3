//! Prints the tables of a server (`meta.k8s.io/v1 Table`) in columns.

use std::io::{self, Write};

use api::Timestamp;
use serde_json::Value;

use crate::client::api_request::{items, text};

/// Spaces between columns.
const GAP: usize = 3;

/// Rows of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectTable {
    /// Headers, from left to right; empty in the events of a watch.
    pub columns: Vec<TableColumn>,
    /// Rows.
    pub rows: Vec<TableRow>,
}

/// The header of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// The header text.
    pub name: String,
    /// Whether only `-o wide` shows it.
    pub is_wide: bool,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRow {
    /// Texts, one for each column.
    pub cells: Vec<String>,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's version.
    pub resource_version: String,
}

impl ObjectTable {
    /// Reads a response: a table, a list or one object. Without a table the columns are NAME and AGE.
    pub fn read(response: &Value, now: Timestamp) -> ObjectTable {
        if response["kind"] == "Table" {
            let column = |head: &Value| TableColumn {
                name: text(&head["name"]),
                is_wide: head["priority"].as_i64().unwrap_or(0) > 0,
            };
            let row = |row: &Value| TableRow {
                cells: items(&row["cells"]).map(cell).collect(),
                ..TableRow::from_metadata(&row["object"]["metadata"])
            };
            return ObjectTable {
                columns: items(&response["columnDefinitions"]).map(column).collect(),
                rows: items(&response["rows"]).map(row).collect(),
            };
        }
        let columns = ["Name", "Age"].map(|name| TableColumn { name: name.to_owned(), is_wide: false }).to_vec();
        let row = |object: &Value| {
            let base = TableRow::from_metadata(&object["metadata"]);
            let age = age(&object["metadata"]["creationTimestamp"], now);
            TableRow { cells: vec![base.name.clone(), age], ..base }
        };
        let rows = match response["items"].as_array() {
            Some(objects) => objects.iter().map(row).collect(),
            None => vec![row(response)],
        };
        ObjectTable { columns, rows }
    }
}

impl TableRow {
    fn from_metadata(metadata: &Value) -> TableRow {
        TableRow {
            cells: Vec::new(),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            resource_version: text(&metadata["resourceVersion"]),
        }
    }
}

/// Prints several tables of one kind under one header, with equal column widths.
#[derive(Default)]
pub struct TablePrinter {
    wide: bool,
    namespaces: bool,
    prefix: String,
    columns: Vec<TableColumn>,
    widths: Vec<usize>,
}

impl TablePrinter {
    /// Shows every column if `wide`, the namespace first if `namespaces`, and `prefix` before names: `job.batch/`.
    pub fn new(wide: bool, namespaces: bool, prefix: String) -> TablePrinter {
        TablePrinter { wide, namespaces, prefix, ..TablePrinter::default() }
    }

    /// Prints `table`; the header only once.
    pub fn print(&mut self, table: &ObjectTable, out: &mut dyn Write) -> io::Result<()> {
        let mut lines = Vec::new();
        if self.columns.is_empty() && !table.columns.is_empty() {
            self.columns.clone_from(&table.columns);
            let headers: Vec<String> = self.columns.iter().map(|column| column.name.to_uppercase()).collect();
            lines.push(self.visible_cells("NAMESPACE", &headers, ""));
        }
        lines.extend(table.rows.iter().map(|row| self.visible_cells(&row.namespace, &row.cells, &self.prefix)));
        for line in &lines {
            self.widths.resize(self.widths.len().max(line.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for line in lines {
            let mut text = String::new();
            for (cell, width) in line.iter().zip(&self.widths) {
                let spaces = width + GAP - cell.chars().count();
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', spaces));
            }
            writeln!(out, "{}", text.trim_end())?;
        }
        out.flush()
    }

    fn visible_cells(&self, namespace: &str, cells: &[String], prefix: &str) -> Vec<String> {
        let own = cells.iter().zip(&self.columns).enumerate().filter(|(_, (_, column))| self.wide || !column.is_wide);
        let own = own.map(|(at, (cell, _))| if at == 0 { format!("{prefix}{cell}") } else { cell.clone() });
        self.namespaces.then(|| namespace.to_owned()).into_iter().chain(own).collect()
    }
}

/// A cell in one line.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match text.split_once('\n') {
            Some((first, _)) => format!("{first}..."),
            None => text.clone(),
        },
        other => other.to_string(),
    }
}

/// The age of the time `value` (RFC 3339), in the form of kubectl.
pub fn age(value: &Value, now: Timestamp) -> String {
    let Some(then) = value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else {
        return "<unknown>".to_owned();
    };
    let seconds = (now.as_second() - then.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: char, small: i64, smaller: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{smaller}"),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-01-02T00:00:00Z".parse().unwrap()
    }

    fn printed(printer: &mut TablePrinter, responses: &[Value]) -> String {
        let mut out = Vec::new();
        for response in responses {
            printer.print(&ObjectTable::read(response, now()), &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    fn pods() -> Value {
        json!({
            "kind": "Table",
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Restarts"}, {"name": "Node", "priority": 1}],
            "rows": [
                {"cells": ["a", 0, "n1"], "object": {"metadata": {"name": "a", "namespace": "x"}}},
                {"cells": ["longer", 12, null], "object": {"metadata": {"name": "longer", "namespace": "y"}}},
            ],
        })
    }

    #[test]
    fn columns_are_aligned_and_wide_ones_need_the_wide_format() {
        assert_eq!(printed(&mut TablePrinter::default(), &[pods()]), "NAME     RESTARTS\na        0\nlonger   12\n");
        let mut wide = TablePrinter::new(true, true, "pod/".into());
        let want = "\
NAMESPACE   NAME         RESTARTS   NODE
x           pod/a        0          n1
y           pod/longer   12
";
        assert_eq!(printed(&mut wide, &[pods()]), want);
    }

    #[test]
    fn later_rows_of_a_watch_have_the_same_columns() {
        let event = json!({"kind": "Table", "rows": [{"cells": ["b", 1, "n2"]}]});
        let text = printed(&mut TablePrinter::default(), &[pods(), event]);
        assert!(text.ends_with("longer   12\nb        1\n"), "{text}");
    }

    #[test]
    fn without_a_table_name_and_age_are_shown() {
        let object = json!({"kind": "Pod", "metadata": {"name": "a", "creationTimestamp": "2026-01-01T23:57:30Z"}});
        let list = json!({"kind": "PodList", "items": [object]});
        for response in [object, list] {
            assert_eq!(printed(&mut TablePrinter::default(), &[response]), "NAME   AGE\na      2m30s\n");
        }
    }

    #[test]
    fn a_cell_is_one_line() {
        assert_eq!(cell(&json!("one\ntwo")), "one...");
        assert_eq!(cell(&json!(null)), "");
    }

    #[test]
    fn ages_have_the_form_of_kubectl() {
        for (then, want) in [
            ("2026-01-02T00:00:05Z", "0s"),
            ("2026-01-01T23:58:01Z", "119s"),
            ("2026-01-01T23:55:00Z", "5m"),
            ("2026-01-01T23:00:00Z", "60m"),
            ("2026-01-01T20:30:00Z", "3h30m"),
            ("2026-01-01T00:00:00Z", "24h"),
            ("2025-12-30T22:00:00Z", "2d2h"),
            ("2025-12-02T00:00:00Z", "31d"),
            ("soon", "<unknown>"),
        ] {
            assert_eq!(age(&json!(then), now()), want, "{then}");
        }
    }
}
