//! Namespaces as the controller that empties them reads them.

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
    /// Who holds it.
    pub spec: NamespaceSpecView,
    /// How its deletion stands.
    pub status: NamespaceStatusView,
}

view!(NamespaceView, kinds::NAMESPACE);

/// `namespace.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceSpecView {
    /// Who must act before the namespace may go.
    pub finalizers: Vec<String>,
}

/// `namespace.status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceStatusView {
    /// What is in the way of its deletion.
    pub conditions: Vec<Condition>,
}
