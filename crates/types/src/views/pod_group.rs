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

view!(PodGroupView, kinds::POD_GROUP);

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
    pub const AFTER_MIN_COUNT_ANNOTATION: &str = "phalanx.dev/after-min-count";

    /// Whether the group had its `minCount` once, and need not have it again for later pods to be placed.
    pub fn is_satisfied(&self) -> bool {
        let always = self
            .metadata
            .annotations
            .get(PodGroupView::AFTER_MIN_COUNT_ANNOTATION)
            .is_some_and(|say| say == "AlwaysMin");
        !always && Condition::is_true(&self.status.conditions, "PodGroupInitiallyScheduled")
    }

    /// Annotation on a PodGroup: how many pods the group can have at once from now on, a whole number. A gang waits for no
    /// more than that, and topology domains are chosen for that many. Our Job controller keeps it on the PodGroups that it
    /// makes: the parallelism, or what is left to complete.
    pub const EXPECTED_COUNT_ANNOTATION: &str = "phalanx.dev/expected-count";

    /// How many pods the group can have at once from now on, where [`PodGroupView::EXPECTED_COUNT`] says so; the text where
    /// it is no such number.
    pub fn expected_count(&self) -> Option<Result<usize, &str>> {
        let text = self.metadata.annotations.get(PodGroupView::EXPECTED_COUNT_ANNOTATION)?;
        Some(text.parse::<u32>().map(|count| count as usize).map_err(|_| text.as_str()))
    }

    /// How many members a gang needs at least, those that succeeded included: `minCount`, or what there can be; `None` for
    /// a Basic group.
    pub fn quorum(&self, succeeded_count: usize) -> Option<usize> {
        let min_count = usize::try_from(self.min_count()?).unwrap_or(0);
        let expected = self.expected_count().and_then(Result::ok);
        Some(quorum(min_count, expected, succeeded_count))
    }

    /// Annotation of the objects that our controllers make: who made them.
    pub const MANAGED_BY_ANNOTATION: &str = "phalanx.dev/managed-by";
    /// The Job controller, as [`PodGroupView::MANAGED_BY`] names it.
    pub const JOB_CONTROLLER: &str = "job-controller";

    /// Whether our Job controller made the group.
    pub fn is_managed_by_job_controller(&self) -> bool {
        self.metadata
            .annotations
            .get(PodGroupView::MANAGED_BY_ANNOTATION)
            .is_some_and(|maker| maker == PodGroupView::JOB_CONTROLLER)
    }

    /// Whether a pod that names the group can be a member. Any pod can be of a group without a controller. Otherwise the
    /// pod's controller is the same, or one in between, such as the Job of a JobSet: what lies in between is not known
    /// here, but it is of another kind. The scheduler counts by the same rule.
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

/// How many members a gang of `min_count` needs, those that succeeded included, when so many more are `expected` at most.
pub fn quorum(min_count: usize, expected: Option<usize>, succeeded_count: usize) -> usize {
    let can_be = expected.map_or(usize::MAX, |expected| expected.saturating_add(succeeded_count));
    min_count.min(can_be).max(1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::View;

    #[test]
    fn the_quorum_is_what_a_gang_can_have() {
        for (annotation, succeeded_count, want) in [
            ("", 0, 3),
            (r#""phalanx.dev/expected-count": "8""#, 0, 3),
            (r#""phalanx.dev/expected-count": "1""#, 0, 1),
            // Two are left beside the one that succeeded.
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
