//! Pod groups as rows.

use api::Timestamp;
use serde_json::Value;

use super::{Column, NONE, Table, age, condition, or};
use crate::object::Object;

/// Name, Policy, Workload, Status, Age.
pub const TABLE: Table = Table {
    columns: &[
        Column::NAME,
        Column::text("Policy", "How the pods of the group are scheduled: one by one, or together as a gang."),
        Column::text("Workload", "The workload whose template the group was made from."),
        Column::text("Status", "Whether the group was placed."),
        Column::AGE,
    ],
    cells,
};

fn cells(group: &Object, now: Timestamp) -> Vec<Value> {
    let document = group.document();
    let gang = document["spec"]["schedulingPolicy"].get("gang").is_some();
    vec![
        group.name().into(),
        if gang { "Gang" } else { "Basic" }.into(),
        or(group.text(&["spec", "workloadRef", "workloadName"]), NONE).into(),
        status(&document["status"]).into(),
        age(group, now),
    ]
}

fn status(status: &Value) -> &str {
    if let Some(disrupted) = condition(status, "DisruptionTarget") {
        return disrupted["reason"].as_str().unwrap_or_default();
    }
    match condition(status, "PodGroupInitiallyScheduled") {
        None => "Pending",
        Some(condition) if condition["status"] == "True" => "Scheduled",
        Some(_) => "Unschedulable",
    }
}
