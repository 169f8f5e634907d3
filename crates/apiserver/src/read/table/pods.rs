//! Pods as rows. The status is derived from the containers; the last one with a reason wins.

use std::collections::BTreeSet;

use api::Timestamp;
use serde_json::Value;

use super::{NONE, PrinterColumn, PrinterTable, age, condition, is_true, items, non_empty_or, since};
use crate::resources::object::ApiObject;

/// Name, Ready, Status, Restarts, Age; wide: IP, Node, Nominated Node, Readiness Gates.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text("Ready", "Number of ready containers and number of containers."),
        PrinterColumn::text("Status", "The state of the pod."),
        PrinterColumn::text("Restarts", "Number of container restarts and time of the last one."),
        PrinterColumn::AGE,
        PrinterColumn::wide("IP", "Address of the pod."),
        PrinterColumn::wide("Node", "The node of the pod."),
        PrinterColumn::wide("Nominated Node", "The node on which preemption frees capacity for the pod."),
        PrinterColumn::wide("Readiness Gates", "Number of readiness gates that are met and number of readiness gates."),
    ],
    cells,
};

fn cells(pod: &ApiObject, now: Timestamp) -> Vec<Value> {
    let status = &pod.document()["status"];
    let summary = ContainerSummary::from_pod(pod);
    let first_ip = items(&status["podIPs"]).first().and_then(|ip| ip["ip"].as_str());
    let gates = items(&pod.document()["spec"]["readinessGates"]);
    let met = gates.iter().filter(|gate| gate["conditionType"].as_str().is_some_and(|kind| is_true(status, kind)));
    let gates = if gates.is_empty() { NONE.to_owned() } else { format!("{}/{}", met.count(), gates.len()) };
    vec![
        pod.name().into(),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.state.into(),
        summary.restarts.text(now).into(),
        age(pod, now),
        non_empty_or(first_ip.unwrap_or(pod.text(&["status", "podIP"])), NONE).into(),
        non_empty_or(pod.text(&["spec", "nodeName"]), NONE).into(),
        non_empty_or(pod.text(&["status", "nominatedNodeName"]), NONE).into(),
        gates.into(),
    ]
}

/// The states of a pod's containers.
struct ContainerSummary<'a> {
    state: String,
    ready: usize,
    /// How many run as long as the pod does, sidecars included.
    containers: usize,
    restarts: Restarts<'a>,
    /// The restarts of sidecars: init containers that keep running.
    sidecar_restarts: Restarts<'a>,
}

impl<'a> ContainerSummary<'a> {
    fn from_pod(pod: &'a ApiObject) -> ContainerSummary<'a> {
        let (spec, status) = (&pod.document()["spec"], &pod.document()["status"]);
        let mut summary = ContainerSummary {
            state: first_state(pod),
            ready: 0,
            containers: items(&spec["containers"]).len()
                + items(&spec["initContainers"]).iter().filter(|container| is_sidecar(container)).count(),
            restarts: Restarts::default(),
            sidecar_restarts: Restarts::default(),
        };
        let initializing = summary.summarize_init_containers(spec, status);
        // The status of an initialized pod comes from its containers, not from its init containers.
        if !initializing || is_true(status, "Initialized") {
            // Restarts of completed init containers no longer count.
            summary.restarts = summary.sidecar_restarts;
            summary.summarize_containers(status);
        }
        if pod.is_deleting() {
            if status["reason"] == "NodeLost" {
                summary.state = "Unknown".to_owned();
            } else if !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
                summary.state = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Whether the pod still waits for an init container, whose state is then the pod's.
    fn summarize_init_containers(&mut self, spec: &Value, status: &'a Value) -> bool {
        let declared = items(&spec["initContainers"]);
        let sidecars = declared.iter().filter(|container| is_sidecar(container));
        let sidecars: BTreeSet<&str> = sidecars.filter_map(|container| container["name"].as_str()).collect();
        let sidecar = |name: &Value| name.as_str().is_some_and(|name| sidecars.contains(name));
        let mut waiting = None;
        for (index, container) in items(&status["initContainerStatuses"]).iter().enumerate() {
            self.restarts.count_in(container);
            let (ended, pending) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            let is_sidecar = sidecar(&container["name"]);
            if is_sidecar {
                self.sidecar_restarts.count_in(container);
            }
            if is_sidecar && container["started"] == Value::Bool(true) {
                self.ready += usize::from(container["ready"] == Value::Bool(true));
                continue;
            }
            if waiting.is_some() || (ended.is_object() && ended["exitCode"].as_i64().unwrap_or(0) == 0) {
                continue;
            }
            waiting = Some(match pending["reason"].as_str() {
                _ if ended.is_object() => format!("Init:{}", termination_reason(ended)),
                Some(reason) if !matches!(reason, "" | "PodInitializing") => format!("Init:{reason}"),
                _ => format!("Init:{index}/{}", declared.len()),
            });
        }
        let is_waiting = waiting.is_some();
        self.state = waiting.unwrap_or_else(|| std::mem::take(&mut self.state));
        is_waiting
    }

    /// The pod has the state of the first container that reports one.
    fn summarize_containers(&mut self, status: &'a Value) {
        let mut running = false;
        let mut reported = None;
        for container in items(&status["containerStatuses"]) {
            self.restarts.count_in(container);
            let state = &container["state"];
            match state["waiting"]["reason"].as_str() {
                Some(reason) if !reason.is_empty() => reported = reported.or_else(|| Some(reason.to_owned())),
                _ if state["terminated"].is_object() => {
                    reported = reported.or_else(|| Some(termination_reason(&state["terminated"])))
                }
                _ if state["running"].is_object() && container["ready"] == Value::Bool(true) => {
                    running = true;
                    self.ready += 1;
                }
                _ => {}
            }
        }
        if let Some(reported) = reported {
            self.state = reported;
        }
        // One container has completed while another one runs, so the pod runs.
        if self.state == "Completed" && running {
            self.state = if is_true(status, "Ready") { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

/// The status of the pod when no container reports one.
fn first_state(pod: &ApiObject) -> String {
    let status = &pod.document()["status"];
    let gated = condition(status, "PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated");
    match pod.text(&["status", "reason"]) {
        _ if gated => "SchedulingGated".to_owned(),
        "" => pod.text(&["status", "phase"]).to_owned(),
        reason => reason.to_owned(),
    }
}

/// A sidecar: an init container that keeps running.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// How a container terminated.
fn termination_reason(terminated: &Value) -> String {
    match (terminated["reason"].as_str().unwrap_or_default(), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[derive(Clone, Copy, Default)]
struct Restarts<'a> {
    count: i64,
    /// When the latest run that was followed by a restart ended. RFC 3339 in UTC, so texts compare as times.
    last: &'a str,
}

impl<'a> Restarts<'a> {
    fn count_in(&mut self, container: &'a Value) {
        self.count += container["restartCount"].as_i64().unwrap_or(0);
        let ended = container["lastState"]["terminated"]["finishedAt"].as_str().unwrap_or_default();
        self.last = self.last.max(ended);
    }

    fn text(&self, now: Timestamp) -> String {
        match (self.count, self.last) {
            (0, _) | (_, "") => self.count.to_string(),
            (count, last) => format!("{count} ({} ago)", since(last, now)),
        }
    }
}
