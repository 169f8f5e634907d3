//! Jobs as rows.

use api::Timestamp;
use serde_json::Value;

use super::{NONE, PrinterColumn, PrinterTable, age, duration_between, is_true, items};
use crate::resources::object::ApiObject;

/// Name, Status, Completions, Duration, Age; wide: Containers, Images, Selector.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text("Status", "The state of the Job."),
        PrinterColumn::text("Completions", "Number of succeeded pods and number of completions."),
        PrinterColumn::text("Duration", "Time from start to completion, or until now."),
        PrinterColumn::AGE,
        PrinterColumn::wide("Containers", "Names of the containers in the template."),
        PrinterColumn::wide("Images", "Images of the containers in the template."),
        PrinterColumn::wide("Selector", "Label selector of the Job's pods."),
    ],
    cells,
};

fn cells(job: &ApiObject, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job.document()["spec"], &job.document()["status"]);
    let start = status["startTime"].as_str().unwrap_or_default();
    let end = status["completionTime"].as_str().unwrap_or_default();
    vec![
        job.name().into(),
        state(job).into(),
        completions(spec, status).into(),
        if start.is_empty() { String::new() } else { duration_between(start, end, now) }.into(),
        age(job, now),
        containers(spec, "name").into(),
        containers(spec, "image").into(),
        selector(&spec["selector"]).into(),
    ]
}

/// One field of every container in the pod template of a Job's spec.
pub(super) fn containers(spec: &Value, field: &str) -> String {
    let containers = items(&spec["template"]["spec"]["containers"]).iter();
    let texts: Vec<&str> = containers.filter_map(|container| container[field].as_str()).collect();
    texts.join(",")
}

fn state(job: &ApiObject) -> &'static str {
    let status = &job.document()["status"];
    for finished in ["Complete", "Failed"] {
        if is_true(status, finished) {
            return finished;
        }
    }
    if job.is_deleting() {
        return "Terminating";
    }
    ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
        .into_iter()
        .find(|kind| is_true(status, kind))
        .unwrap_or("Running")
}

/// Without `completions` any pod that succeeds completes the Job.
fn completions(spec: &Value, status: &Value) -> String {
    let succeeded = status["succeeded"].as_i64().unwrap_or(0);
    match (spec["completions"].as_i64(), spec["parallelism"].as_i64().unwrap_or(0)) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

/// The selector in query syntax: `a=b,c in (d,e),!f`, sorted by key.
pub(super) fn selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms: Vec<(&str, String)> =
        labels.map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default()))).collect();
    for expression in items(&selector["matchExpressions"]) {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = items(&expression["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    if terms.is_empty() { NONE.to_owned() } else { terms.join(",") }
}
