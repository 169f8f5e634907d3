//! Nodes as rows.

use std::collections::BTreeSet;

use api::Timestamp;
use serde_json::Value;

use super::{NONE, PrinterColumn, PrinterTable, UNKNOWN, age, condition, items, non_empty_or};
use crate::resources::object::ApiObject;

/// Name, Status, Roles, Age, Version; wide: Internal-IP, External-IP, OS-Image, Kernel-Version, Container-Runtime.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text("Status", "Whether the node accepts pods."),
        PrinterColumn::text("Roles", "Roles of the node, from its labels."),
        PrinterColumn::AGE,
        PrinterColumn::text("Version", "Version of the kubelet."),
        PrinterColumn::wide("Internal-IP", "Address inside the cluster."),
        PrinterColumn::wide("External-IP", "Address outside the cluster."),
        PrinterColumn::wide("OS-Image", "Operating system."),
        PrinterColumn::wide("Kernel-Version", "Kernel of the operating system."),
        PrinterColumn::wide("Container-Runtime", "Container runtime."),
    ],
    cells,
};

fn cells(node: &ApiObject, now: Timestamp) -> Vec<Value> {
    let info = |field: &str| node.text(&["status", "nodeInfo", field]);
    let address = |kind: &str| {
        let addresses = items(&node.document()["status"]["addresses"]);
        let found = addresses.iter().find(|address| address["type"] == kind);
        found.and_then(|address| address["address"].as_str()).unwrap_or(NONE)
    };
    vec![
        node.name().into(),
        state(node).into(),
        roles(node).into(),
        age(node, now),
        info("kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        non_empty_or(info("osImage"), UNKNOWN).into(),
        non_empty_or(info("kernelVersion"), UNKNOWN).into(),
        non_empty_or(info("containerRuntimeVersion"), UNKNOWN).into(),
    ]
}

fn state(node: &ApiObject) -> String {
    let ready = match condition(&node.document()["status"], "Ready") {
        None => "Unknown",
        Some(ready) if ready["status"] == "True" => "Ready",
        Some(_) => "NotReady",
    };
    let unschedulable = node.document()["spec"]["unschedulable"] == Value::Bool(true);
    format!("{ready}{}", if unschedulable { ",SchedulingDisabled" } else { "" })
}

/// From `node-role.kubernetes.io/ROLE`, and from the older `kubernetes.io/role: ROLE`.
fn roles(node: &ApiObject) -> String {
    let labels = node.metadata().get("labels").and_then(Value::as_object).into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => value.as_str().filter(|_| key == "kubernetes.io/role"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}
