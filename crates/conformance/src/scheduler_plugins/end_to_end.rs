//! The same clusters on the real control plane: kube-scheduler binds the pod to one of our best nodes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ::kube::Client;
use anyhow::{Context, bail, ensure};
use http::Method;
use runtime::request;
use serde_json::{Value, json};
use supervisor::kubernetes::{self, ControlPlaneConfig, KubeControlPlane};

use super::{PluginQuery, generated_clusters, our_response};
use crate::api_server::requests::send;
use crate::builder::CaseGenerator;

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const POLL: Duration = Duration::from_millis(50);
/// Nodes and pods reach kube-scheduler by separate watches, and it does not report when it has received all of them.
const SETTLE: Duration = Duration::from_millis(300);
/// How long kube-scheduler may take for one pod, also on a busy machine.
const DECISION_TIMEOUT_SECONDS: u64 = 60;

/// Lets kube-scheduler place the pods of `cases` clusters. With fewer than a hundred nodes it considers all of them.
pub(super) fn run(seed: u64, cases: usize) -> anyhow::Result<()> {
    let plan = ControlPlaneConfig { scheduler: true, ..ControlPlaneConfig::default() };
    if cases == 0 || !kubernetes::ensure_programs(&plan.required_programs())? {
        return Ok(());
    }
    let mut control_plane = KubeControlPlane::start("scheduler", &plan)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let generator = CaseGenerator::seeded(seed);
    let (mut number, mut placed, mut refused, mut differing) = (0, 0, 0, Vec::new());
    while placed + refused < cases {
        control_plane.check_running()?;
        number += 1;
        let query = with_unique_names(&generated_clusters::random_server_query(&generator), number)?;
        let decided = runtime.block_on(async {
            let client = control_plane.client().await?;
            let decided = schedule_on_kube(&client, &query).await;
            delete_all(&client).await?;
            decided
        })?;
        let Some((node, stored)) = decided else { continue };
        let best = best_nodes(&stored)?;
        let agreed = match &node {
            Some(node) => best.contains(node),
            None => best.is_empty(),
        };
        *(if node.is_some() { &mut placed } else { &mut refused }) += 1;
        if !agreed {
            differing.push(format!("bound to {node:?}, our best are {best:?}: {}", serde_json::to_string(&stored)?));
        }
    }
    println!("{placed} pods bound by kube-scheduler and {refused} refused, {} unlike ours", differing.len());
    ensure!(placed * 2 >= cases, "hardly any pod was bound: the generator is useless");
    ensure!(differing.is_empty(), "kube-scheduler differs:\n{}", differing.join("\n"));
    Ok(())
}

/// The same with unique names, so that the state of kube-scheduler from one query does not affect the next.
fn with_unique_names(query: &PluginQuery, number: usize) -> anyhow::Result<PluginQuery> {
    let mut text = serde_json::to_string(query)?;
    for prefix in ["n", "r"] {
        for at in 0..20 {
            text = text.replace(&format!("\"{prefix}{at}\""), &format!("\"q{number}-{prefix}{at}\""));
        }
    }
    Ok(serde_json::from_str(&text.replace("\"pending\"", &format!("\"q{number}-pending\"")))?)
}

/// Our best nodes for the pod.
fn best_nodes(query: &PluginQuery) -> anyhow::Result<BTreeSet<String>> {
    let response = our_response(query)?;
    ensure!(response.error.is_empty(), "{}", response.error);
    let total = |scores: &std::collections::BTreeMap<String, i64>| scores.get("total").copied().unwrap_or(0);
    let most = response.scores.values().map(total).max();
    let best = response.scores.iter().filter(|(_, scores)| Some(total(scores)) == most);
    Ok(best.map(|(node, _)| node.clone()).collect())
}

/// The node that kube-scheduler chose, or none if it refused, with all objects as stored. `None` if the server does not
/// accept the pod.
async fn schedule_on_kube(
    client: &Client,
    query: &PluginQuery,
) -> anyhow::Result<Option<(Option<String>, PluginQuery)>> {
    for node in &query.nodes {
        request::post(client, NODES, node).await?;
        // Admission taints every new node as not ready, independent of its conditions.
        let path = format!("{NODES}/{}", node["metadata"]["name"].as_str().context("a node has a name")?);
        let taints = json!({"spec": {"taints": node["spec"]["taints"]}});
        request::patch(client, &path, request::PatchKind::Merge, &taints).await?;
    }
    for pod in &query.pods {
        // A pod that the server refuses is skipped.
        send(client, Method::POST, PODS, serde_json::to_vec(pod)?).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let (nodes, pods) = (items(client, NODES).await?, items(client, PODS).await?);
    let made = send(client, Method::POST, PODS, serde_json::to_vec(&query.pod)?).await?;
    if !made.is_accepted() {
        return Ok(None);
    }
    let pod = made.object.context("the response to a create has the pod")?;
    let pending = format!("{PODS}/{}", pod["metadata"]["name"].as_str().context("a pod has a name")?);
    let stored =
        PluginQuery { plugins: query.plugins.clone(), configuration: query.configuration.clone(), nodes, pods, pod };
    let deadline = Instant::now() + Duration::from_secs(DECISION_TIMEOUT_SECONDS);
    loop {
        let pod: Value = serde_json::from_slice(&request::get(client, &pending).await?)?;
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            return Ok(Some((Some(node.to_owned()), stored)));
        }
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.any(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False") {
            return Ok(Some((None, stored)));
        }
        if Instant::now() > deadline {
            bail!("kube-scheduler did not decide on a pod within {DECISION_TIMEOUT_SECONDS} s");
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn items(client: &Client, path: &str) -> anyhow::Result<Vec<Value>> {
    let list: Value = serde_json::from_slice(&request::get(client, path).await?)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Empties the cluster for the next query.
async fn delete_all(client: &Client) -> anyhow::Result<()> {
    for path in [PODS, NODES] {
        let options = json!({"gracePeriodSeconds": 0});
        let deleted = send(client, Method::DELETE, path, serde_json::to_vec(&options)?).await?;
        ensure!(deleted.is_accepted(), "{path}: {}", deleted.message);
    }
    Ok(())
}
