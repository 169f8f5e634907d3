//! PodGroups as the scheduler and the Job controller read them.

use k8s_openapi::api::scheduling::v1beta1::{
    DisruptionMode, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy, WorkloadReference,
};
use serde::Deserialize;

use super::meta::{Condition, Index, Meta, tight};
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

    /// PodGroups by `namespace/name` of the CompositePodGroup they belong to.
    pub const BY_PARENT: Index<PodGroupView> = Index {
        name: "parent",
        values: |group| {
            let namespace = &group.metadata.namespace;
            group.spec.parent_composite_pod_group_name.iter().map(|parent| format!("{namespace}/{parent}")).collect()
        },
    };

    /// How many pods must be placed together; `None` for a Basic group.
    pub fn min_count(&self) -> Option<i32> {
        self.spec.scheduling_policy.gang.as_ref().map(|gang| gang.min_count)
    }

    /// Annotation on a PodGroup, or on the Job it is made for: what holds for pods that come once `minCount` was reached.
    /// `OnceSatisfied` (as without it): they are placed as they come, while others of the group run. `AlwaysMin`: only
    /// if bound and new ones together reach `minCount`.
    pub const AFTER_MIN_COUNT: &str = "phalanx.dev/after-min-count";

    /// Whether the group had its `minCount` once, and need not have it again for later pods to be placed.
    pub fn is_satisfied(&self) -> bool {
        let always = self.metadata.annotations.get(PodGroupView::AFTER_MIN_COUNT).is_some_and(|say| say == "AlwaysMin");
        !always && Condition::is_true(&self.status.conditions, "PodGroupInitiallyScheduled")
    }

    /// Annotation of the objects that our controllers make: who made them.
    pub const MANAGED_BY: &str = "phalanx.dev/managed-by";
    /// The Job controller, as [`PodGroupView::MANAGED_BY`] names it.
    pub const JOB_CONTROLLER: &str = "job-controller";

    /// Whether our Job controller made the group.
    pub fn is_of_our_jobs(&self) -> bool {
        self.metadata
            .annotations
            .get(PodGroupView::MANAGED_BY)
            .is_some_and(|maker| maker == PodGroupView::JOB_CONTROLLER)
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
    /// The group of groups that it belongs to.
    pub parent_composite_pod_group_name: Option<Box<str>>,
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
    #[serde(deserialize_with = "tight")]
    pub conditions: Vec<Condition>,
}
