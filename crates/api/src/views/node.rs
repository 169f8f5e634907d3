//! Nodes as the scheduler reads them.

use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;

use super::meta::{Condition, Meta};
use crate::pairs::Pairs;
use crate::quantity::Quantity;
use crate::views::view;

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeView {
    /// Metadata; labels carry the topology.
    pub metadata: Meta,
    /// Taints and whether pods may come.
    pub spec: NodeSpecView,
    /// What the node has.
    pub status: NodeStatusView,
}

view!(NodeView, "", "v1", "Node", "nodes", namespaced: false);

/// `node.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpecView {
    /// Cordoned.
    pub unschedulable: bool,
    /// Taints.
    pub taints: Vec<Taint>,
}

/// `node.status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatusView {
    /// What pods may use.
    pub allocatable: Pairs<Quantity>,
    /// Ready and others.
    pub conditions: Vec<Condition>,
}
