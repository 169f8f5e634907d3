//! Makes the Node objects of a cluster.

use api::Timestamp;
use api::views::{NodeView, View};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use runtime::request::{PatchKind, get, patch, post};
use runtime::{is_already_exists, is_not_found};
use serde_json::{Value, json};

use crate::cluster::{Cluster, SIMULATED_LABEL};

/// Enough to keep a server busy, few enough to leave it room for others.
const WRITES_IN_FLIGHT: usize = 64;

/// Creates every node of `cluster`, ready since `now`. Nodes that are there already stay as they are, so this can be
/// done again after an error.
pub async fn register(client: &Client, cluster: &Cluster, now: Timestamp) -> Result<(), kube::Error> {
    let path = &NodeView::RESOURCE.collection_path("");
    stream::iter(cluster.nodes(now))
        .map(|node| async move {
            match post(client, path, &node).await {
                Err(error) if !is_already_exists(&error) => Err(error),
                _ => Ok(()),
            }
        })
        .buffer_unordered(WRITES_IN_FLIGHT)
        .try_collect()
        .await
}

/// A server's admission taints every new node with this, whatever the node says of itself.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Takes the taint of nodes that are not ready off simulated ones, which always are. For clusters where no node life
/// cycle controller does that; where one does, nothing is left to be done.
pub async fn clear_not_ready(client: &Client) -> Result<(), kube::Error> {
    let bytes = get(client, &format!("{}?labelSelector={SIMULATED_LABEL}%3Dtrue", NodeView::RESOURCE.path())).await?;
    let listed: Value = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
    let nodes = listed["items"].as_array().into_iter().flatten().filter_map(without_not_ready);
    stream::iter(nodes)
        .map(|(name, taints)| async move {
            let path = format!("{}/{name}", NodeView::RESOURCE.path());
            match patch(client, &path, PatchKind::Merge, &json!({"spec": {"taints": taints}})).await {
                Err(error) if !is_not_found(&error) => Err(error),
                _ => Ok(()),
            }
        })
        .buffer_unordered(WRITES_IN_FLIGHT)
        .try_collect()
        .await
}

/// The name of a tainted node and the taints it keeps; `None` for a node without this taint.
fn without_not_ready(node: &Value) -> Option<(String, Vec<Value>)> {
    let taints = node["spec"]["taints"].as_array()?;
    let kept: Vec<Value> = taints.iter().filter(|taint| taint["key"] != NOT_READY).cloned().collect();
    let name = node["metadata"]["name"].as_str()?;
    (kept.len() < taints.len()).then(|| (name.to_owned(), kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_node_keeps_every_taint_but_one() {
        let node = |taints: Value| json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
        let own = json!({"key": "gpu", "effect": "NoSchedule"});
        let tainted = node(json!([{"key": NOT_READY, "effect": "NoSchedule"}, own]));
        assert_eq!(without_not_ready(&tainted), Some(("n".to_owned(), vec![own.clone()])));
        assert_eq!(without_not_ready(&node(json!([own]))), None);
        assert_eq!(without_not_ready(&node(Value::Null)), None);
    }
}
