//! The loop: changes become keys, keys are worked on one after the other.

use std::sync::Arc;

use api::views::{JobView, Meta, NamespaceView, ObjectKey, OwnerRef, PodGroupView, PodView, View, WorkloadView};
use futures::future::{join4, join5};
use runtime::{Capabilities, Change, Cursor, Pace, WorkQueue, Worked, was_set};

use super::Parts;
use super::carry_out::{Failure, Then, carry_out, is_gone, release, warn};
use super::claims::adopters;
use super::doubts::Doubts;
use super::group_condition::scheduler_conditions;
use super::metrics::Sync;
use super::next_step::{NextStep, next_step};
use super::observe::observe;
use super::owners::Owners;
use super::settings::Groups;
use super::shape::{is_held, is_managed_by_others, is_ready, restarts};

/// A Job that takes more steps than this in a row lets others go first.
const STEPS_MAX: usize = 32;

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A Job, there or gone. The uid tells it from another Job of the same name.
    Job { key: ObjectKey, uid: String },
    /// A pod that holds the tracking finalizer and has no controller: nobody will ever count it.
    Orphan(ObjectKey),
}

/// Runs the Job controller for ever.
pub async fn run(parts: Parts) {
    parts.jobs.synced().await;
    parts.pods.synced().await;
    parts.workloads.synced().await;
    parts.pod_groups.synced().await;
    parts.namespaces.synced().await;
    let mut capabilities = parts.capabilities.clone();
    capabilities.known().await;
    let queue = WorkQueue::counted(parts.config.retry, parts.metrics.queue("job"));
    let owners = Owners::default();
    let caches = join5(
        jobs(parts.jobs.subscribe(), &queue, &parts, &owners),
        pods(parts.pods.subscribe(), &queue, &parts),
        workloads(parts.workloads.subscribe(), &queue, &parts, &owners),
        pod_groups(&queue, &parts, &owners),
        work(&queue, &parts, &owners),
    );
    join4(caches, namespaces(&queue, &parts), server(capabilities, &queue, &parts), clock(&queue, &parts)).await;
}

/// On a clock that was set, deadlines and back-offs are nearer or further than they were.
async fn clock(queue: &WorkQueue<Key>, parts: &Parts) {
    loop {
        was_set(&*parts.clock).await;
        parts.jobs.all().iter().filter(|job| job.end().is_none()).for_each(|job| queue.add(key_of(&job.metadata)));
    }
}

/// A server that comes to have other kinds may have what a Job waits for.
async fn server(mut capabilities: Capabilities, queue: &WorkQueue<Key>, parts: &Parts) {
    loop {
        if !capabilities.serves(&WorkloadView::RESOURCE) || !capabilities.serves(&PodGroupView::RESOURCE) {
            tracing::warn!(
                "the API server does not serve Workload and PodGroup in scheduling.k8s.io/v1beta1: Jobs that ask for a \
                 group wait, others get plain pods"
            );
        }
        capabilities.changed().await;
        parts.jobs.all().iter().for_each(|job| queue.add(key_of(&job.metadata)));
    }
}

async fn work(queue: &WorkQueue<Key>, parts: &Parts, owners: &Owners) {
    let memory = &Memory { doubts: Doubts::default(), owners };
    let look = |key: Key| async move {
        // Jobs that wait for a worker need the server more than those who read Events do.
        parts.recorder.set_pace(if queue.is_empty() { Pace::Usual } else { Pace::Slow });
        let worked = match &key {
            Key::Job { key: job, uid } => {
                let mut sync = Sync::begin(parts.clock.now());
                let worked = reconcile(parts, queue, memory, &key, job, uid, &mut sync).await;
                parts.metrics.job.synced(&sync, parts.clock.now(), worked.is_ok());
                worked
            }
            Key::Orphan(pod) => release_orphan(parts, pod).await,
        };
        match worked {
            Ok(()) => Worked::Done,
            Err(failure) => {
                let cause = std::error::Error::source(&failure).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(?key, %failure, cause, "will be tried again");
                Worked::Failed
            }
        }
    };
    queue.work(parts.config.workers, look).await;
}

/// What is known beside the caches. All of it can be asked for again.
struct Memory<'a> {
    doubts: Doubts,
    owners: &'a Owners,
}

/// Observe, decide, do; again until there is nothing left to do.
async fn reconcile(
    parts: &Parts,
    queue: &WorkQueue<Key>,
    memory: &Memory<'_>,
    key: &Key,
    job: &ObjectKey,
    uid: &str,
    sync: &mut Sync,
) -> Result<(), Failure> {
    let Memory { doubts, owners } = memory;
    // Set once something could not be created, let go or asked for: pods that have ended are counted and let go all the same.
    let mut blocked: Option<Failure> = None;
    for _ in 0..STEPS_MAX {
        if let Some(held) = parts.jobs.get(job).filter(|held| held.metadata.uid == uid) {
            doubts.settle(parts, &held).await?;
            if blocked.is_none() {
                blocked = owners.settle(parts, &held).await.err();
            }
        }
        let Some(mut observed) = observe(parts, owners, job, uid) else {
            doubts.forget(uid);
            return release_leftovers(parts, job, uid).await;
        };
        observed.blocked = blocked.is_some();
        let step = next_step(&observed, &parts.gates, &parts.config).map_err(|error| {
            warn(parts, &observed.job, "FailedWorkloadCompilation", "Compile", &error.to_string());
            Failure::Compile(error)
        })?;
        sync.takes(&observed.job, &step);
        if let NextStep::Rest(recheck) = step {
            recheck.into_iter().for_each(|delay| queue.add_after(key.clone(), delay));
            return blocked.map_or(Ok(()), Failure::unless_final);
        }
        let done = carry_out(parts, &observed, step).await;
        if matches!(&done, Ok(Then::Ask)) || done.as_ref().is_err_and(Failure::leaves_doubt) {
            doubts.raise(uid);
            parts.metrics.job.stale();
        }
        match done {
            Ok(Then::Again | Then::Ask) => {}
            Ok(Then::AwaitEvents) => return blocked.map_or(Ok(()), Failure::unless_final),
            Err(failure) if blocked.is_none() && failure.leaves_work() => blocked = Some(failure),
            Err(failure) => return Err(failure),
        }
    }
    queue.add(key.clone());
    Ok(())
}

/// The pods of a Job that is gone are let go, or they could never be deleted.
async fn release_leftovers(parts: &Parts, job: &ObjectKey, uid: &str) -> Result<(), Failure> {
    let pods = parts.pods.by_index(&PodView::BY_CONTROLLER, uid);
    let held: Vec<_> = pods.into_iter().filter(|pod| is_held(pod)).collect();
    if held.is_empty() || !is_gone(parts, job, uid).await? {
        return Ok(());
    }
    for batch in held.chunks(parts.config.max_pods_per_sync) {
        release(parts, batch).await?;
    }
    Ok(())
}

/// A pod that nobody controls is nobody's to count, unless a Job is about to adopt it.
async fn release_orphan(parts: &Parts, pod: &ObjectKey) -> Result<(), Failure> {
    let Some(pod) = parts.pods.get(pod) else { return Ok(()) };
    let is_orphan = is_held(&pod) && pod.metadata.controller().is_none();
    let is_adopted = || !pod.metadata.is_deleting() && !adopters(&pod, &parts.jobs).is_empty();
    if is_orphan && !is_adopted() {
        super::carry_out::release_orphan(parts, pod).await?;
    }
    Ok(())
}

/// A new spec is acted on at once; a new status is mostly our own and can wait for what comes with it.
async fn jobs(mut cursor: Cursor<JobView>, queue: &WorkQueue<Key>, parts: &Parts, owners: &Owners) {
    loop {
        let change = cursor.next().await;
        let job = change.latest();
        let controller = |job: &Arc<JobView>| job.metadata.controller().cloned();
        if let Some(old) = &change.old
            && controller(old) != change.new.as_ref().and_then(controller)
        {
            owners.forget(&parts.jobs, old);
        }
        if change.old.is_none() && is_managed_by_others(job) {
            parts.metrics.job.managed_by_others(job.spec.managed_by.as_deref().unwrap_or_default());
        }
        let key = key_of(&job.metadata);
        let only_status = matches!((&change.old, &change.new), (Some(old), Some(new))
            if old.metadata.generation == new.metadata.generation
                && old.metadata.is_deleting() == new.metadata.is_deleting());
        if only_status { queue.add_after(key, parts.config.sync_batch) } else { queue.add(key) }
    }
}

async fn pods(mut cursor: Cursor<PodView>, queue: &WorkQueue<Key>, parts: &Parts) {
    loop {
        let change = cursor.next().await;
        parts.metrics.job.pod_changed(&change);
        if !matters(&change) {
            continue;
        }
        let wake = |job: Key| queue.add_after(job, parts.config.sync_batch);
        for pod in change.old.iter().chain(&change.new) {
            let owner = pod.metadata.controller().filter(|owner| is_job(owner));
            owner.into_iter().for_each(|owner| wake(key_of_owner(&pod.metadata.namespace, owner)));
        }
        let Some(pod) = change.new.filter(|pod| pod.metadata.controller().is_none()) else { continue };
        adopters(&pod, &parts.jobs).iter().for_each(|job| wake(key_of(&job.metadata)));
        if is_held(&pod) {
            queue.add(Key::Orphan(pod.metadata.key()));
        }
    }
}

/// Whether anything changed that a Job counts; most changes of a pod (bound, an address, a condition) are not.
fn matters(change: &Change<PodView>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let counted = |pod: &PodView| {
        let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
        (pod.status.phase, is_ready(pod), pod.metadata.is_deleting(), is_held(pod), restarts(statuses))
    };
    let (before, after) = (&old.metadata, &new.metadata);
    let changed_hands = before.owner_references != after.owner_references || before.labels != after.labels;
    changed_hands || counted(old) != counted(new)
}

async fn workloads(mut cursor: Cursor<WorkloadView>, queue: &WorkQueue<Key>, parts: &Parts, owners: &Owners) {
    loop {
        let change = cursor.next().await;
        wake_jobs_of(change.latest(), queue, parts, owners);
    }
}

/// What a namespace says about groups can matter to each of its Jobs that has none yet.
async fn namespaces(queue: &WorkQueue<Key>, parts: &Parts) {
    let mut cursor = parts.namespaces.subscribe();
    let said = |namespace: &Option<Arc<NamespaceView>>| namespace.as_ref().and_then(|it| Groups::of(&it.metadata));
    loop {
        let change = cursor.next().await;
        if said(&change.old) != said(&change.new) {
            let name = &change.latest().metadata.name;
            let jobs = parts.jobs.all();
            jobs.iter().filter(|job| job.metadata.namespace == *name).for_each(|job| queue.add(key_of(&job.metadata)));
        }
    }
}

/// A PodGroup wakes the Job that controls it, the Jobs that name it and the Jobs of its Workload: when it comes, goes or has another size, and
/// when the scheduler says something else about it.
async fn pod_groups(queue: &WorkQueue<Key>, parts: &Parts, owners: &Owners) {
    let mut cursor = parts.pod_groups.subscribe();
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
        let named = parts.jobs.by_index(&JobView::BY_TEMPLATE_GROUP, &group.metadata.key().to_string());
        named.iter().for_each(|job| queue.add(key_of(&job.metadata)));
        let origin = group.spec.workload_ref.as_ref();
        let workload = origin.and_then(|origin| parts.workloads.get(&ObjectKey::new(namespace, &origin.workload_name)));
        workload.into_iter().for_each(|workload| wake_jobs_of(&workload, queue, parts, owners));
    }
}

/// Wakes the Jobs that name a Workload, the Job it stands for, and those that are below what it stands for.
fn wake_jobs_of(workload: &WorkloadView, queue: &WorkQueue<Key>, parts: &Parts, owners: &Owners) {
    let namespace = &workload.metadata.namespace;
    let wake = |jobs: &[Arc<JobView>]| jobs.iter().for_each(|job| queue.add(key_of(&job.metadata)));
    wake(&parts.jobs.by_index(&JobView::BY_WORKLOAD_REF, &workload.metadata.key().to_string()));
    let Some(reference) = &workload.spec.controller_ref else { return };
    let controlled_by = |uid: &String| parts.jobs.by_index(&JobView::BY_CONTROLLER, uid);
    if reference.kind == "Job" && reference.api_group.as_deref() == Some("batch") {
        let job = parts.jobs.get(&ObjectKey::new(namespace, &reference.name));
        wake(job.as_slice());
        job.iter().for_each(|job| wake(&controlled_by(&job.metadata.uid)));
    } else {
        let is_child = |job: &Arc<JobView>| {
            let parent = job.metadata.controller();
            job.metadata.namespace == *namespace
                && parent.is_some_and(|parent| parent.kind == reference.kind && parent.name == reference.name)
        };
        wake(&parts.jobs.all().into_iter().filter(is_child).collect::<Vec<_>>());
    }
    let named = (WorkloadView::BY_CONTROLLER_REF.values)(workload);
    named.iter().flat_map(|owner| owners.below(owner)).for_each(|parent| wake(&controlled_by(&parent)));
}

fn key_of(job: &Meta) -> Key {
    Key::Job { key: job.key(), uid: job.uid.clone() }
}

fn key_of_owner(namespace: &str, owner: &OwnerRef) -> Key {
    Key::Job { key: ObjectKey::new(namespace, &owner.name), uid: owner.uid.clone() }
}

fn is_job(owner: &OwnerRef) -> bool {
    owner.kind == "Job" && owner.api_version.starts_with("batch/")
}
