//! Objects of ours to delete: those of a suspended Job with `onSuspend: delete`, and those that were created before
//! the cache showed an object of a user for the same Job.
//!
//! Only objects that this controller created are deleted; the PodGroup is deleted before its Workload.

use std::sync::Arc;

use api::views::{Condition, PodGroupView, View};

use super::objects::{ManagedObject, is_ours};
use crate::job::Config;
use crate::job::observe::JobSnapshot;
use crate::job::settings::OnSuspend;

/// Whether the Job must have no objects of ours for now.
pub fn must_delete_objects(observed: &JobSnapshot, config: &Config) -> bool {
    let suspended = observed.job.spec.suspend.unwrap_or(false);
    suspended && config.on_suspend == OnSuspend::Delete && all_ended(observed)
}

/// Whether objects may be created: while the Job owns no pod in any phase (S000-33), because existing pods cannot join a
/// group; and when a suspended Job is resumed whose objects were deleted.
pub fn may_create(observed: &JobSnapshot, config: &Config) -> bool {
    // The condition stays until the pods are created, so a crash in between changes nothing.
    let resumes = || Condition::is_true(&observed.job.status.conditions, "Suspended");
    !observed.owns_pods() || (config.on_suspend == OnSuspend::Delete && resumes() && all_ended(observed))
}

/// The next object of ours to delete.
pub fn next_to_delete(observed: &JobSnapshot, config: &Config) -> Option<ManagedObject> {
    if must_delete_objects(observed, config) {
        return find_ours(&observed.pod_groups, observed)
            .map(|group| ManagedObject::PodGroup(group.clone()))
            .or_else(|| workload(observed));
    }
    if observed.owns_pods() {
        return None;
    }
    if has_ours_and_another(&observed.workloads, observed) {
        let ours = workload(observed)?;
        let is_of_workload = |group: &&Arc<PodGroupView>| {
            let reference = group.spec.workload_ref.as_ref();
            is_ours(&group.metadata, &observed.job)
                && reference.is_some_and(|reference| reference.workload_name == ours.meta().name)
        };
        return observed
            .pod_groups
            .iter()
            .find(is_of_workload)
            .map(|group| ManagedObject::PodGroup(group.clone()))
            .or(Some(ours));
    }
    let is_redundant = has_ours_and_another(&observed.pod_groups, observed);
    find_ours(&observed.pod_groups, observed)
        .filter(|_| is_redundant)
        .map(|group| ManagedObject::PodGroup(group.clone()))
}

/// Whether there is one object of ours and one of a user. Ours was then created before the cache showed the other one:
/// after a create the controller waits until the cache shows it, and with it everything older.
fn has_ours_and_another<V: View>(objects: &[Arc<V>], observed: &JobSnapshot) -> bool {
    objects.len() == 2 && objects.iter().filter(|object| is_ours(object.meta(), &observed.job)).count() == 1
}

fn workload(observed: &JobSnapshot) -> Option<ManagedObject> {
    find_ours(&observed.workloads, observed).map(|workload| ManagedObject::Workload(workload.clone()))
}

fn find_ours<'a, V: View>(objects: &'a [Arc<V>], observed: &JobSnapshot) -> Option<&'a Arc<V>> {
    objects.iter().find(|object| is_ours(object.meta(), &observed.job))
}

fn all_ended(observed: &JobSnapshot) -> bool {
    observed.pods.iter().all(|pod| pod.is_finished())
}
