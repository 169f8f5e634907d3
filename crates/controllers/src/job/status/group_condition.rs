//! The Job's condition `PodGroupScheduled`, with the scheduler's reason and message about its PodGroup.

use std::sync::Arc;

use api::Timestamp;
use api::views::{Condition, JobStatusView, PodGroupView};

use super::next_status::{JobEvaluation, set_condition};
use crate::job::job_params::is_active;
use crate::job::observe::JobSnapshot;
use crate::job::scheduling::Scheduling;
use crate::job::scheduling::expected_count;

/// Type of the condition on a Job that reports what its group waits for.
pub const GROUP_SCHEDULED: &str = "PodGroupScheduled";
/// Type of the PodGroup's condition about its first start.
const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
/// Type of the PodGroup's condition about pods that it lacks after that.
const DEGRADED: &str = "Degraded";

/// The scheduler's conditions of a group.
pub fn scheduler_conditions(group: &PodGroupView) -> impl Iterator<Item = &Condition> {
    let conditions = group.status.conditions.iter();
    conditions.filter(|condition| [INITIALLY_SCHEDULED, DEGRADED].contains(&condition.kind.as_str()))
}

/// Sets the condition that reports what the group waits for. A group that is placed at once gets none: that would cost
/// each Job a write.
pub fn set_group_condition(
    status: &mut JobStatusView,
    observed: &JobSnapshot,
    evaluation: &JobEvaluation<'_>,
    scheduling: &Scheduling,
    now: Timestamp,
) {
    let Some(group) = group_of(observed, scheduling) else {
        // Without a group nothing waits, and the numbers of the condition would stay forever.
        status.conditions.retain(|condition| !is_waiting_for_placement(condition));
        return;
    };
    let name = &group.metadata.name;
    if let Some((reason, message)) = waiting_reason(group, observed, evaluation) {
        let message = format!("PodGroup {name}: {message}");
        set_condition(&mut status.conditions, GROUP_SCHEDULED, "False", reason, &message, now);
    } else if let Some(placed) = find(group, INITIALLY_SCHEDULED).filter(|condition| condition.status == "True")
        && status.conditions.iter().any(is_waiting_for_placement)
    {
        let message = format!("PodGroup {name} is placed");
        set_condition(&mut status.conditions, GROUP_SCHEDULED, "True", &placed.reason, &message, now);
    }
}

/// Whether a Job's condition reports that its group waits.
pub fn is_waiting_for_placement(condition: &Condition) -> bool {
    condition.kind == GROUP_SCHEDULED && condition.status == "False"
}

/// The group of the Job's pods: the one that they join, or the one that the pod template names.
fn group_of<'a>(observed: &'a JobSnapshot, scheduling: &Scheduling) -> Option<&'a Arc<PodGroupView>> {
    match scheduling {
        Scheduling::Join(joined) => observed.pod_groups.iter().find(|group| group.metadata.name == joined.name),
        _ => observed.named_group.as_ref(),
    }
}

/// What the group waits for: its first start, or the placement of pods that it lacks.
fn waiting_reason<'a>(
    group: &'a PodGroupView,
    observed: &JobSnapshot,
    evaluation: &JobEvaluation<'_>,
) -> Option<(&'a str, String)> {
    if let Some(condition) = find(group, INITIALLY_SCHEDULED).filter(|condition| condition.status == "False") {
        return Some((&condition.reason, condition.message.clone()));
    }
    let lacks = find(group, DEGRADED).filter(|condition| condition.status == "True")?;
    let is_waiting = observed.pods.iter().any(|pod| is_active(pod) && pod.node_name().is_none());
    is_waiting.then(|| (lacks.reason.as_str(), format!("{}{}", lacks.message, remedies(group, observed, evaluation))))
}

/// The remedy for a gang that waits for pods that will not be created, because their work is done. The Job controller
/// sets the annotation itself on groups that it created.
fn remedies(group: &PodGroupView, observed: &JobSnapshot, evaluation: &JobEvaluation<'_>) -> String {
    let count = expected_count::remaining_count(evaluation.params, evaluation.tally);
    let is_unreachable =
        |min_count| evaluation.tally.succeeded > 0 && expected_count::is_below_min_count(observed, count, min_count);
    if group.expected_count().is_some() || !group.min_count().is_some_and(is_unreachable) {
        return String::new();
    }
    format!(
        "; some of the Job's pods that succeeded ({}) no longer exist, and it can have {count} more at once: set the \
         PodGroup's annotation {} to the number of pods that it can still have at once",
        evaluation.tally.succeeded,
        PodGroupView::EXPECTED_COUNT_ANNOTATION
    )
}

fn find<'a>(group: &'a PodGroupView, kind: &str) -> Option<&'a Condition> {
    group.status.conditions.iter().find(|condition| condition.kind == kind)
}
