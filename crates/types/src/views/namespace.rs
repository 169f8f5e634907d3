//! Namespaces as the namespace controller reads them.

use serde::Deserialize;

use super::meta::{Condition, MetaView};
use crate::kinds;
use crate::views::view;

/// A namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceView {
    /// Metadata.
    pub metadata: MetaView,
    /// Finalizers.
    pub spec: NamespaceSpecView,
    /// Observed state.
    pub status: NamespaceStatusView,
}

view!(NamespaceView, kinds::NAMESPACE);

/// `namespace.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceSpecView {
    /// Finalizers that must be removed before the namespace is deleted.
    pub finalizers: Vec<String>,
}

/// `namespace.status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceStatusView {
    /// Progress of its deletion.
    pub conditions: Vec<Condition>,
}
