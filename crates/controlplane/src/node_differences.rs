//! How existing nodes differ from the configured ones. Existing nodes are never changed; differences are only reported.

use std::collections::BTreeMap;

use api::Timestamp;
use k8s_openapi::api::core::v1::Node;
use nodes::cluster::{Cluster, SIMULATED_LABEL};
use store::{ListQuery, Store};

/// Nodes that differ from the configuration, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDifferences {
    /// How many simulated nodes exist.
    pub existing: usize,
    /// How many are configured.
    pub desired: usize,
    /// Nodes that exist but are not configured.
    pub extra: Vec<String>,
    /// Nodes with another capacity, or without a configured label or taint.
    pub changed: Vec<String>,
}

impl NodeDifferences {
    /// Compares the nodes in `store` with those of `cluster`; no differences if one of them has no nodes.
    pub(crate) fn find(store: &Store, cluster: &Cluster) -> NodeDifferences {
        let mut desired: BTreeMap<String, Node> = BTreeMap::new();
        desired.extend(cluster.nodes(Timestamp::UNIX_EPOCH).into_iter().map(|node| (name(&node), node)));
        let existing = simulated(store);
        if desired.is_empty() || existing.is_empty() {
            return NodeDifferences::default();
        }
        let mut found =
            NodeDifferences { existing: existing.len(), desired: desired.len(), ..NodeDifferences::default() };
        for node in existing {
            match desired.get(&name(&node)) {
                None => found.extra.push(name(&node)),
                Some(desired) if !matches_desired(&node, desired) => found.changed.push(name(&node)),
                Some(_) => {}
            }
        }
        found
    }
}

fn simulated(store: &Store) -> Vec<Node> {
    let mut nodes = Vec::new();
    let listed = store.list(&ListQuery::all(&"nodes".into()), &mut |_| true);
    for object in listed.into_iter().flat_map(|listed| listed.items) {
        let node = serde_json::from_slice::<Node>(&object.bytes()).ok();
        nodes.extend(node.filter(|node| labels(node).is_some_and(|labels| labels.contains_key(SIMULATED_LABEL))));
    }
    nodes
}

fn matches_desired(node: &Node, desired: &Node) -> bool {
    let capacity = |node: &Node| node.status.as_ref().and_then(|status| status.capacity.clone()).unwrap_or_default();
    let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let wanted = labels(desired).into_iter().flatten();
    let has_labels = wanted.into_iter().all(|(key, value)| labels(node).and_then(|own| own.get(key)) == Some(value));
    let own_taints = taints(node);
    let has_taints = taints(desired).iter().all(|taint| own_taints.contains(taint));
    capacity(node) == capacity(desired) && has_labels && has_taints
}

fn labels(node: &Node) -> Option<&BTreeMap<String, String>> {
    node.metadata.labels.as_ref()
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}
