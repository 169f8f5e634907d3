//! How many pods a Job's group can have at once from now on. The scheduler reads it from an annotation of the PodGroup. So
//! a gang does not wait for pods that will not be created because their work is done, and the domain of a group with a
//! topology key is chosen for all its pods, not only for the first ones.
//!
//! The annotation is written when the PodGroup is created, and again only if its value would mislead the scheduler. A Job
//! of 10,000 completions does not cost a write for each of them.

use std::sync::Arc;

use api::views::{JobView, PodGroupView, PodPhase};
use k8s_openapi::api::scheduling::v1beta1::PodGroup;

use super::objects::{Scheduling, is_ours};
use crate::job::job_params::JobParams;
use crate::job::observe::JobSnapshot;
use crate::job::pods::PodPlan;
use crate::job::status::tally::Tally;

/// An expected count to be written to a PodGroup of ours.
#[derive(Clone, Debug)]
pub struct ExpectedCountUpdate {
    /// The PodGroup.
    pub group: Arc<PodGroupView>,
    /// Its new value.
    pub count: i32,
}

/// The count of a Job without finished pods.
pub fn initial_count(job: &JobView) -> i32 {
    let parallelism = job.spec.parallelism.unwrap_or(1);
    job.spec.completions.map_or(parallelism, |completions| completions.min(parallelism)).max(0)
}

/// The count from now on: the parallelism, or what remains to complete. A suspended Job counts as resumed.
pub fn remaining_count(params: &JobParams<'_>, tally: &Tally) -> i32 {
    let count = match params.completions {
        // Once one pod of a work queue has succeeded, the others may end but none is added.
        None if tally.succeeded > 0 => i32::try_from(tally.active.len()).unwrap_or(i32::MAX),
        None => params.parallelism,
        Some(completions) => {
            let done = tally.succeeded.saturating_add(tally.failed_indexes.len());
            completions.saturating_sub(done).min(params.parallelism)
        }
    };
    count.max(0)
}

/// Updates the annotation of a PodGroup that is about to be created: a resumed Job may have finished a part of its work.
pub fn adjust_new(group: &mut PodGroup, params: &JobParams<'_>, tally: &Tally) {
    let annotations = group.metadata.annotations.iter_mut();
    let values = annotations.flat_map(|annotations| annotations.get_mut(PodGroupView::EXPECTED_COUNT_ANNOTATION));
    values.for_each(|value| *value = remaining_count(params, tally).to_string());
}

/// The change of the annotation that comes before `planned`, on a group of ours. None before pods are deleted: those wait
/// for nothing any more.
pub fn count_update(
    observed: &JobSnapshot,
    params: &JobParams<'_>,
    tally: &Tally,
    found: &Scheduling,
    planned: &PodPlan,
) -> Option<ExpectedCountUpdate> {
    let Scheduling::Join(joined) = found else { return None };
    if params.suspended || matches!(planned, PodPlan::Delete(_)) {
        return None;
    }
    let group = observed.pod_groups.iter().find(|group| group.metadata.name == joined.name)?;
    if !is_ours(&group.metadata, &observed.job) {
        return None;
    }
    let count = remaining_count(params, tally);
    let current = group.expected_count().and_then(Result::ok).map_or(i64::MAX, |count| count as i64);
    let Some(min_count) = group.min_count() else {
        // For a Basic group with a topology key the count matters only for the domain of the first pods.
        let starts = tally.active.is_empty() && matches!(planned, PodPlan::Create(_));
        let due = starts && current != i64::MAX && current != i64::from(count);
        return due.then(|| ExpectedCountUpdate { group: group.clone(), count });
    };
    let due = match i64::from(count) - current {
        0 => false,
        1.. => true,
        // Pending pods, or those about to be created, must not wait for pods that will not be created. Without pending pods
        // a value that is too large affects only the condition `Degraded`, and only once too few succeeded pods exist.
        _ => {
            let waits = || tally.active.iter().any(|pod| pod.node_name().is_none());
            matches!(planned, PodPlan::Create(_)) || waits() || is_below_min_count(observed, count, min_count)
        }
    };
    due.then(|| ExpectedCountUpdate { group: group.clone(), count })
}

/// Whether `count` pods and the existing ones that succeeded are fewer than the gang's `minCount`.
pub fn is_below_min_count(observed: &JobSnapshot, count: i32, min_count: i32) -> bool {
    let succeeded = observed.pods.iter().filter(|pod| pod.status.phase == PodPhase::Succeeded).count();
    let exist = succeeded.saturating_add(observed.counted_pods.count);
    i64::from(count).saturating_add(exist as i64) < i64::from(min_count)
}
