//! Creates the Node objects of a cluster.

use api::Timestamp;
use api::views::{NodeView, View};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use runtime::request::{PatchKind, get, patch, post};
use runtime::{is_already_exists, is_not_found};
use serde_json::{Value, json};

use crate::cluster::{Cluster, SIMULATED_LABEL};

/// Enough to keep a server busy, few enough not to delay other clients.
const WRITES_IN_FLIGHT: usize = 64;

/// Creates every node of `cluster`, ready since `now`. Existing nodes are not changed, so this can be repeated after an
/// error.
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

/// The taint that the admission of a server adds to every new node.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Removes the not-ready taint from simulated nodes, which are always ready. For clusters without a node lifecycle
/// controller; with one, no node has the taint.
pub async fn clear_not_ready(client: &Client) -> Result<(), kube::Error> {
    let bytes = get(client, &format!("{}?labelSelector={SIMULATED_LABEL}%3Dtrue", NodeView::RESOURCE.path())).await?;
    let list: Value = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
    let nodes = list["items"].as_array().into_iter().flatten().filter_map(without_not_ready);
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

/// The name of a node with this taint and its other taints; `None` for a node without it.
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
    fn only_the_not_ready_taint_is_removed() {
        let node = |taints: Value| json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
        let other = json!({"key": "gpu", "effect": "NoSchedule"});
        let tainted = node(json!([{"key": NOT_READY, "effect": "NoSchedule"}, other]));
        assert_eq!(without_not_ready(&tainted), Some(("n".to_owned(), vec![other.clone()])));
        assert_eq!(without_not_ready(&node(json!([other]))), None);
        assert_eq!(without_not_ready(&node(Value::Null)), None);
    }
}
