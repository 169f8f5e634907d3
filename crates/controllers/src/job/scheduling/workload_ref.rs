//! Jobs that name a Workload in `spec.workloadRef` (gate `JobWorkloadRef`): their pods join the one group of that
//! Workload, together with the pods of all other Jobs that name it.
//!
//! The Workload belongs to a user. The first of the Jobs creates its group if there is none. The group is owned by the
//! Workload and by none of the Jobs, so that it outlives each of them.

use std::sync::Arc;

use api::views::PodGroupView;
use workloadbuilder::BuildError;

use super::objects::{
    Fallback, JoinedGroup, ManagedObject, ManagementMode, MinCountUpdate, Scheduling, is_created_by_us,
    min_count_to_set, pod_group, template_of,
};
use crate::job::observe::JobSnapshot;

/// Finds the group of the Workload that the Job names. If it cannot be found, the Job waits: its pods must not run outside
/// the group.
pub fn named_group(observed: &JobSnapshot) -> Result<Scheduling, BuildError> {
    let reference = observed.job.spec.workload_ref.as_ref();
    let named = reference.map(|named| named.name.as_str()).unwrap_or_default();
    let [workload] = &observed.workloads[..] else {
        return Ok(blocked("WorkloadNotFound", format!("spec.workloadRef: there is no Workload {named}: create it")));
    };
    let uid = &workload.metadata.uid;
    if let Some(wanted) = reference.map(|named| &named.uid).filter(|wanted| !wanted.is_empty() && *wanted != uid) {
        let message = format!(
            "spec.workloadRef: there is no Workload {named} with uid {wanted}; the one of that name has uid {uid}: recreate \
             the Job with that uid, or without one"
        );
        return Ok(blocked("WorkloadNotFound", message));
    }
    let template = template_of(&observed.job, workload, ManagementMode::JoinNamed);
    let group = match (choose_group(&observed.pod_groups), template) {
        (GroupChoice::One(group), _) => group,
        (GroupChoice::None, Some(template)) => {
            let group = pod_group(&observed.job, workload, template, ManagementMode::JoinNamed)?;
            return Ok(Scheduling::NeedsPodGroup(Box::new(group)));
        }
        (GroupChoice::None, None) => {
            let message = format!(
                "spec.workloadRef: Workload {named} has no PodGroup, and no single template to create one from: create a \
                 PodGroup that names the Workload"
            );
            return Ok(blocked("UnsupportedWorkload", message));
        }
        (GroupChoice::Several(names), _) => {
            let message = format!("spec.workloadRef: Workload {named} has several PodGroups: {names}; leave only one");
            return Ok(blocked("AmbiguousPodGroup", message));
        }
    };
    if let Some(min_count) = template.and_then(|template| min_count_to_set(template, group))
        && is_created_by_us(&group.metadata)
    {
        return Ok(Scheduling::NeedsMinCount(MinCountUpdate {
            object: ManagedObject::PodGroup(group.clone()),
            min_count,
        }));
    }
    Ok(Scheduling::Join(JoinedGroup::without_owner(group)))
}

enum GroupChoice<'a> {
    None,
    One(&'a Arc<PodGroupView>),
    Several(String),
}

/// The group to join. A user's group has precedence over one of ours. Ours was created before the cache showed the user's,
/// and has no pods.
fn choose_group(groups: &[Arc<PodGroupView>]) -> GroupChoice<'_> {
    let users: Vec<_> = groups.iter().filter(|group| !is_created_by_us(&group.metadata)).collect();
    let all: Vec<_> = groups.iter().collect();
    match (&users[..], &all[..]) {
        ([], []) => GroupChoice::None,
        ([one], _) | ([], [one]) => GroupChoice::One(one),
        _ => GroupChoice::Several(all.iter().map(|group| group.metadata.name.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

fn blocked(reason: &'static str, message: String) -> Scheduling {
    Scheduling::Blocked(Fallback { reason, message })
}
