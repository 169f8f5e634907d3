//! The decision: from what was observed to the one thing to do next.

use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::views::{JobStatusView, JobView, PodView};
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};
use workloadbuilder::BuildError;

use super::Config;
use super::backoff;
use super::expected::{self, ExpectedCount};
use super::foreign::on_this_server;
use super::observe::Observed;
use super::pods::{PodPlan, Slot, plan};
use super::retries::Retries;
use super::scheduling::{Fallback, Group, Made, MinCount, Scheduling, scheduling};
use super::shape::{Shape, is_active, is_finished, is_held, is_managed_by_others};
use super::status::{Findings, News, next_status, releasable};
use super::tally::Tally;
use super::verdict::{deadline_in, verdict};

/// The next write. The variants stand in creation order, and each is decided from what the earlier ones left in the
/// API, so a crash between any two resumes where it stopped.
#[derive(Clone, Debug)]
pub enum NextStep {
    /// Let go of pods that the Job no longer selects.
    Disown(Vec<Arc<PodView>>),
    /// Take on pods that the Job selects and nobody controls.
    Adopt(Vec<Arc<PodView>>),
    /// Delete an object of ours that has to go.
    Remove(Made),
    /// Create the Workload.
    CreateWorkload(Box<Workload>),
    /// Create the PodGroup.
    CreatePodGroup(Box<PodGroup>),
    /// Let `minCount` of one of the two follow the Job.
    SetMinCount(MinCount),
    /// Let the PodGroup say how many pods it can still have at once.
    SetExpectedCount(ExpectedCount),
    /// Create pods, in the group if there is one.
    CreatePods(Vec<Slot>, Option<Group>),
    /// Delete pods whose end is not counted: the Job is suspended or became smaller.
    DropPods(Vec<Arc<PodView>>),
    /// Delete pods whose end is counted: the Job is over.
    StopPods(Vec<Arc<PodView>>),
    /// Write the status, then tell the news.
    WriteStatus(Box<JobStatusView>, Vec<News>),
    /// Let go of pods whose end is in the status.
    ReleasePods(Vec<Arc<PodView>>),
    /// Say why nothing can be done.
    Report(News),
    /// Nothing until something changes or this time has passed.
    Rest(Option<Duration>),
}

impl NextStep {
    /// Whether something comes into being by it, or is made ready for that.
    fn creates(&self) -> bool {
        let creates =
            matches!(self, NextStep::CreateWorkload(_) | NextStep::CreatePodGroup(_) | NextStep::CreatePods(..));
        creates || matches!(self, NextStep::Remove(_) | NextStep::SetMinCount(_) | NextStep::SetExpectedCount(_))
    }
}

/// What to do next about a Job.
pub fn next_step(observed: &Observed, gates: &Gates, config: &Config) -> Result<NextStep, BuildError> {
    let (job, now) = (&observed.job, observed.now);
    if is_managed_by_others(job) {
        return Ok(NextStep::Rest(None));
    }
    if is_finished(job) {
        return Ok(release(held(observed, config)).unwrap_or(NextStep::Rest(None)));
    }
    let Some(shape) = Shape::of(job, config) else {
        let message = format!("Unknown completion mode: {}", job.spec.completion_mode.as_deref().unwrap_or_default());
        let reason = "UnknownCompletionMode".to_owned();
        return Ok(NextStep::Report(News { warning: true, reason, message }));
    };
    if let Some(step) = change_hands(observed, config) {
        return Ok(step);
    }
    let tally = Tally::of(job, &shape, &observed.pods);
    let verdict = verdict(job, &shape, &tally, now);
    let goes_on = verdict.is_none() && !job.metadata.is_deleting();

    let mut scheduled = None;
    let mut retries = Retries::default();
    let mut after = None;
    let mut recheck = deadline_in(job, &shape, now).filter(|_| verdict.is_none());
    if goes_on {
        let mut found = on_this_server(scheduling(observed, gates, config)?, observed, gates)?;
        if let Scheduling::NeedsPodGroup(group) = &mut found {
            expected::adjust_new(group, &shape, &tally);
        }
        retries = Retries::of(&shape, &tally, &observed.pods, config.pod_backoff, now);
        let pause = backoff::remaining(&shape, &observed.pods, observed.settled, config.pod_backoff, now);
        let planned = plan(&shape, &tally, pause, &retries);
        let expected = expected::to_set(observed, &shape, &tally, &found, &planned).map(NextStep::SetExpectedCount);
        let step = expected.or_else(|| step_toward_pods(job, &found, &planned));
        let step = step.filter(|step| !(observed.blocked && step.creates()));
        match step {
            Some(NextStep::CreatePods(slots, group))
                if is_unstarted_and_large(job, &shape, &slots) || ends_pile_up(observed, &shape, &retries) =>
            {
                after = Some(NextStep::CreatePods(slots, group));
            }
            Some(step) => return Ok(step),
            None => {}
        }
        let pause = match planned {
            PodPlan::CreateAfter(pause) => Some(pause),
            _ => None,
        };
        recheck = [recheck, pause, owners_due_in(observed, &found, config)].into_iter().flatten().min();
        scheduled = Some(found);
    }
    if verdict.as_ref().is_some_and(|verdict| verdict.written) && !job.metadata.is_deleting() {
        let active: Vec<_> = observed.pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        if !active.is_empty() {
            return Ok(NextStep::StopPods(active));
        }
    }
    let findings = Findings { shape: &shape, tally: &tally, retries: &retries, verdict: verdict.as_ref() };
    let free = release(releasable(observed, &findings));
    if let Some(step) = free.as_ref().filter(|_| goes_on && !observed.blocked) {
        // Their ends are in the written status, and of a Job that goes on they decide nothing more. Were they let go only
        // once the status is as it should be, those of a Job whose pods come and go all the time would wait for its end.
        return Ok(step.clone());
    }
    let (status, news) = next_status(observed, &findings, scheduled.as_ref());
    if status != job.status {
        return Ok(NextStep::WriteStatus(Box::new(status), news));
    }
    Ok(free.or(after).unwrap_or(NextStep::Rest(recheck)))
}

/// When it is to be asked again who owns a child that waits for the Workload of an owner.
fn owners_due_in(observed: &Observed, found: &Scheduling, config: &Config) -> Option<Duration> {
    let waits = matches!(found, Scheduling::Waits(waits) if waits.reason == Fallback::NO_PARENT);
    let known = observed.known.as_ref().filter(|_| waits)?;
    Some(known.due_in(observed.now, config.retry))
}

/// Whether a whole batch of pods is to be made for a Job that does not say yet that it has started. Making the first pods
/// of a large Job takes a while, and its deadline runs from its start.
fn is_unstarted_and_large(job: &JobView, shape: &Shape<'_>, slots: &[Slot]) -> bool {
    job.status.start_time.is_none() && slots.len() == shape.max_pods_per_sync
}

/// Whether a whole batch of pods has ended and is still held. Where pods end as fast as they are made there is always one
/// missing, and those that ended would be held until the last; each look at the Job looks at all of them.
fn ends_pile_up(observed: &Observed, shape: &Shape<'_>, retries: &Retries) -> bool {
    let waits = |pod: &&Arc<PodView>| is_held(pod) && shape.end(pod).is_some() && !retries.need(shape, pod);
    observed.pods.iter().filter(waits).take(shape.max_uncounted_pods).count() == shape.max_uncounted_pods
}

/// Pods that are not yet or no longer the Job's; that is settled before anything is counted.
fn change_hands(observed: &Observed, config: &Config) -> Option<NextStep> {
    let batch = |pods: &[Arc<PodView>]| pods.iter().take(config.max_pods_per_sync).cloned().collect();
    match (observed.strays.is_empty(), observed.loose.is_empty()) {
        (false, _) => Some(NextStep::Disown(batch(&observed.strays))),
        (true, false) => Some(NextStep::Adopt(batch(&observed.loose))),
        (true, true) => None,
    }
}

/// What a Job that goes on lacks, in creation order.
fn step_toward_pods(job: &JobView, scheduled: &Scheduling, planned: &PodPlan) -> Option<NextStep> {
    match (scheduled, planned) {
        (Scheduling::NeedsRemoval(made), _) => Some(NextStep::Remove(made.clone())),
        (Scheduling::NeedsWorkload(workload), _) => Some(NextStep::CreateWorkload(workload.clone())),
        (Scheduling::NeedsPodGroup(group), _) => Some(NextStep::CreatePodGroup(group.clone())),
        (Scheduling::NeedsMinCount(min_count), _) => Some(NextStep::SetMinCount(min_count.clone())),
        (_, PodPlan::Delete(pods)) => Some(NextStep::DropPods(pods.clone())),
        // The condition that explains is written before the first of the pods that it explains.
        (Scheduling::Join(Group { lost: Some(lost), .. }), _) if !lost.is_noted(job) => None,
        (Scheduling::Join(group), PodPlan::Create(slots)) => {
            Some(NextStep::CreatePods(slots.clone(), Some(group.clone())))
        }
        (Scheduling::Plain(Some(fallback)), _) if !fallback.is_noted(job) => None,
        (Scheduling::Plain(_), PodPlan::Create(slots)) => Some(NextStep::CreatePods(slots.clone(), None)),
        (Scheduling::Waits(_) | Scheduling::Unknown | Scheduling::Plain(_) | Scheduling::Join(_), _) => None,
    }
}

fn held(observed: &Observed, config: &Config) -> Vec<Arc<PodView>> {
    observed.pods.iter().filter(|pod| is_held(pod)).take(config.max_pods_per_sync).cloned().collect()
}

fn release(pods: Vec<Arc<PodView>>) -> Option<NextStep> {
    (!pods.is_empty()).then_some(NextStep::ReleasePods(pods))
}
