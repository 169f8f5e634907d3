//! Executes a step: one write, or one batch of the same write, and waits until the caches show it.

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{ActiveJobView, CronJobStatusView, CronJobView, JobView, ObjectKey, View};
use kube::Error;
use runtime::failure::message;
use runtime::request::{delete, get, patch, post};
use runtime::{ObjectRef, PatchKind, is_already_exists, is_namespace_terminating, is_not_found};
use serde_json::{Value, json};

use super::next_step::{CronJobDecision, CronJobStep};
use super::observe::{CronJobSnapshot, ReconcileMemory};
use super::{CronJobContext, CronJobEvent};

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterStep {
    /// The caches or the memory show the outcome: decide again.
    DecideAgain,
    /// Nothing more to do until the outcome arrives as an event, which enqueues the CronJob.
    AwaitEvents,
}

/// Executes one step for one CronJob. New observations are recorded in `memory`.
pub async fn execute(
    ctx: &CronJobContext,
    observed: &CronJobSnapshot,
    decision: CronJobDecision,
    memory: &mut ReconcileMemory,
) -> Result<AfterStep, Error> {
    let cron_job = &observed.cron_job;
    let CronJobDecision { step, events, .. } = decision;
    let after = match step {
        CronJobStep::LookUpJobs(jobs) => look_up_jobs(ctx, cron_job, jobs, memory).await,
        CronJobStep::Replace(jobs) => replace(ctx, cron_job, jobs, memory).await,
        CronJobStep::CreateJob { scheduled_time, job } => create(ctx, cron_job, scheduled_time, &job, memory).await,
        CronJobStep::WriteStatus(status) => write_status(ctx, cron_job, &status).await,
        CronJobStep::DeleteHistory(jobs) => {
            for job in &jobs {
                delete_job(ctx, cron_job, &job.metadata.name, &job.metadata.uid).await?;
            }
            Ok(AfterStep::AwaitEvents)
        }
        CronJobStep::Wait => Ok(AfterStep::AwaitEvents),
    }?;
    events.iter().for_each(|event| record_event(ctx, cron_job, event));
    Ok(after)
}

/// The cache of Jobs may lag behind the written status, so the Jobs are read from the server.
async fn look_up_jobs(
    ctx: &CronJobContext,
    cron_job: &CronJobView,
    jobs: Vec<ActiveJobView>,
    memory: &mut ReconcileMemory,
) -> Result<AfterStep, Error> {
    for job in jobs {
        let found = read_job(ctx, cron_job, &job.name).await.inspect_err(|error| {
            record_event(ctx, cron_job, &CronJobEvent::warning("FailedGet", format!("Get job: {}", message(error))));
        })?;
        let exists = found.is_some_and(|found| found.metadata.uid == job.uid);
        memory.exists_by_uid.insert(job.uid, exists);
    }
    Ok(AfterStep::DecideAgain)
}

async fn replace(
    ctx: &CronJobContext,
    cron_job: &CronJobView,
    jobs: Vec<ActiveJobView>,
    memory: &mut ReconcileMemory,
) -> Result<AfterStep, Error> {
    for job in jobs {
        delete_job(ctx, cron_job, &job.name, &job.uid).await?;
        memory.replaced.insert(job.uid);
    }
    Ok(AfterStep::DecideAgain)
}

/// Deletes exactly this Job, and its pods in the background. A missing Job is not an error.
async fn delete_job(ctx: &CronJobContext, cron_job: &CronJobView, name: &str, uid: &str) -> Result<(), Error> {
    let options = json!({ "propagationPolicy": "Background", "preconditions": { "uid": uid } });
    match delete(&ctx.client, &job_path(cron_job, name), &options).await {
        Ok(_) => record_event(ctx, cron_job, &CronJobEvent::normal("SuccessfulDelete", format!("Deleted job {name}"))),
        Err(error) if is_not_found(&error) => {}
        Err(error) => {
            record_event(
                ctx,
                cron_job,
                &CronJobEvent::warning("FailedDelete", format!("Deleted job: {}", message(&error))),
            );
            return Err(error);
        }
    }
    Ok(())
}

async fn create(
    ctx: &CronJobContext,
    cron_job: &CronJobView,
    scheduled_time: Timestamp,
    job: &Value,
    memory: &mut ReconcileMemory,
) -> Result<AfterStep, Error> {
    let path = JobView::RESOURCE.collection_path(&cron_job.metadata.namespace);
    let error = match post(&ctx.client, &path, job).await {
        Ok(response) => {
            record_event(
                ctx,
                cron_job,
                &CronJobEvent::normal("SuccessfulCreate", format!("Created job {}", response.name)),
            );
            let skew = ctx.clock.now().duration_since(scheduled_time);
            ctx.metrics.cron_job_started(skew.try_into().unwrap_or_default());
            ctx.jobs.wait_for_revision(response.revision).await;
            return Ok(AfterStep::DecideAgain);
        }
        Err(error) => error,
    };
    // The CronJob is deleted with its namespace.
    if is_namespace_terminating(&error) {
        return Ok(AfterStep::AwaitEvents);
    }
    memory.refused_time = Some(scheduled_time);
    if is_already_exists(&error) {
        let name = job["metadata"]["name"].as_str().unwrap_or_default();
        let Some(taken) = read_job(ctx, cron_job, name).await? else { return Err(error) };
        if taken.metadata.controller().is_some_and(|owner| owner.uid == cron_job.metadata.uid) {
            // Our own earlier create, whose response was lost.
            ctx.jobs.wait_for_revision(taken.metadata.resource_version).await;
            return Ok(AfterStep::DecideAgain);
        }
        let text = format!("Error creating job: {name} already exists and is not controlled by this CronJob");
        record_event(ctx, cron_job, &CronJobEvent::warning("FailedCreate", text));
        return Ok(AfterStep::DecideAgain);
    }
    record_event(
        ctx,
        cron_job,
        &CronJobEvent::warning("FailedCreate", format!("Error creating job: {}", message(&error))),
    );
    Err(error)
}

async fn write_status(
    ctx: &CronJobContext,
    cron_job: &CronJobView,
    status: &CronJobStatusView,
) -> Result<AfterStep, Error> {
    let meta = &cron_job.metadata;
    let path = format!("{}/status", CronJobView::RESOURCE.object_path(&meta.key()));
    let body = json!({
        // With the version, so that a status from an outdated CronJob is refused and does not overwrite a newer one.
        "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
        "status": status_patch(status, &meta.namespace),
    });
    let response = patch(&ctx.client, &path, PatchKind::Merge, &body).await?;
    if response.revision == meta.resource_version {
        // Deciding again would lead to the same write forever.
        tracing::error!(cron_job = %meta.key(), "the server stores another status than the one written");
        return Ok(AfterStep::AwaitEvents);
    }
    ctx.cron_jobs.wait_for_revision(response.revision).await;
    Ok(AfterStep::DecideAgain)
}

/// The whole status as a merge patch: absent fields are removed.
fn status_patch(status: &CronJobStatusView, namespace: &str) -> Value {
    let job = JobView::RESOURCE;
    let active = status.active.iter().map(|active| {
        json!({
            "apiVersion": job.api_version(), "kind": job.kind, "namespace": namespace, "name": active.name,
            "uid": active.uid, "resourceVersion": active.resource_version,
        })
    });
    json!({
        "active": Some(active.collect::<Vec<_>>()).filter(|active| !active.is_empty()),
        "lastScheduleTime": status.last_schedule_time.map(rfc3339),
        "lastSuccessfulTime": status.last_successful_time.map(rfc3339),
    })
}

/// The Job of this name as the server has it.
async fn read_job(ctx: &CronJobContext, cron_job: &CronJobView, name: &str) -> Result<Option<JobView>, Error> {
    match get(&ctx.client, &job_path(cron_job, name)).await {
        Ok(bytes) => JobView::decode(&bytes).map(Some).map_err(Error::SerdeError),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn job_path(cron_job: &CronJobView, name: &str) -> String {
    JobView::RESOURCE.object_path(&ObjectKey::new(&cron_job.metadata.namespace, name))
}

/// Records an Event.
pub fn record_event(ctx: &CronJobContext, cron_job: &CronJobView, event: &CronJobEvent) {
    ctx.recorder.event(&ObjectRef::of(cron_job), event.kind, event.reason, "Reconcile", &event.message);
}
