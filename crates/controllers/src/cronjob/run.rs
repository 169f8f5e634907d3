//! The loop: changes become keys in the work queue, and each key is reconciled.

use std::time::Duration;

use api::Timestamp;
use api::views::{CronJobView, JobView, ObjectKey, OwnerRef, View};
use futures::FutureExt;
use futures::future::{BoxFuture, join4};
use kube::Error;
use runtime::{
    CacheChange, Cursor, WorkQueue, WorkResult, is_not_found, log_retry, reconcile_span, record_observed,
    wait_for_clock_step,
};
use tracing::Instrument;

use super::CronJobContext;
use super::due_times::next_time;
use super::execute::{AfterStep, execute};
use super::next_step::{CronJobStep, next_step};
use super::observe::{ReconcileMemory, observe};

/// After this many steps in a row a CronJob goes to the end of the queue.
const MAX_STEPS: usize = 16;

/// Runs the CronJob controller forever.
pub fn run(ctx: CronJobContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: CronJobContext) {
    ctx.cron_jobs.wait_for_sync().await;
    ctx.jobs.wait_for_sync().await;
    let queue = WorkQueue::with_metrics(ctx.config.retry, ctx.metrics.queue("cronjob"));
    join4(
        watch_cron_jobs(&ctx, &queue),
        watch_jobs(ctx.jobs.subscribe(), &queue),
        requeue_on_clock_change(&ctx, &queue),
        work(&ctx, &queue),
    )
    .await;
}

async fn watch_cron_jobs(ctx: &CronJobContext, queue: &WorkQueue<ObjectKey>) {
    let mut cursor = ctx.cron_jobs.subscribe();
    loop {
        let change = cursor.next().await;
        let Some(cron_job) = &change.new else { continue };
        let delay = first_sync_delay(&change, ctx.clock.now()).unwrap_or_default();
        queue.add_after(cron_job.metadata.key(), delay);
    }
}

/// How long a changed CronJob waits for its reconcile. One with another schedule waits for that schedule's next time:
/// times before the change were not missed.
fn first_sync_delay(change: &CacheChange<CronJobView>, now: Timestamp) -> Option<Duration> {
    let (old, new) = (change.old.as_ref()?, change.new.as_ref()?);
    let schedule = |cron_job: &CronJobView| (cron_job.spec.schedule.clone(), cron_job.spec.time_zone.clone());
    let has_new_schedule = schedule(old) != schedule(new) && old.metadata.uid == new.metadata.uid;
    // A schedule that cannot be parsed is reported at once.
    let next = has_new_schedule.then(|| next_time(new, now)).flatten()?;
    Some(until(next, now))
}

/// A Job that is created, ends or is deleted enqueues the CronJob that controls or controlled it.
async fn watch_jobs(mut cursor: Cursor<JobView>, queue: &WorkQueue<ObjectKey>) {
    loop {
        let change = cursor.next().await;
        if !is_relevant(&change) {
            continue;
        }
        for job in change.old.iter().chain(&change.new) {
            let owner = job.metadata.controller().filter(|owner| is_cron_job(owner));
            owner.into_iter().for_each(|owner| queue.add(ObjectKey::new(&job.metadata.namespace, &owner.name)));
        }
    }
}

/// Whether the change matters to a CronJob. Counts of pods do not.
fn is_relevant(change: &CacheChange<JobView>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let relevant = |job: &JobView| {
        (
            job.finished_condition().is_some(),
            job.status.completion_time,
            job.metadata.is_deleting(),
            job.metadata.uid.clone(),
        )
    };
    relevant(old) != relevant(new) || old.metadata.owner_references != new.metadata.owner_references
}

fn is_cron_job(owner: &OwnerRef) -> bool {
    owner.kind == CronJobView::RESOURCE.kind && owner.api_version.starts_with("batch/")
}

/// After a step of the wall clock the next time of a schedule is nearer or further.
// Upstream: sleeps on, so that Jobs are late by as much as the clock was set forward.
async fn requeue_on_clock_change(ctx: &CronJobContext, queue: &WorkQueue<ObjectKey>) {
    loop {
        wait_for_clock_step(&*ctx.clock).await;
        ctx.cron_jobs.all().iter().for_each(|cron_job| queue.add(cron_job.metadata.key()));
    }
}

async fn work(ctx: &CronJobContext, queue: &WorkQueue<ObjectKey>) {
    let reconcile_key = |key: ObjectKey| {
        let span = reconcile_span("cronjob", CronJobView::RESOURCE.kind, &key, None);
        async move {
            match reconcile(ctx, queue, &key).await {
                Ok(()) => WorkResult::Done,
                // Deleted in between. The cache has shown it already.
                Err(error) if is_not_found(&error) && ctx.cron_jobs.get(&key).is_none() => WorkResult::Done,
                Err(error) => {
                    log_retry("cronjob", &key, &error);
                    WorkResult::Failed
                }
            }
        }
        .instrument(span)
    };
    queue.work(ctx.config.workers, reconcile_key).await;
}

/// Observes, decides and executes until nothing is left to do.
async fn reconcile(ctx: &CronJobContext, queue: &WorkQueue<ObjectKey>, key: &ObjectKey) -> Result<(), Error> {
    let mut memory = ReconcileMemory::default();
    // Set when a create failed. Existing Jobs are tracked all the same.
    let mut blocked = None;
    for step_number in 0..MAX_STEPS {
        let Some(observed) = observe(ctx, key, &memory) else { return Ok(()) };
        if step_number == 0 {
            record_observed(&observed.cron_job.metadata);
        }
        let decision = next_step(&observed);
        if let Some(time) = decision.requeue_at {
            queue.add_after(key.clone(), until(time, observed.now));
        }
        let is_creation = matches!(decision.step, CronJobStep::CreateJob { .. });
        match execute(ctx, &observed, decision, &mut memory).await {
            Ok(AfterStep::DecideAgain) => {}
            Ok(AfterStep::AwaitEvents) => return blocked.map_or(Ok(()), Err),
            Err(error) if is_creation => blocked = Some(error),
            Err(error) => return Err(error),
        }
    }
    queue.add(key.clone());
    Ok(())
}

/// From `now` to `time`; nothing if that has passed.
fn until(time: Timestamp, now: Timestamp) -> Duration {
    time.duration_since(now).try_into().unwrap_or(Duration::ZERO)
}
