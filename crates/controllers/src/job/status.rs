//! The status a Job should have, and the pods that may be let go because it has it.
//!
//! A pod's end is counted exactly once, however often the controller dies (KEP-2307): the end is first *recorded* in the
//! status (its uid among the uncounted, or its index among the completed), then the pod loses the tracking finalizer,
//! and only when that is seen the uid moves into the count. Each of these is one write; a crash between any two leaves a
//! state from which the next write follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Timestamp;
use api::views::{Condition, JobStatusView, JobView, PodGroupView, PodPhase, PodView};

use super::observe::Observed;
use super::scheduling::{Fallback, Group, Scheduling};
use super::shape::{Mode, PODS_PER_STEP_MAX, Shape, is_held, is_terminating, unsupported_fields};
use super::tally::{Tally, recorded_indexes, recorded_uids};
use super::verdict::Verdict;

/// Type of the condition on a Job that says what its group waits for.
pub const GROUP_SCHEDULED: &str = "PodGroupScheduled";

/// Something worth an event once the status that says so is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether it is a warning.
    pub warning: bool,
    /// CamelCase reason.
    pub reason: String,
    /// Text for people.
    pub message: String,
}

impl News {
    fn normal(reason: &str, message: &str) -> News {
        News { warning: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn warning(reason: &str, message: impl Into<String>) -> News {
        News { warning: true, reason: reason.to_owned(), message: message.into() }
    }
}

/// The status that follows from what was observed, and what to tell people when it is written.
pub fn next_status(
    observed: &Observed,
    shape: &Shape,
    tally: &Tally,
    verdict: Option<&Verdict>,
    scheduling: &Scheduling,
) -> (JobStatusView, Vec<News>) {
    let (job, now) = (&observed.job, whole_seconds(observed.now));
    let mut status = job.status.clone();
    let mut news = Vec::new();
    start_or_suspend(&mut status, job, shape, verdict, now, &mut news);
    note_fallback(&mut status, scheduling, now, &mut news);
    note_group(&mut status, observed, scheduling, shape.suspended || verdict.is_some(), now);
    let all_recorded = count_and_record(&mut status, observed, shape, verdict);
    status.active = tally.active.len() as i32;
    status.ready = Some(tally.ready);
    status.terminating = Some(tally.terminating.len() as i32);
    let settled = all_recorded && tally.active.is_empty() && tally.terminating.is_empty();
    if let Some(verdict) = verdict {
        finish(&mut status, verdict, settled && !observed.pods.iter().any(|pod| is_held(pod)), now, &mut news);
    }
    (status, news)
}

/// Pods that may be let go, at most one batch: their end is in the written status, or never will be.
pub fn releasable(observed: &Observed, shape: &Shape, verdict: Option<&Verdict>) -> Vec<Arc<PodView>> {
    let job = &observed.job;
    let uids = recorded_uids(job);
    let indexes = recorded_indexes(job, shape);
    let is_free = |pod: &PodView| {
        let has_succeeded = pod.status.phase == PodPhase::Succeeded;
        let recorded_index = has_succeeded && shape.index_of(pod).is_some_and(|index| indexes.contains(index));
        if recorded_index || uids.contains(pod.metadata.uid.as_str()) {
            return true;
        }
        if has_succeeded || shape.has_failed(pod) {
            return !shape.counts(pod);
        }
        // A Job that is going away lets the rest go, and one that succeeded lets go of what it stopped.
        job.metadata.is_deleting() || (verdict.is_some_and(|verdict| verdict.succeeded) && is_terminating(pod))
    };
    let free = observed.pods.iter().filter(|pod| is_held(pod) && is_free(pod));
    free.take(PODS_PER_STEP_MAX).cloned().collect()
}

/// `startTime` runs while the Job may have pods; a suspended Job has none, and a resumed one starts again.
fn start_or_suspend(
    status: &mut JobStatusView,
    job: &JobView,
    shape: &Shape,
    verdict: Option<&Verdict>,
    now: Timestamp,
    news: &mut Vec<News>,
) {
    let was_suspended = Condition::is_true(&status.conditions, "Suspended");
    if shape.suspended && verdict.is_none() {
        if set_condition(&mut status.conditions, "Suspended", "True", "JobSuspended", "Job suspended", now) {
            news.push(News::normal("Suspended", "Job suspended"));
        }
        status.start_time = None;
    } else if was_suspended && verdict.is_none() {
        set_condition(&mut status.conditions, "Suspended", "False", "JobResumed", "Job resumed", now);
        news.push(News::normal("Resumed", "Job resumed"));
        status.start_time = Some(now);
    } else if status.start_time.is_none() {
        // A Job that ends was started, if only to find that nothing was to be done.
        status.start_time = Some(now);
        let unsupported = unsupported_fields(job).into_iter();
        news.extend(unsupported.map(|field| {
            News::warning("UnsupportedField", format!("{field} is not supported yet; every failure counts as usual"))
        }));
    }
}

/// Says on the Job itself why its pods are not scheduled as a group (S000-36, S000-39, S000-43).
fn note_fallback(status: &mut JobStatusView, scheduling: &Scheduling, now: Timestamp, news: &mut Vec<News>) {
    let conditions = &mut status.conditions;
    let (kind, told) = match scheduling {
        Scheduling::Waits(waits) => (Fallback::WAITING, Some(waits)),
        Scheduling::Plain(fallback) => (Fallback::CONDITION, fallback.as_ref()),
        Scheduling::Join(Group { lost, .. }) => (Fallback::CONDITION, lost.as_ref()),
        _ => (Fallback::CONDITION, None),
    };
    if let Some(Fallback { reason, message }) = told
        && set_condition(conditions, kind, "True", reason, message, now)
    {
        news.push(News::warning(reason, message));
    }
    let joins = matches!(scheduling, Scheduling::Join(Group { lost: None, .. }));
    if joins && Condition::is_true(conditions, Fallback::CONDITION) {
        let message = "new pods join their PodGroup";
        set_condition(conditions, Fallback::CONDITION, "False", "Resolved", message, now);
    }
    let goes_on = matches!(scheduling, Scheduling::Join(_) | Scheduling::Plain(_));
    if goes_on && Condition::is_true(conditions, Fallback::WAITING) {
        set_condition(conditions, Fallback::WAITING, "False", "Resolved", "the Job waits for nothing", now);
    }
}

/// What the scheduler says of a group as a whole.
pub fn scheduled_condition(group: &PodGroupView) -> Option<&Condition> {
    group.status.conditions.iter().find(|condition| condition.kind == "PodGroupInitiallyScheduled")
}

/// Says on the Job what its group waits for, in the scheduler's words. A Job whose group is placed at once is not told
/// so: that would cost each Job a write.
fn note_group(status: &mut JobStatusView, observed: &Observed, scheduling: &Scheduling, over: bool, now: Timestamp) {
    let waited = |condition: &Condition| condition.kind == GROUP_SCHEDULED && condition.status == "False";
    if over {
        // A Job that is over or suspended waits no longer, though its group was never placed.
        status.conditions.retain(|condition| !waited(condition));
        return;
    }
    let Scheduling::Join(joined) = scheduling else { return };
    let group = observed.pod_groups.iter().find(|group| group.metadata.name == joined.name);
    match group.and_then(|group| scheduled_condition(group)) {
        Some(said) if said.status == "False" => {
            let message = format!("PodGroup {}: {}", joined.name, said.message);
            set_condition(&mut status.conditions, GROUP_SCHEDULED, "False", &said.reason, &message, now);
        }
        Some(said) if said.status == "True" && status.conditions.iter().any(waited) => {
            let message = format!("PodGroup {} is placed", joined.name);
            set_condition(&mut status.conditions, GROUP_SCHEDULED, "True", &said.reason, &message, now);
        }
        _ => {}
    }
}

/// Moves ends along: uids whose pod was let go into the counts, new ends into the records. True if all found room.
fn count_and_record(status: &mut JobStatusView, observed: &Observed, shape: &Shape, verdict: Option<&Verdict>) -> bool {
    let held: Vec<&Arc<PodView>> = observed.pods.iter().filter(|pod| is_held(pod)).collect();
    let held_uids: BTreeSet<&str> = held.iter().map(|pod| pod.metadata.uid.as_str()).collect();
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let let_go = |uids: &mut Vec<String>| {
        let before = uids.len();
        uids.retain(|uid| held_uids.contains(uid.as_str()));
        (before - uids.len()) as i32
    };
    status.succeeded += let_go(&mut uncounted.succeeded);
    status.failed += let_go(&mut uncounted.failed);

    let mut completed = recorded_indexes(&observed.job, shape);
    let recorded = recorded_uids(&observed.job);
    let failing = verdict.is_some_and(|verdict| verdict.written && !verdict.succeeded);
    let mut all_recorded = true;
    for pod in held.iter().filter(|pod| shape.counts(pod) && !recorded.contains(pod.metadata.uid.as_str())) {
        let has_room = uncounted.succeeded.len() + uncounted.failed.len() < PODS_PER_STEP_MAX;
        // Pods that are stopped because the Job failed are part of its failure.
        let failed = shape.has_failed(pod) || (failing && is_terminating(pod));
        match (pod.status.phase == PodPhase::Succeeded, shape.index_of(pod)) {
            (true, Some(index)) => completed.insert(index),
            (true, None) if has_room => uncounted.succeeded.push(pod.metadata.uid.clone()),
            (false, _) if failed && has_room => uncounted.failed.push(pod.metadata.uid.clone()),
            (succeeded, _) => all_recorded &= !succeeded && !failed,
        }
    }
    if let Mode::Indexed { .. } = shape.mode {
        status.succeeded = completed.len();
        status.completed_indexes = completed.to_string();
    }
    all_recorded &= uncounted == Default::default();
    status.uncounted_terminated_pods = Some(uncounted);
    all_recorded
}

/// Writes the interim condition at once and the final one when no pod is left to count.
fn finish(status: &mut JobStatusView, verdict: &Verdict, settled: bool, now: Timestamp, news: &mut Vec<News>) {
    let Verdict { reason, message, .. } = verdict;
    set_condition(&mut status.conditions, verdict.interim_condition(), "True", reason, message, now);
    if !settled {
        return;
    }
    set_condition(&mut status.conditions, verdict.final_condition(), "True", reason, message, now);
    if verdict.succeeded {
        status.completion_time = Some(now);
        news.push(News::normal("Completed", "Job completed"));
    } else {
        news.push(News::warning(reason, message));
    }
}

/// Sets a condition; false if it already said so.
fn set_condition(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let held = conditions.iter().position(|condition| condition.kind == kind);
    if let Some(held) = held.map(|position| &conditions[position])
        && (held.status.as_str(), held.reason.as_str(), held.message.as_str()) == (status, reason, message)
    {
        return false;
    }
    let condition = Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Some(now),
    };
    match held {
        Some(position) => conditions[position] = condition,
        None => conditions.push(condition),
    }
    true
}

/// Objects carry whole seconds; a status that kept more would never equal the one that was written.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
