//! Where each pod is: a table by domain and node, or one JSON document.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::views::{NodeView, PodPhase, PodView};
use comfy_table::{CellAlignment, Table, TableStyle};
use scheduler_core::{Refusal, Remedy, RemedyStatus};
use serde_json::{Value, json};

use crate::run::progress::{GroupPolicy, TrackedWork, WorkState};
use crate::run::warnings::WarningLog;

/// Work on more nodes than this gets one row per domain instead of one per node.
const MAX_NODE_ROWS: usize = 32;

/// The labels whose value is shown as domain, by preference, for groups without a topology key.
pub const DOMAIN_KEYS: [&str; 2] = ["topology.kubernetes.io/rack", "topology.kubernetes.io/zone"];

/// The input of the report.
pub struct RunReport<'a> {
    /// All work.
    pub works: &'a [TrackedWork],
    /// Nodes by name.
    pub nodes: BTreeMap<String, Arc<NodeView>>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Pods of one piece of work on one node.
struct NodeRow<'a> {
    domain: String,
    node: &'a str,
    pods: Vec<&'a PodView>,
}

impl RunReport<'_> {
    /// The table, with a header. Each row is a node (or a domain) and its pods.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(TableStyle::new());
        table.set_header(["WORK", "POLICY", "STATE", "DOMAIN", "NODE", "PODS", "WHICH"]);
        for work in self.works {
            let mut first = [work.title.clone(), policy_text(work.policy), work.state.as_str().to_owned()];
            for place in self.placement_rows(work) {
                table.add_row(first.into_iter().chain(place));
                first = Default::default();
            }
        }
        table.column_iter_mut().for_each(|column| _ = column.set_padding((0, 2)));
        if let Some(count) = table.column_mut(5) {
            count.set_cell_alignment(CellAlignment::Right);
        }
        table.trim_fmt()
    }

    /// The last four columns, one entry a row.
    fn placement_rows(&self, work: &TrackedWork) -> Vec<[String; 4]> {
        let rows = self.rows(work);
        let unplaced = work.pods.iter().filter(|pod| pod.node_name().is_none()).count();
        let mut places: Vec<[String; 4]> = if rows.len() > MAX_NODE_ROWS {
            domain_rows(&rows)
        } else {
            let text = |row: &NodeRow| {
                [row.domain.clone(), row.node.to_owned(), row.pods.len().to_string(), pod_names_text(&row.pods)]
            };
            rows.iter().map(text).collect()
        };
        if unplaced > 0 || places.is_empty() {
            let note = work.schedule.clone().unwrap_or_else(|| "not placed".to_owned());
            places.push(["-".to_owned(), "-".to_owned(), unplaced.to_string(), note]);
        }
        places
    }

    fn rows<'a>(&'a self, work: &'a TrackedWork) -> Vec<NodeRow<'a>> {
        let mut by_node: BTreeMap<(String, NodeOrder<'a>), Vec<&'a PodView>> = BTreeMap::new();
        for pod in &work.pods {
            if let Some(node) = pod.node_name() {
                let domain = self.domain(work, node);
                by_node.entry((domain, NodeOrder(node))).or_default().push(pod);
            }
        }
        by_node.into_iter().map(|((domain, node), pods)| NodeRow { domain, node: node.0, pods }).collect()
    }

    /// The value of the group's own topology label, else of the first well-known one.
    fn domain(&self, work: &TrackedWork, node: &str) -> String {
        let Some(node) = self.nodes.get(node) else { return "-".to_owned() };
        let keys = work.topology_key.as_deref().into_iter().chain(DOMAIN_KEYS);
        let mut values = keys.filter_map(|key| node.metadata.labels.get(key));
        values.next().map_or_else(|| "-".to_owned(), Clone::clone)
    }

    /// The last line: counts of all states.
    pub fn summary(&self) -> String {
        let count = |state: WorkState| self.works.iter().filter(|work| work.state == state).count();
        let states = [
            WorkState::Succeeded,
            WorkState::Failed,
            WorkState::Running,
            WorkState::Placed,
            WorkState::Waiting,
            WorkState::Blocked,
            WorkState::Suspended,
            WorkState::Scheduled,
        ];
        let counted = states.into_iter().filter(|state| count(*state) > 0);
        let words: Vec<String> = counted.map(|state| format!("{} {}", count(state), state.as_str())).collect();
        let words = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
        format!("{words} in {:.1} s", self.elapsed.as_secs_f64())
    }

    /// The report as JSON.
    pub fn json(&self, result: &str, warnings: &WarningLog) -> Value {
        let works: Vec<Value> = self.works.iter().map(|work| self.work_json(work)).collect();
        json!({
            "apiVersion": "phalanx.dev/v1alpha1",
            "kind": "RunReport",
            "result": result,
            "seconds": (self.elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
            "work": works,
            "warnings": warnings.reported,
            "warningsOmitted": warnings.omitted,
        })
    }

    fn work_json(&self, work: &TrackedWork) -> Value {
        let pods = work.pods.iter().map(|pod| {
            let node = pod.node_name();
            json!({
                "name": pod.metadata.name,
                "node": node,
                "domain": node.map(|node| self.domain(work, node)),
                "phase": format!("{:?}", pod.status.phase),
            })
        });
        json!({
            "kind": work.kind,
            "namespace": work.namespace,
            "name": work.name,
            "state": work.state.as_str(),
            "policy": work.policy.map(|policy| match policy { GroupPolicy::Basic => "Basic", GroupPolicy::Gang(_) => "Gang" }),
            "minCount": match work.policy { Some(GroupPolicy::Gang(min)) => Some(min), _ => None },
            "topologyKey": work.topology_key,
            "podsWanted": work.desired_pods,
            "podsSucceeded": work.count(PodPhase::Succeeded),
            "podsFailed": work.count(PodPhase::Failed),
            "failure": work.failure,
            "obstacle": work.obstacle,
            "schedule": work.schedule,
            "refusal": work.refusal.as_ref().map(|refusal| json!({
                "message": refusal.message(),
                "proven": refusal.proven,
                "remedies": remedies(refusal),
            })),
            "pods": pods.collect::<Vec<_>>(),
        })
    }
}

/// The remedies as text.
fn remedies(refusal: &Refusal) -> Vec<String> {
    match &refusal.remedies {
        RemedyStatus::Found(found) => found.remedies.iter().map(Remedy::text).collect(),
        RemedyStatus::NotSearched | RemedyStatus::Pending => Vec::new(),
    }
}

fn policy_text(policy: Option<GroupPolicy>) -> String {
    match policy {
        Some(GroupPolicy::Gang(min)) => format!("gang {min}"),
        Some(GroupPolicy::Basic) => "basic".to_owned(),
        None => "-".to_owned(),
    }
}

fn domain_rows(rows: &[NodeRow]) -> Vec<[String; 4]> {
    let mut domains: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in rows {
        let (nodes, pods) = domains.entry(&row.domain).or_default();
        *nodes += 1;
        *pods += row.pods.len();
    }
    let text = |(domain, (nodes, pods)): (&&str, &(usize, usize))| {
        [(*domain).to_owned(), format!("{nodes} nodes"), pods.to_string(), String::new()]
    };
    domains.iter().map(text).collect()
}

/// `0-7` for indexed pods, names otherwise.
fn pod_names_text(pods: &[&PodView]) -> String {
    let label = "batch.kubernetes.io/job-completion-index";
    let index = |pod: &&PodView| pod.metadata.labels.get(label).and_then(|text| text.parse::<u64>().ok());
    let Some(mut indexes) = pods.iter().map(index).collect::<Option<Vec<u64>>>() else {
        let names: Vec<&str> = pods.iter().map(|pod| pod.metadata.name.as_str()).collect();
        return shortened(&names);
    };
    indexes.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 >= index => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let text = |(from, to): &(u64, u64)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    let runs: Vec<String> = runs.iter().map(text).collect();
    format!("index {}", runs.join(","))
}

fn shortened(names: &[&str]) -> String {
    let rest = names.len().saturating_sub(3);
    let shown = names[..names.len() - rest].join(" ");
    if rest == 0 { shown } else { format!("{shown} … {rest} more") }
}

/// Orders `node-2` before `node-10`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeOrder<'a>(&'a str);

impl<'a> NodeOrder<'a> {
    fn parts(self) -> (&'a str, Option<u64>, &'a str) {
        let digits = self.0.len() - self.0.bytes().rev().take_while(u8::is_ascii_digit).count();
        (&self.0[..digits], self.0[digits..].parse().ok(), self.0)
    }
}

impl Ord for NodeOrder<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for NodeOrder<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeOrder, shortened};

    #[test]
    fn nodes_are_in_numeric_order() {
        let mut nodes = ["node-10", "node-2", "b", "node-1"].map(NodeOrder);
        nodes.sort();
        assert_eq!(nodes.map(|node| node.0), ["b", "node-1", "node-2", "node-10"]);
    }

    #[test]
    fn long_lists_are_shortened() {
        assert_eq!(shortened(&["a", "b"]), "a b");
        assert_eq!(shortened(&["a", "b", "c", "d", "e"]), "a b c … 2 more");
    }
}
