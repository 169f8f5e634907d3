//! Jobs that name a Workload in `spec.workloadRef` (gate `JobWorkloadRef`): their pods join the one group of that
//! Workload, together with the pods of all other Jobs that name it.
//!
//! The Workload is somebody else's. A group of it that is not there yet is made by whichever Job comes first. It belongs
//! to the Workload and to none of the Jobs, so that it outlives each of them.

use std::sync::Arc;

use api::views::PodGroupView;
use workloadbuilder::BuildError;

use super::observe::Observed;
use super::scheduling::{
    Fallback, Group, Made, ManagementMode, MinCount, Scheduling, is_made_here, min_count_to_set, pod_group, template_of,
};

/// Finds the group of the Workload that the Job names. What cannot be resolved is waited for: pods outside the group
/// would be what nobody asked for.
pub fn named_group(observed: &Observed) -> Result<Scheduling, BuildError> {
    let reference = observed.job.spec.workload_ref.as_ref();
    let named = reference.map(|named| named.name.as_str()).unwrap_or_default();
    let [workload] = &observed.workloads[..] else {
        return Ok(waits("WorkloadNotFound", format!("spec.workloadRef: there is no Workload {named}: create it")));
    };
    let uid = &workload.metadata.uid;
    if let Some(wanted) = reference.map(|named| &named.uid).filter(|wanted| !wanted.is_empty() && *wanted != uid) {
        let message = format!(
            "spec.workloadRef: there is no Workload {named} with uid {wanted}; the one of that name has uid {uid}: make the \
             Job anew with that uid, or without one"
        );
        return Ok(waits("WorkloadNotFound", message));
    }
    let template = template_of(&observed.job, workload, ManagementMode::JoinNamed);
    let group = match (chosen(&observed.pod_groups), template) {
        (Chosen::One(group), _) => group,
        (Chosen::None, Some(template)) => {
            let group = pod_group(&observed.job, workload, template, ManagementMode::JoinNamed)?;
            return Ok(Scheduling::NeedsPodGroup(Box::new(group)));
        }
        (Chosen::None, None) => {
            let message = format!(
                "spec.workloadRef: Workload {named} has no PodGroup, and not one template to make it from: create a \
                 PodGroup that names the Workload"
            );
            return Ok(waits("UnsupportedWorkload", message));
        }
        (Chosen::Several(names), _) => {
            let message = format!("spec.workloadRef: several PodGroups are of Workload {named}: {names}; leave one");
            return Ok(waits("AmbiguousPodGroup", message));
        }
    };
    if let Some(min_count) = template.and_then(|template| min_count_to_set(template, group))
        && is_made_here(&group.metadata)
    {
        return Ok(Scheduling::NeedsMinCount(MinCount { object: Made::PodGroup(group.clone()), min_count }));
    }
    Ok(Scheduling::Join(Group::without_owner(group)))
}

enum Chosen<'a> {
    None,
    One(&'a Arc<PodGroupView>),
    Several(String),
}

/// The group to join. One that a user made counts more than one made here, which was made because the cache had not
/// shown the user's yet; nobody is in it.
fn chosen(groups: &[Arc<PodGroupView>]) -> Chosen<'_> {
    let users: Vec<_> = groups.iter().filter(|group| !is_made_here(&group.metadata)).collect();
    let all: Vec<_> = groups.iter().collect();
    match (&users[..], &all[..]) {
        ([], []) => Chosen::None,
        ([one], _) | ([], [one]) => Chosen::One(one),
        _ => Chosen::Several(all.iter().map(|group| group.metadata.name.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

fn waits(reason: &'static str, message: String) -> Scheduling {
    Scheduling::Waits(Fallback { reason, message })
}
