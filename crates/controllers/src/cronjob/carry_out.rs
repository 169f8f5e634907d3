//! Does what was decided: one write, or one batch of alike writes, and waits until the caches show it.

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{ActiveJobView, CronJobStatusView, CronJobView, JobView, ObjectKey, View};
use kube::Error;
use runtime::failure::message;
use runtime::request::{delete, get, patch, post};
use runtime::{ObjectRef, PatchKind, is_already_exists, is_namespace_terminating, is_not_found};
use serde_json::{Value, json};

use super::next_step::{Decision, NextStep};
use super::observe::{Learned, Observed};
use super::{News, Parts};

/// What to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The caches or `Learned` show the outcome: decide again.
    Again,
    /// Until the outcome shows itself as an event, which wakes the CronJob, there is nothing more to do.
    AwaitEvents,
}

/// Carries out one step for one CronJob. What it learns goes to `learned`.
pub async fn carry_out(
    parts: &Parts,
    observed: &Observed,
    decision: Decision,
    learned: &mut Learned,
) -> Result<Then, Error> {
    let cron_job = &observed.cron_job;
    let Decision { step, news, .. } = decision;
    let then = match step {
        NextStep::Ask(jobs) => ask(parts, cron_job, jobs, learned).await,
        NextStep::Replace(jobs) => replace(parts, cron_job, jobs, learned).await,
        NextStep::CreateJob { slot, job } => create(parts, cron_job, slot, &job, learned).await,
        NextStep::WriteStatus(status) => write_status(parts, cron_job, &status).await,
        NextStep::DropHistory(jobs) => {
            for job in &jobs {
                delete_job(parts, cron_job, &job.metadata.name, &job.metadata.uid).await?;
            }
            Ok(Then::AwaitEvents)
        }
        NextStep::Rest => Ok(Then::AwaitEvents),
    }?;
    news.iter().for_each(|news| tell(parts, cron_job, news));
    Ok(then)
}

/// The cache of Jobs may lag behind the status that was written about them, so the server is asked.
async fn ask(
    parts: &Parts,
    cron_job: &CronJobView,
    jobs: Vec<ActiveJobView>,
    learned: &mut Learned,
) -> Result<Then, Error> {
    for job in jobs {
        let found = read(parts, cron_job, &job.name).await.inspect_err(|error| {
            tell(parts, cron_job, &News::warning("FailedGet", format!("Get job: {}", message(error))));
        })?;
        let is_there = found.is_some_and(|found| found.metadata.uid == job.uid);
        learned.asked.insert(job.uid, is_there);
    }
    Ok(Then::Again)
}

async fn replace(
    parts: &Parts,
    cron_job: &CronJobView,
    jobs: Vec<ActiveJobView>,
    learned: &mut Learned,
) -> Result<Then, Error> {
    for job in jobs {
        delete_job(parts, cron_job, &job.name, &job.uid).await?;
        learned.replaced.insert(job.uid);
    }
    Ok(Then::Again)
}

/// Deletes exactly this Job, and its pods in the background. One that is gone needs nothing more.
async fn delete_job(parts: &Parts, cron_job: &CronJobView, name: &str, uid: &str) -> Result<(), Error> {
    let options = json!({ "propagationPolicy": "Background", "preconditions": { "uid": uid } });
    match delete(&parts.client, &job_path(cron_job, name), &options).await {
        Ok(_) => tell(parts, cron_job, &News::normal("SuccessfulDelete", format!("Deleted job {name}"))),
        Err(error) if is_not_found(&error) => {}
        Err(error) => {
            tell(parts, cron_job, &News::warning("FailedDelete", format!("Deleted job: {}", message(&error))));
            return Err(error);
        }
    }
    Ok(())
}

async fn create(
    parts: &Parts,
    cron_job: &CronJobView,
    slot: Timestamp,
    job: &Value,
    learned: &mut Learned,
) -> Result<Then, Error> {
    let path = JobView::RESOURCE.collection_path(&cron_job.metadata.namespace);
    let error = match post(&parts.client, &path, job).await {
        Ok(answer) => {
            tell(parts, cron_job, &News::normal("SuccessfulCreate", format!("Created job {}", answer.name)));
            let skew = parts.clock.now().duration_since(slot);
            parts.metrics.cron_job_started(skew.try_into().unwrap_or_default());
            parts.jobs.reached(answer.revision).await;
            return Ok(Then::Again);
        }
        Err(error) => error,
    };
    // Everything goes with the namespace.
    if is_namespace_terminating(&error) {
        return Ok(Then::AwaitEvents);
    }
    learned.refused = Some(slot);
    if is_already_exists(&error) {
        let name = job["metadata"]["name"].as_str().unwrap_or_default();
        let Some(taken) = read(parts, cron_job, name).await? else { return Err(error) };
        if taken.metadata.controller().is_some_and(|owner| owner.uid == cron_job.metadata.uid) {
            // Our own earlier create, whose answer was lost.
            parts.jobs.reached(taken.metadata.resource_version).await;
            return Ok(Then::Again);
        }
        let text = format!("Error creating job: {name} is there already and belongs to somebody else");
        tell(parts, cron_job, &News::warning("FailedCreate", text));
        return Ok(Then::Again);
    }
    tell(parts, cron_job, &News::warning("FailedCreate", format!("Error creating job: {}", message(&error))));
    Err(error)
}

async fn write_status(parts: &Parts, cron_job: &CronJobView, status: &CronJobStatusView) -> Result<Then, Error> {
    let meta = &cron_job.metadata;
    let path = format!("{}/status", CronJobView::RESOURCE.object_path(&meta.key()));
    let body = json!({
        // With the version, so that an account of an outdated status is refused instead of written over a newer one.
        "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
        "status": status_document(status, &meta.namespace),
    });
    let answer = patch(&parts.client, &path, PatchKind::Merge, &body).await?;
    if answer.revision == meta.resource_version {
        // Deciding again would come to the same write for ever.
        tracing::error!(cron_job = %meta.key(), "the server keeps another status than the one written");
        return Ok(Then::AwaitEvents);
    }
    parts.cron_jobs.reached(answer.revision).await;
    Ok(Then::Again)
}

/// The whole status as a merge patch: what is not there is removed.
fn status_document(status: &CronJobStatusView, namespace: &str) -> Value {
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
async fn read(parts: &Parts, cron_job: &CronJobView, name: &str) -> Result<Option<JobView>, Error> {
    match get(&parts.client, &job_path(cron_job, name)).await {
        Ok(bytes) => JobView::decode(&bytes).map(Some).map_err(Error::SerdeError),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn job_path(cron_job: &CronJobView, name: &str) -> String {
    JobView::RESOURCE.object_path(&ObjectKey::new(&cron_job.metadata.namespace, name))
}

/// Tells people what happened.
pub fn tell(parts: &Parts, cron_job: &CronJobView, news: &News) {
    parts.recorder.event(&ObjectRef::of(cron_job), news.kind, news.reason, "Reconcile", &news.message);
}
