//! Compares the tables of both servers: columns and cells.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use ::kube::Client;
use anyhow::{Context, ensure};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::compare::mask_uids;
use super::corpus;
use super::kinds::ComparedKind;
use super::requests;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Cells that depend on the server's clock. Other times of the corpus are years ago, so that a second makes no
/// difference.
const CLOCK_COLUMNS: [&str; 1] = ["Age"];

/// An object to print in several states.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableObject {
    object: Value,
    #[serde(default)]
    statuses: Vec<Value>,
    /// Whether it is printed while it is being deleted.
    #[serde(default)]
    deleted: bool,
}

/// How many rows were compared, and those that differ.
#[derive(Debug, Default)]
pub struct TableComparison {
    pub rows: usize,
    pub differences: Vec<String>,
}

impl TableComparison {
    /// The report.
    pub fn text(&self) -> String {
        let mut text = format!("tables: {} rows, {} differ\n", self.rows, self.differences.len());
        for difference in &self.differences {
            let _ = writeln!(text, "\n{difference}");
        }
        text
    }
}

/// Prints every object of the corpus of `kinds`, in every state, with both servers.
pub async fn compare(
    root: &Path,
    theirs: &Client,
    ours: &Client,
    kinds: &[ComparedKind],
) -> anyhow::Result<TableComparison> {
    let path = root.join("tests/kube/corpus/rows.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rows: Vec<TableObject> = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
    let mut compared = TableComparison::default();
    for (place, kind) in kinds.iter().enumerate() {
        let of_kind = |object_states: &&TableObject| object_states.object["kind"] == kind.kind;
        let bases = corpus::read(root, kind)?.into_iter();
        let bases = bases.map(|base| TableObject { object: base.object, statuses: base.statuses, deleted: false });
        for (number, mut object_states) in bases.chain(rows.iter().filter(of_kind).cloned()).enumerate() {
            object_states.object["apiVersion"] = kind.api_version().into();
            // As created, then in each of its states.
            for state in [None].into_iter().chain((0..object_states.statuses.len()).map(Some)) {
                let name = format!("row-{}{place}-{number}-{}", kind.plural, state.map_or(0, |state| state + 1));
                let (a, b) = futures::future::try_join(
                    fetch_table(theirs, kind, &object_states, state, &name),
                    fetch_table(ours, kind, &object_states, state, &name),
                )
                .await?;
                compared.rows += 1;
                compared.differences.extend(difference(&a, &b).map(|how| {
                    let status = state.map_or(&Value::Null, |state| &object_states.statuses[state]);
                    format!("{} {name}, {status}\n{how}", kind.title())
                }));
            }
        }
    }
    Ok(compared)
}

/// The object's table after it is created and has the status.
async fn fetch_table(
    client: &Client,
    kind: &ComparedKind,
    object_states: &TableObject,
    state: Option<usize>,
    name: &str,
) -> anyhow::Result<Value> {
    let (collection, one) = (kind.path(), format!("{}/{name}", kind.path()));
    let mut object = object_states.object.clone();
    object["metadata"]["name"] = name.into();
    let mut response = requests::send(client, Method::POST, &collection, object.to_string().into_bytes()).await?;
    if let (Some(state), Some(mut made)) = (state, response.object.clone()) {
        made["status"] = object_states.statuses[state].clone();
        response = requests::send(client, Method::PUT, &format!("{one}/status"), made.to_string().into_bytes()).await?;
    }
    ensure!(response.is_accepted(), "{} {name}: {}", kind.title(), response.message);
    if object_states.deleted {
        let response = requests::send(client, Method::DELETE, &one, b"{}".to_vec()).await?;
        ensure!(response.is_accepted(), "{} {name}: {}", kind.title(), response.message);
    }
    let table = requests::send_accepting(client, Method::GET, &one, Vec::new(), TABLE).await?;
    if kind.sequential {
        requests::send(client, Method::DELETE, &one, b"{}".to_vec()).await?;
    }
    table.object.with_context(|| format!("{} {name}: {}", kind.title(), table.message))
}

/// Where two tables of one object differ. Descriptions of columns may differ.
fn difference(theirs: &Value, ours: &Value) -> Option<String> {
    let (a, b) = (cells(theirs), cells(ours));
    let mut text = String::new();
    let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
    for name in names.filter(|name| a.get(*name) != b.get(*name)) {
        let cell =
            |cells: &BTreeMap<String, Value>| cells.get(name).map_or("no such column".to_owned(), Value::to_string);
        let _ = writeln!(text, "  {name}\n    theirs: {}\n    ours:   {}", cell(&a), cell(&b));
    }
    (!text.is_empty()).then_some(text)
}

/// The cells of the first row by column, each with its column definition.
fn cells(table: &Value) -> BTreeMap<String, Value> {
    let columns = table["columnDefinitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cells = &table["rows"][0]["cells"];
    let cell = |(index, column): (usize, &Value)| {
        let name = column["name"].as_str().unwrap_or_default();
        let text = mask_uids(&cells[index].to_string());
        let text = if CLOCK_COLUMNS.contains(&name) { json!("masked") } else { json!(text) };
        let column = json!([index, column["type"], column["format"], column["priority"], text]);
        (name.to_owned(), column)
    };
    columns.iter().enumerate().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::difference;

    fn table(columns: &[(&str, i32)], cells: &Value) -> Value {
        let columns: Vec<Value> = columns
            .iter()
            .map(|(name, priority)| json!({"name": name, "type": "string", "format": "", "priority": priority}))
            .collect();
        json!({"columnDefinitions": columns, "rows": [{"cells": cells}]})
    }

    #[test]
    fn columns_and_cells_count_and_ages_do_not() {
        let columns = [("Name", 0), ("Age", 0), ("IP", 1)];
        let one = table(&columns, &json!(["a", "1s", "<none>"]));
        assert_eq!(difference(&one, &table(&columns, &json!(["a", "2s", "<none>"]))), None);
        for other in [
            table(&columns, &json!(["b", "1s", "<none>"])),
            table(&[("Name", 0), ("Age", 0), ("IP", 0)], &json!(["a", "1s", "<none>"])),
            table(&[("Name", 0), ("IP", 1), ("Age", 0)], &json!(["a", "<none>", "1s"])),
            table(&columns[..2], &json!(["a", "1s"])),
        ] {
            assert!(difference(&one, &other).is_some(), "{other}");
        }
    }
}
