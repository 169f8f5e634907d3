//! CompositePodGroups as controllers read them.

use serde::Deserialize;

use super::meta::{Index, Meta};
use crate::views::view;

/// A group of groups.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CompositePodGroupView {
    /// Metadata.
    pub metadata: Meta,
    /// Where it belongs.
    pub spec: CompositePodGroupSpecView,
}

view!(
    CompositePodGroupView,
    "scheduling.k8s.io",
    "v1alpha3",
    "CompositePodGroup",
    "compositepodgroups",
    namespaced: true
);

impl CompositePodGroupView {
    /// CompositePodGroups by `namespace/name` of the one they belong to.
    pub const BY_PARENT: Index<CompositePodGroupView> = Index {
        name: "parent",
        values: |group| {
            let namespace = &group.metadata.namespace;
            group.spec.parent_composite_pod_group_name.iter().map(|parent| format!("{namespace}/{parent}")).collect()
        },
    };
}

/// `compositepodgroup.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompositePodGroupSpecView {
    /// The group that this one belongs to.
    pub parent_composite_pod_group_name: Option<Box<str>>,
}
