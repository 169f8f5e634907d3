//! The loop: changes become keys in the work queue, and each key is reconciled.

use std::sync::Arc;

use api::views::{JobView, MetaView, NamespaceView, ObjectKey, OwnerRef, PodGroupView, PodView, View, WorkloadView};
use futures::FutureExt;
use futures::future::{BoxFuture, join4, join5};
use runtime::{
    CacheChange, Capabilities, Cursor, Pace, WorkQueue, WorkResult, reconcile_span, record_observed, record_revision,
    wait_for_clock_step,
};
use tracing::{Instrument, Span};

use super::JobContext;
use super::execute::{AfterStep, StepError, execute, is_job_gone, record_warning, remove_tracking_finalizers};
use super::job_params::{has_tracking_finalizer, is_managed_by_others, is_ready, restarts};
use super::metrics::SyncAttempt;
use super::next_step::{NextStep, next_step};
use super::observe::observe;
use super::pods::claims::adopters;
use super::pods::expectations::Expectations;
use super::scheduling::owner_cache::OwnerCache;
use super::settings::GroupsLabel;
use super::status::group_condition::scheduler_conditions;

/// After this many steps in a row a Job goes to the end of the queue.
const MAX_STEPS: usize = 32;

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WorkKey {
    /// A Job, also one that is gone. The uid distinguishes it from another Job of the same name.
    Job { key: ObjectKey, uid: String },
    /// A pod that has the tracking finalizer and no controller, so that no Job will count it.
    Orphan(ObjectKey),
}

impl WorkKey {
    /// The span of its reconcile.
    fn span(&self) -> Span {
        match self {
            WorkKey::Job { key, uid } => reconcile_span("job", JobView::RESOURCE.kind, key, Some(uid)),
            WorkKey::Orphan(pod) => reconcile_span("job", PodView::RESOURCE.kind, pod, None),
        }
    }

    /// The Job or pod.
    fn object(&self) -> &ObjectKey {
        match self {
            WorkKey::Job { key, .. } | WorkKey::Orphan(key) => key,
        }
    }
}

/// Runs the Job controller forever.
pub fn run(ctx: JobContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: JobContext) {
    ctx.jobs.wait_for_sync().await;
    ctx.pods.wait_for_sync().await;
    ctx.workloads.wait_for_sync().await;
    ctx.pod_groups.wait_for_sync().await;
    ctx.namespaces.wait_for_sync().await;
    let mut capabilities = ctx.capabilities.clone();
    capabilities.wait_until_known().await;
    let queue = WorkQueue::with_metrics(ctx.config.retry, ctx.metrics.queue("job"));
    let owners = OwnerCache::default();
    let caches = join5(
        watch_jobs(ctx.jobs.subscribe(), &queue, &ctx, &owners),
        watch_pods(ctx.pods.subscribe(), &queue, &ctx),
        watch_workloads(ctx.workloads.subscribe(), &queue, &ctx, &owners),
        watch_pod_groups(&queue, &ctx, &owners),
        work(&queue, &ctx, &owners),
    );
    join4(
        caches,
        watch_namespaces(&queue, &ctx),
        requeue_on_new_kinds(capabilities, &queue, &ctx),
        requeue_on_clock_change(&queue, &ctx),
    )
    .await;
}

/// After a step of the wall clock, deadlines and back-offs end earlier or later.
async fn requeue_on_clock_change(queue: &WorkQueue<WorkKey>, ctx: &JobContext) {
    loop {
        wait_for_clock_step(&*ctx.clock).await;
        ctx.jobs
            .all()
            .iter()
            .filter(|job| job.finished_condition().is_none())
            .for_each(|job| queue.add(key_of(&job.metadata)));
    }
}

/// A server that starts to serve other kinds may serve those that a Job waits for.
async fn requeue_on_new_kinds(mut capabilities: Capabilities, queue: &WorkQueue<WorkKey>, ctx: &JobContext) {
    loop {
        if !capabilities.serves(WorkloadView::RESOURCE) || !capabilities.serves(PodGroupView::RESOURCE) {
            tracing::warn!(
                "the API server does not serve Workload and PodGroup in scheduling.k8s.io/v1beta1: Jobs that need a \
                 group wait, others get plain pods"
            );
        }
        capabilities.wait_for_change().await;
        ctx.jobs.all().iter().for_each(|job| queue.add(key_of(&job.metadata)));
    }
}

async fn work(queue: &WorkQueue<WorkKey>, ctx: &JobContext, owners: &OwnerCache) {
    let state = &ReconcileState { expectations: Expectations::default(), owners };
    let reconcile_key = |key: WorkKey| {
        let span = key.span();
        async move {
            // Jobs that wait for a worker come before Events.
            ctx.recorder.set_pace(if queue.is_empty() { Pace::Usual } else { Pace::Slow });
            let result = match &key {
                WorkKey::Job { key: job, uid } => {
                    let mut sync = SyncAttempt::begin(ctx.clock.now());
                    let result = reconcile(ctx, queue, state, &key, job, uid, &mut sync).await;
                    ctx.metrics.job.synced(&sync, ctx.clock.now(), result.is_ok());
                    result
                }
                WorkKey::Orphan(pod) => reconcile_orphan(ctx, pod).await,
            };
            match result {
                Ok(()) => WorkResult::Done,
                Err(error) => {
                    log_retry(&key, &error);
                    WorkResult::Failed
                }
            }
        }
        .instrument(span)
    };
    queue.work(ctx.config.concurrent_syncs, reconcile_key).await;
}

/// Logs a failed step that is retried. A lost race is expected and logged at debug level.
fn log_retry(key: &WorkKey, error: &StepError) {
    let (object, cause) = (key.object(), error.cause());
    if error.is_lost_race() {
        tracing::debug!(controller = "job", %object, cause, "{error}: lost a race; retrying");
    } else {
        tracing::warn!(controller = "job", %object, cause, "{error}; retrying");
    }
}

/// State outside the caches. All of it can be read from the server again.
struct ReconcileState<'a> {
    expectations: Expectations,
    owners: &'a OwnerCache,
}

/// Observes, decides and executes until nothing is left to do.
async fn reconcile(
    ctx: &JobContext,
    queue: &WorkQueue<WorkKey>,
    state: &ReconcileState<'_>,
    key: &WorkKey,
    job: &ObjectKey,
    uid: &str,
    sync: &mut SyncAttempt,
) -> Result<(), StepError> {
    let ReconcileState { expectations, owners } = state;
    // Set when a create, a finalizer removal or a read of an owner failed. Ended pods are counted all the same.
    let mut blocked: Option<StepError> = None;
    for step_number in 0..MAX_STEPS {
        if let Some(cached) = ctx.jobs.get(job).filter(|cached| cached.metadata.uid == uid) {
            expectations.verify(ctx, &cached).await?;
            if blocked.is_none() {
                blocked = owners.refresh(ctx, &cached).await.err();
            }
        }
        let Some(mut observed) = observe(ctx, owners, job, uid) else {
            expectations.forget(uid);
            return remove_leftover_finalizers(ctx, job, uid).await;
        };
        if step_number == 0 {
            record_revision(&observed.job.metadata);
        }
        observed.blocked = blocked.is_some();
        let step = next_step(&observed, &ctx.gates, &ctx.config).map_err(|error| {
            record_warning(ctx, &observed.job, "FailedWorkloadCompilation", "Compile", &error.to_string());
            StepError::Compile(error)
        })?;
        sync.record_step(&observed.job, &step);
        let revision = observed.job.metadata.resource_version;
        tracing::debug!(step = step.name(), %revision, pods = observed.pods.len(), "decided");
        if let NextStep::Wait(recheck) = step {
            recheck.into_iter().for_each(|delay| queue.add_after(key.clone(), delay));
            return blocked.map_or(Ok(()), StepError::unless_namespace_terminating);
        }
        let done = execute(ctx, &observed, step).await;
        if matches!(&done, Ok(AfterStep::VerifyPods)) || done.as_ref().is_err_and(StepError::needs_pod_verification) {
            expectations.mark_uncertain(uid);
            ctx.metrics.job.stale_sync();
        }
        match done {
            Ok(AfterStep::DecideAgain | AfterStep::VerifyPods) => {}
            Ok(AfterStep::AwaitEvents) => return blocked.map_or(Ok(()), StepError::unless_namespace_terminating),
            Err(failure) if blocked.is_none() && failure.allows_counting() => blocked = Some(failure),
            Err(failure) => return Err(failure),
        }
    }
    queue.add(key.clone());
    Ok(())
}

/// Removes the tracking finalizer from the pods of a Job that is gone. Otherwise they could never be deleted.
async fn remove_leftover_finalizers(ctx: &JobContext, job: &ObjectKey, uid: &str) -> Result<(), StepError> {
    let pods = ctx.pods.by_index(&PodView::BY_CONTROLLER, uid);
    let tracked: Vec<_> = pods.into_iter().filter(|pod| has_tracking_finalizer(pod)).collect();
    if tracked.is_empty() || !is_job_gone(ctx, job, uid).await? {
        return Ok(());
    }
    for batch in tracked.chunks(ctx.config.max_pods_per_sync) {
        remove_tracking_finalizers(ctx, batch).await?;
    }
    Ok(())
}

/// Removes the tracking finalizer from a pod without a controller, unless a Job is about to adopt it.
async fn reconcile_orphan(ctx: &JobContext, pod: &ObjectKey) -> Result<(), StepError> {
    let Some(pod) = ctx.pods.get(pod) else { return Ok(()) };
    record_observed(&pod.metadata);
    let is_orphan = has_tracking_finalizer(&pod) && pod.metadata.controller().is_none();
    let is_adopted = || !pod.metadata.is_deleting() && !adopters(&pod, &ctx.jobs).is_empty();
    if is_orphan && !is_adopted() {
        super::execute::remove_orphan_finalizer(ctx, pod).await?;
    }
    Ok(())
}

/// A new spec is reconciled at once. A new status is mostly our own write, so it is batched.
async fn watch_jobs(mut cursor: Cursor<JobView>, queue: &WorkQueue<WorkKey>, ctx: &JobContext, owners: &OwnerCache) {
    loop {
        let change = cursor.next().await;
        let job = change.latest();
        let controller = |job: &Arc<JobView>| job.metadata.controller().cloned();
        if let Some(old) = &change.old
            && controller(old) != change.new.as_ref().and_then(controller)
        {
            owners.forget(&ctx.jobs, old);
        }
        if change.old.is_none() && is_managed_by_others(job) {
            ctx.metrics.job.job_externally_managed(job.spec.managed_by.as_deref().unwrap_or_default());
        }
        let key = key_of(&job.metadata);
        let only_status = matches!((&change.old, &change.new), (Some(old), Some(new))
            if old.metadata.generation == new.metadata.generation
                && old.metadata.is_deleting() == new.metadata.is_deleting());
        if only_status { queue.add_after(key, ctx.config.sync_batch_period) } else { queue.add(key) }
    }
}

async fn watch_pods(mut cursor: Cursor<PodView>, queue: &WorkQueue<WorkKey>, ctx: &JobContext) {
    loop {
        let change = cursor.next().await;
        ctx.metrics.job.pod_changed(&change);
        if !is_relevant(&change) {
            continue;
        }
        let enqueue = |job: WorkKey| queue.add_after(job, ctx.config.sync_batch_period);
        for pod in change.old.iter().chain(&change.new) {
            let owner = pod.metadata.controller().filter(|owner| is_job(owner));
            owner.into_iter().for_each(|owner| enqueue(key_of_owner(&pod.metadata.namespace, owner)));
        }
        let Some(pod) = change.new.filter(|pod| pod.metadata.controller().is_none()) else { continue };
        adopters(&pod, &ctx.jobs).iter().for_each(|job| enqueue(key_of(&job.metadata)));
        if has_tracking_finalizer(&pod) {
            queue.add(WorkKey::Orphan(pod.metadata.key()));
        }
    }
}

/// Whether the change matters to a Job. Most changes of a pod (bound, an address, a condition) do not.
fn is_relevant(change: &CacheChange<PodView>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let counted = |pod: &PodView| {
        let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
        (pod.status.phase, is_ready(pod), pod.metadata.is_deleting(), has_tracking_finalizer(pod), restarts(statuses))
    };
    let (before, after) = (&old.metadata, &new.metadata);
    let owner_or_labels_changed = before.owner_references != after.owner_references || before.labels != after.labels;
    owner_or_labels_changed || counted(old) != counted(new)
}

async fn watch_workloads(
    mut cursor: Cursor<WorkloadView>,
    queue: &WorkQueue<WorkKey>,
    ctx: &JobContext,
    owners: &OwnerCache,
) {
    loop {
        let change = cursor.next().await;
        enqueue_jobs_of(change.latest(), queue, ctx, owners);
    }
}

/// The label of a namespace about groups can matter to each of its Jobs without a group.
async fn watch_namespaces(queue: &WorkQueue<WorkKey>, ctx: &JobContext) {
    let mut cursor = ctx.namespaces.subscribe();
    let label = |namespace: &Option<Arc<NamespaceView>>| {
        namespace.as_ref().and_then(|namespace| GroupsLabel::of(&namespace.metadata))
    };
    loop {
        let change = cursor.next().await;
        if label(&change.old) != label(&change.new) {
            let name = &change.latest().metadata.name;
            let jobs = ctx.jobs.all();
            jobs.iter().filter(|job| job.metadata.namespace == *name).for_each(|job| queue.add(key_of(&job.metadata)));
        }
    }
}

/// A PodGroup enqueues the Job that controls it, the Jobs that name it and the Jobs of its Workload: when it is created or
/// deleted, and when its size or the scheduler's conditions change.
async fn watch_pod_groups(queue: &WorkQueue<WorkKey>, ctx: &JobContext, owners: &OwnerCache) {
    let mut cursor = ctx.pod_groups.subscribe();
    loop {
        let change = cursor.next().await;
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && old.min_count() == new.min_count()
            && old.metadata.is_deleting() == new.metadata.is_deleting()
            && old.expected_count() == new.expected_count()
            && scheduler_conditions(old).eq(scheduler_conditions(new))
        {
            continue;
        }
        let group = change.latest();
        let namespace = &group.metadata.namespace;
        if let Some(owner) = group.metadata.controller().filter(|owner| is_job(owner)) {
            queue.add(key_of_owner(namespace, owner));
        }
        let named = ctx.jobs.by_index(&JobView::BY_TEMPLATE_GROUP, &group.metadata.key().to_string());
        named.iter().for_each(|job| queue.add(key_of(&job.metadata)));
        let reference = group.spec.workload_ref.as_ref();
        let workload =
            reference.and_then(|reference| ctx.workloads.get(&ObjectKey::new(namespace, &reference.workload_name)));
        workload.into_iter().for_each(|workload| enqueue_jobs_of(&workload, queue, ctx, owners));
    }
}

/// Enqueues the Jobs that name a Workload, the Job in its `controllerRef`, and the descendants of that owner.
fn enqueue_jobs_of(workload: &WorkloadView, queue: &WorkQueue<WorkKey>, ctx: &JobContext, owners: &OwnerCache) {
    let namespace = &workload.metadata.namespace;
    let enqueue = |jobs: &[Arc<JobView>]| jobs.iter().for_each(|job| queue.add(key_of(&job.metadata)));
    enqueue(&ctx.jobs.by_index(&JobView::BY_WORKLOAD_REF, &workload.metadata.key().to_string()));
    let Some(reference) = &workload.spec.controller_ref else { return };
    let controlled_by = |uid: &String| ctx.jobs.by_index(&JobView::BY_CONTROLLER, uid);
    if reference.kind == "Job" && reference.api_group.as_deref() == Some("batch") {
        let job = ctx.jobs.get(&ObjectKey::new(namespace, &reference.name));
        enqueue(job.as_slice());
        job.iter().for_each(|job| enqueue(&controlled_by(&job.metadata.uid)));
    } else {
        let is_child = |job: &Arc<JobView>| {
            let parent = job.metadata.controller();
            job.metadata.namespace == *namespace
                && parent.is_some_and(|parent| parent.kind == reference.kind && parent.name == reference.name)
        };
        enqueue(&ctx.jobs.all().into_iter().filter(is_child).collect::<Vec<_>>());
    }
    let named = (WorkloadView::BY_CONTROLLER_REF.values)(workload);
    named.iter().flat_map(|owner| owners.parents_below(owner)).for_each(|parent| enqueue(&controlled_by(&parent)));
}

fn key_of(job: &MetaView) -> WorkKey {
    WorkKey::Job { key: job.key(), uid: job.uid.clone() }
}

fn key_of_owner(namespace: &str, owner: &OwnerRef) -> WorkKey {
    WorkKey::Job { key: ObjectKey::new(namespace, &owner.name), uid: owner.uid.clone() }
}

fn is_job(owner: &OwnerRef) -> bool {
    owner.kind == "Job" && owner.api_version.starts_with("batch/")
}
