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
    /// Metadata. The labels have the topology.
    pub metadata: MetaView,
    /// Taints, and whether the node is cordoned.
    pub spec: NodeSpecView,
    /// Allocatable resources, conditions, images and declared features.
    pub status: NodeStatusView,
}

view!(NodeView, kinds::NODE);

/// `node.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpecView {
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// Taints.
    pub taints: Vec<Taint>,
}

/// `node.status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatusView {
    /// Resources for pods.
    pub allocatable: SmallMap<Quantity>,
    /// Ready and others.
    pub conditions: Vec<Condition>,
    /// Container images on the node's disk.
    #[serde(deserialize_with = "tight")]
    pub images: Vec<ImageView>,
    /// Features that the kubelet declares, by name.
    #[serde(rename = "declaredFeatures", deserialize_with = "tight")]
    pub declared_features: Vec<Box<str>>,
}

/// `node.status.images[]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageView {
    /// All names of the image.
    #[serde(deserialize_with = "tight")]
    pub names: Vec<Box<str>>,
    /// Size of the image in bytes.
    pub size_bytes: i64,
}
