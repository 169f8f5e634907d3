//! PodGroups as the scheduler and the Job controller read them.

use k8s_openapi::api::scheduling::v1beta1::{
    DisruptionMode, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy, WorkloadReference,
};
use serde::Deserialize;

use super::meta::{Condition, Index, MetaView, tight};
use crate::kinds;
use crate::views::{PodView, view};

/// A group of pods that is scheduled as a unit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupView {
    /// Metadata.
    pub metadata: MetaView,
    /// Policy and constraints.
    pub spec: PodGroupSpecView,
    /// Conditions written by the scheduler.
    pub status: PodGroupStatusView,
}

view!(PodGroupView, kinds::POD_GROUP, indexes: [PodGroupView::BY_WORKLOAD, PodGroupView::BY_PARENT]);

impl PodGroupView {
    /// PodGroups by `namespace/workloadName` of their Workload.
    pub const BY_WORKLOAD: Index<PodGroupView> = Index {
        name: "workload",
        values: |group| {
            let namespace = &group.metadata.namespace;
            group.spec.workload_ref.iter().map(|origin| format!("{namespace}/{}", origin.workload_name)).collect()
        },
    };

    /// PodGroups by `namespace/name` of their parent CompositePodGroup.
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

    /// Annotation on a PodGroup, or on the Job it is created for: the rule for pods that come after `minCount` was
    /// reached. `OnceSatisfied` (default): they are placed as they come while others of the group run. `AlwaysMin`:
    /// only if bound and new pods together reach `minCount`.
    pub const AFTER_MIN_COUNT_ANNOTATION: &str = "phalanx.dev/after-min-count";

    /// Whether the group has reached its `minCount` once and need not reach it again for later pods.
    pub fn is_satisfied(&self) -> bool {
        let always = self
            .metadata
            .annotations
            .get(PodGroupView::AFTER_MIN_COUNT_ANNOTATION)
            .is_some_and(|say| say == "AlwaysMin");
        !always && Condition::is_true(&self.status.conditions, "PodGroupInitiallyScheduled")
    }

    /// Annotation on a PodGroup: the maximum number of pods that the group can still have at once, an integer. A gang
    /// waits for no more than that, and topology domains are chosen for that many. Our Job controller sets it on the
    /// PodGroups that it creates: the parallelism, or the remaining completions.
    pub const EXPECTED_COUNT_ANNOTATION: &str = "phalanx.dev/expected-count";

    /// The value of [`PodGroupView::EXPECTED_COUNT_ANNOTATION`]. `Err` has a text that is not a valid number.
    pub fn expected_count(&self) -> Option<Result<usize, &str>> {
        let text = self.metadata.annotations.get(PodGroupView::EXPECTED_COUNT_ANNOTATION)?;
        Some(text.parse::<u32>().map(|count| count as usize).map_err(|_| text.as_str()))
    }

    /// How many members a gang needs, including those that succeeded: `minCount`, or the maximum that it can have.
    /// `None` for a Basic group.
    pub fn quorum(&self, succeeded_count: usize) -> Option<usize> {
        let min_count = usize::try_from(self.min_count()?).unwrap_or(0);
        let expected = self.expected_count().and_then(Result::ok);
        Some(quorum(min_count, expected, succeeded_count))
    }

    /// Annotation of objects that our controllers create: the name of the controller.
    pub const MANAGED_BY_ANNOTATION: &str = "phalanx.dev/managed-by";
    /// The Job controller's value of [`PodGroupView::MANAGED_BY_ANNOTATION`].
    pub const JOB_CONTROLLER: &str = "job-controller";

    /// Whether our Job controller created the group.
    pub fn is_managed_by_job_controller(&self) -> bool {
        self.metadata
            .annotations
            .get(PodGroupView::MANAGED_BY_ANNOTATION)
            .is_some_and(|name| name == PodGroupView::JOB_CONTROLLER)
    }

    /// Whether a pod that names the group can be a member. A group without a controller admits any pod. Otherwise the
    /// pod must have the same controller, or a controller of a different kind, such as the Job of a JobSet: the objects
    /// in between are not known here. The scheduler counts by the same rule.
    pub fn admits(&self, pod: &PodView) -> bool {
        let Some(owner) = self.metadata.controller() else { return true };
        pod.metadata.controller().is_some_and(|other| {
            owner.uid == other.uid || (&owner.api_version, &owner.kind) != (&other.api_version, &other.kind)
        })
    }

    /// The node label whose value all pods of the group must share.
    pub fn topology_key(&self) -> Option<&str> {
        let constraints = self.spec.scheduling_constraints.as_ref()?;
        constraints.topology.as_ref()?.first().map(|constraint| constraint.key.as_str())
    }
}

/// How many members a gang of `min_count` needs, including those that succeeded, if at most `expected` more can come.
pub fn quorum(min_count: usize, expected: Option<usize>, succeeded_count: usize) -> usize {
    let can_be = expected.map_or(usize::MAX, |expected| expected.saturating_add(succeeded_count));
    min_count.min(can_be).max(1)
}

/// `podgroup.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpecView {
    /// The Workload and template of the group.
    pub workload_ref: Option<WorkloadReference>,
    /// The parent CompositePodGroup.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::View;

    #[test]
    fn quorum_is_at_most_what_a_gang_can_have() {
        for (annotation, succeeded_count, want) in [
            ("", 0, 3),
            (r#""phalanx.dev/expected-count": "8""#, 0, 3),
            (r#""phalanx.dev/expected-count": "1""#, 0, 1),
            // Two are left, and one has succeeded.
            (r#""phalanx.dev/expected-count": "2""#, 1, 3),
            (r#""phalanx.dev/expected-count": "0""#, 0, 1),
            (r#""phalanx.dev/expected-count": "-1""#, 0, 3),
            (r#""phalanx.dev/expected-count": "many""#, 0, 3),
        ] {
            let text = format!(
                r#"{{"metadata":{{"annotations":{{{annotation}}}}},"spec":{{"schedulingPolicy":{{"gang":{{"minCount":3}}}}}}}}"#
            );
            let quorum = PodGroupView::decode(text.as_bytes()).map(|group| group.quorum(succeeded_count));
            assert_eq!(quorum.ok().flatten(), Some(want), "{annotation}");
        }
    }
}
