//! PodGroups and CompositePodGroups as rows.

use api::Timestamp;
use serde_json::Value;

use super::{NONE, PrinterColumn, PrinterTable, age, condition, non_empty_or};
use crate::resources::object::ApiObject;

/// Name, Policy, Workload, Status, Age.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text("Policy", "How the pods of the group are scheduled: individually, or together as a gang."),
        PrinterColumn::text("Workload", "The workload whose template the group was created from."),
        PrinterColumn::text("Status", "Whether the group was scheduled."),
        PrinterColumn::AGE,
    ],
    cells,
};

/// Name, Policy, Workload, Age.
pub const COMPOSITE_TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text(
            "Policy",
            "How the groups of the composite are scheduled: individually, or together as a gang.",
        ),
        PrinterColumn::text("Workload", "The workload whose template the composite was created from."),
        PrinterColumn::AGE,
    ],
    cells: |group, now| vec![group.name().into(), policy(group), workload(group), age(group, now)],
};

fn policy(group: &ApiObject) -> Value {
    let gang = group.document()["spec"]["schedulingPolicy"].get("gang").is_some();
    if gang { "Gang" } else { "Basic" }.into()
}

fn workload(group: &ApiObject) -> Value {
    non_empty_or(group.text(&["spec", "workloadRef", "workloadName"]), NONE).into()
}

fn cells(group: &ApiObject, now: Timestamp) -> Vec<Value> {
    let status = status(&group.document()["status"]);
    vec![group.name().into(), policy(group), workload(group), status.into(), age(group, now)]
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
