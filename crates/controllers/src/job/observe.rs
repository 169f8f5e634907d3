//! What the caches say about one Job.

use std::sync::Arc;

use api::Timestamp;
use api::views::{JobView, Meta, ObjectKey, PodGroupView, PodView, WorkloadView};

use super::Parts;
use super::scheduling::{ManagementMode, management_mode, stands_for};

/// Everything a decision about one Job looks at.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Job.
    pub job: Arc<JobView>,
    /// The pods it controls, in any phase.
    pub pods: Vec<Arc<PodView>>,
    /// The Workloads that stand for it or, if its parent looks after that, for the parent.
    pub workloads: Vec<Arc<WorkloadView>>,
    /// The PodGroups of those Workloads that are for this Job.
    pub pod_groups: Vec<Arc<PodGroupView>>,
    /// The time.
    pub now: Timestamp,
    /// Whether the server has just refused to create something for the Job. What exists is looked after all the same.
    pub blocked: bool,
}

/// Looks the Job up; `None` if it is gone, or another Job now bears its name.
pub fn observe(parts: &Parts, key: &ObjectKey, uid: &str) -> Option<Observed> {
    let job = parts.jobs.get(key).filter(|job| job.metadata.uid == uid)?;
    let pods = parts.pods.by_index(&PodView::BY_CONTROLLER, uid);
    let mode = management_mode(&job, &parts.gates);
    let mut workloads = match stands_for(&job, mode) {
        Some(reference) => parts.workloads.by_index(&WorkloadView::BY_CONTROLLER_REF, &reference),
        None => Vec::new(),
    };
    workloads.retain(|workload| mode == ManagementMode::ManagePodGroupOnly || is_for(&workload.metadata, uid));
    let groups_of = |workload: &Arc<WorkloadView>| {
        parts.pod_groups.by_index(&PodGroupView::BY_WORKLOAD, &workload.metadata.key().to_string())
    };
    let mut pod_groups: Vec<_> = workloads.iter().flat_map(groups_of).collect();
    pod_groups.retain(|group| match mode {
        // Siblings share the parent's Workload; a group is told apart by its controller.
        ManagementMode::ManagePodGroupOnly => is_controlled_by(&group.metadata, uid) && !group.metadata.is_deleting(),
        _ => is_for(&group.metadata, uid),
    });
    Some(Observed { job, pods, workloads, pod_groups, now: parts.clock.now(), blocked: false })
}

/// Whether an object that names the Job is for this one. Names come back, uids do not: an object owned by a Job with
/// another uid is the leftover of an earlier Job (S000-30). One that is on its way out is nobody's.
fn is_for(meta: &Meta, uid: &str) -> bool {
    let mut jobs = meta.owner_references.iter().filter(|owner| owner.kind == "Job").peekable();
    !meta.is_deleting() && (jobs.peek().is_none() || jobs.any(|owner| owner.uid == uid))
}

pub(super) fn is_controlled_by(meta: &Meta, uid: &str) -> bool {
    meta.controller().is_some_and(|owner| owner.uid == uid)
}
