//! Nodes as the scheduler reads them.

use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;

use super::meta::{Condition, MetaView, tight};
use crate::kinds;
use crate::quantity::Quantity;
use crate::small_map::SmallMap;
use crate::views::view;

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeView {
    /// Metadata; labels carry the topology.
    pub metadata: MetaView,
    /// Taints and whether pods may come.
    pub spec: NodeSpecView,
    /// What the node has.
    pub status: NodeStatusView,
}

view!(NodeView, kinds::NODE);

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
    pub allocatable: SmallMap<Quantity>,
    /// Ready and others.
    pub conditions: Vec<Condition>,
    /// Container images on the node's disk.
    #[serde(deserialize_with = "tight")]
    pub images: Vec<ImageView>,
}

/// `node.status.images[]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageView {
    /// All names it goes by.
    #[serde(deserialize_with = "tight")]
    pub names: Vec<Box<str>>,
    /// What a pull of it is spared.
    pub size_bytes: i64,
}
