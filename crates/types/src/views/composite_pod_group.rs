//! CompositePodGroups as the scheduler and controllers read them.

use k8s_openapi::api::scheduling::v1alpha3::{
    CompositePodGroupSchedulingConstraints, CompositePodGroupSchedulingPolicy,
};
use serde::Deserialize;

use super::meta::{Index, MetaView};
use crate::kinds;
use crate::views::view;

/// A group of groups.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CompositePodGroupView {
    /// Metadata.
    pub metadata: MetaView,
    /// Parent, policy and constraints.
    pub spec: CompositePodGroupSpecView,
}

view!(CompositePodGroupView, kinds::COMPOSITE_POD_GROUP, indexes: [CompositePodGroupView::BY_PARENT]);

impl CompositePodGroupView {
    /// Whether its groups must be placed together or in one domain.
    pub fn has_gang_or_topology(&self) -> bool {
        let constraints = self.spec.scheduling_constraints.as_ref();
        let is_close = constraints.and_then(|one| one.topology.as_ref()).is_some_and(|topology| !topology.is_empty());
        self.spec.scheduling_policy.gang.is_some() || is_close
    }

    /// CompositePodGroups by `namespace/name` of their parent.
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
    /// The parent CompositePodGroup.
    pub parent_composite_pod_group_name: Option<Box<str>>,
    /// Basic or gang.
    pub scheduling_policy: CompositePodGroupSchedulingPolicy,
    /// At most one topology key.
    pub scheduling_constraints: Option<CompositePodGroupSchedulingConstraints>,
}
