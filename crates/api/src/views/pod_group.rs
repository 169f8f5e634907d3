//! PodGroups as the scheduler and the Job controller read them.

use k8s_openapi::api::scheduling::v1beta1::{
    DisruptionMode, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy, WorkloadReference,
};
use serde::Deserialize;

use super::meta::{Condition, Index, Meta};
use crate::views::view;

/// A group of pods that is scheduled as a unit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupView {
    /// Metadata.
    pub metadata: Meta,
    /// Policy and constraints.
    pub spec: PodGroupSpecView,
    /// Conditions written by the scheduler.
    pub status: PodGroupStatusView,
}

view!(PodGroupView, "scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", namespaced: true);

impl PodGroupView {
    /// PodGroups by `namespace/workloadName` of the Workload they were made from.
    pub const BY_WORKLOAD: Index<PodGroupView> = Index {
        name: "workload",
        values: |group| {
            let namespace = &group.metadata.namespace;
            group.spec.workload_ref.iter().map(|origin| format!("{namespace}/{}", origin.workload_name)).collect()
        },
    };

    /// How many pods must be placed together; `None` for a Basic group.
    pub fn min_count(&self) -> Option<i32> {
        self.spec.scheduling_policy.gang.as_ref().map(|gang| gang.min_count)
    }

    /// The node label whose value all pods of the group must share.
    pub fn topology_key(&self) -> Option<&str> {
        let constraints = self.spec.scheduling_constraints.as_ref()?;
        constraints.topology.as_ref()?.first().map(|constraint| constraint.key.as_str())
    }
}

/// `podgroup.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpecView {
    /// The Workload and template the group was made from.
    pub workload_ref: Option<WorkloadReference>,
    /// Basic or gang.
    pub scheduling_policy: PodGroupSchedulingPolicy,
    /// At most one topology key.
    pub scheduling_constraints: Option<PodGroupSchedulingConstraints>,
    /// Single or all.
    pub disruption_mode: Option<DisruptionMode>,
    /// Resolved by admission; unset counts as 0.
    pub priority: Option<i32>,
}

/// `podgroup.status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupStatusView {
    /// `PodGroupInitiallyScheduled` and others.
    pub conditions: Vec<Condition>,
}
