//! Makes the Node objects of a cluster.

use api::Timestamp;
use api::views::{NodeView, View};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use runtime::is_already_exists;
use runtime::request::post;

use crate::cluster::Cluster;

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
