//! Deletes Jobs some time after their end (`spec.ttlSecondsAfterFinished`).
//!
//! In: the cache of Jobs, and the time.
//! Out: foreground deletes: the Job is deleted after its pods, with everything else that it owns.
//! Promises: a Job is deleted that many seconds after its end, and only in the state that was read.
//! Never: touches a Job that has not ended; polls: it sleeps until the next Job's time.

use std::sync::Arc;
use std::time::Duration;

use api::views::{JobView, ObjectKey, View};
use api::{Clock, Timestamp};
use futures::FutureExt;
use futures::future::{BoxFuture, join3};
use jiff::SignedDuration;
use kube::Error;
use runtime::request::{delete, get};
use runtime::{
    Backoff, Cache, WorkQueue, WorkResult, is_not_found, log_retry, reconcile_span, record_observed,
    wait_for_clock_step,
};
use serde_json::json;
use tracing::Instrument;

use crate::Metrics;

/// How many Jobs are reconciled concurrently.
const WORKERS: usize = 5;
const RETRY: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(60) };

/// What the controller uses.
pub struct TtlContext {
    /// The API server.
    pub client: kube::Client,
    /// All Jobs.
    pub jobs: Cache<JobView>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Metrics,
}

/// What to do with one Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpiryStep {
    /// Nothing until it changes.
    Keep,
    /// Wait this long.
    Wait(Duration),
    /// Delete it.
    Delete,
}

/// Runs the controller forever.
pub fn run(ctx: TtlContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: TtlContext) {
    ctx.jobs.wait_for_sync().await;
    let queue = WorkQueue::with_metrics(RETRY, ctx.metrics.queue("ttl_jobs_to_delete"));
    join3(watch(&ctx, &queue), requeue_on_clock_change(&ctx, &queue), work(&ctx, &queue)).await;
}

async fn watch(ctx: &TtlContext, queue: &WorkQueue<ObjectKey>) {
    let mut cursor = ctx.jobs.subscribe();
    loop {
        let change = cursor.next().await;
        if let Some(job) = change.new.filter(|job| expires_at(job).is_some()) {
            queue.add(job.metadata.key());
        }
    }
}

/// After a step of the wall clock a Job expires earlier or later.
async fn requeue_on_clock_change(ctx: &TtlContext, queue: &WorkQueue<ObjectKey>) {
    loop {
        wait_for_clock_step(&*ctx.clock).await;
        ctx.jobs.all().iter().for_each(|job| queue.add(job.metadata.key()));
    }
}

async fn work(ctx: &TtlContext, queue: &WorkQueue<ObjectKey>) {
    let reconcile_key = |key: ObjectKey| {
        let span = reconcile_span("ttl", JobView::RESOURCE.kind, &key, None);
        async move {
            match reconcile(ctx, &key).await {
                Ok(wait) => {
                    wait.into_iter().for_each(|wait| queue.add_after(key.clone(), wait));
                    WorkResult::Done
                }
                Err(error) => {
                    log_retry("ttl", &key, &error);
                    WorkResult::Failed
                }
            }
        }
        .instrument(span)
    };
    queue.work(WORKERS, reconcile_key).await;
}

/// Observes, decides and executes. Returns the wait before the next reconcile.
async fn reconcile(ctx: &TtlContext, key: &ObjectKey) -> Result<Option<Duration>, Error> {
    let Some(job) = ctx.jobs.get(key) else { return Ok(None) };
    record_observed(&job.metadata);
    match next_step(&job, ctx.clock.now()) {
        ExpiryStep::Keep => Ok(None),
        ExpiryStep::Wait(wait) => Ok(Some(wait)),
        ExpiryStep::Delete => expire(ctx, key).await,
    }
}

/// The cache may not show yet that the Job's TTL was extended, so the Job is read from the server and deleted only in
/// that state.
async fn expire(ctx: &TtlContext, key: &ObjectKey) -> Result<Option<Duration>, Error> {
    let path = JobView::RESOURCE.object_path(key);
    let unless_gone = |error: Error| if is_not_found(&error) { Ok(None) } else { Err(error) };
    let job = match get(&ctx.client, &path).await {
        Ok(bytes) => JobView::decode(&bytes).map_err(Error::SerdeError)?,
        Err(error) => return unless_gone(error),
    };
    match next_step(&job, ctx.clock.now()) {
        ExpiryStep::Keep => return Ok(None),
        ExpiryStep::Wait(wait) => return Ok(Some(wait)),
        ExpiryStep::Delete => {}
    }
    // Upstream: checks the uid alone, and so may delete a Job whose time was extended just now.
    let preconditions = json!({ "uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version });
    let options = json!({ "propagationPolicy": "Foreground", "preconditions": preconditions });
    if let Err(error) = delete(&ctx.client, &path, &options).await {
        return unless_gone(error);
    }
    if let Some(due) = expires_at(&job) {
        ctx.metrics.job_expired(ctx.clock.now().duration_since(due).try_into().unwrap_or_default());
    }
    Ok(None)
}

fn next_step(job: &JobView, now: Timestamp) -> ExpiryStep {
    match expires_at(job) {
        None => ExpiryStep::Keep,
        Some(at) => match Duration::try_from(at.duration_since(now)) {
            Ok(wait) if !wait.is_zero() => ExpiryStep::Wait(wait),
            _ => ExpiryStep::Delete,
        },
    }
}

/// When the Job expires; `None` if it has not ended, has no TTL, or is being deleted.
fn expires_at(job: &JobView) -> Option<Timestamp> {
    let seconds = job.spec.ttl_seconds_after_finished.filter(|_| !job.metadata.is_deleting())?;
    let ended = job.finished_condition()?.last_transition_time?;
    ended.checked_add(SignedDuration::from_secs(seconds.into())).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_job_expires_its_ttl_after_its_end() {
        let now: Timestamp = "2026-01-01T00:01:40Z".parse().unwrap();
        let job = |ttl: Value, condition: &str, deleting: Value| {
            let end = json!({"type": condition, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let document = json!({
                "metadata": {"name": "j", "deletionTimestamp": deleting},
                "spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [end]},
            });
            JobView::decode(document.to_string().as_bytes()).unwrap()
        };
        for (case, ttl, condition, want) in [
            ("early", json!(101), "Complete", ExpiryStep::Wait(Duration::from_secs(1))),
            ("in time", json!(100), "Complete", ExpiryStep::Delete),
            ("long ago", json!(0), "Failed", ExpiryStep::Delete),
            ("it has no TTL", Value::Null, "Complete", ExpiryStep::Keep),
            ("it has not ended", json!(0), "Suspended", ExpiryStep::Keep),
            ("a clock that was set back", json!(100_000), "Complete", ExpiryStep::Wait(Duration::from_secs(99_900))),
        ] {
            assert_eq!(next_step(&job(ttl, condition, Value::Null), now), want, "{case}");
        }
        assert_eq!(next_step(&job(json!(0), "Complete", json!("2026-01-01T00:00:01Z")), now), ExpiryStep::Keep);
    }
}
