//! The metrics of the Job controller. Names and labels are upstream's where upstream has the metric.

use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, JobStatusView, JobView, PodPhase, PodView};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use runtime::CacheChange;

use super::job_params::{has_tracking_finalizer, is_terminating};
use super::next_step::NextStep;
use super::status::indexes::Indexes;

/// The metrics of the Job controller. Clones share the same metrics.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<MetricFamilies>);

#[derive(Debug)]
struct MetricFamilies {
    syncs: Family<SyncLabels, Counter>,
    sync_durations: Family<SyncLabels, Histogram>,
    jobs_finished: Family<FinishedLabels, Counter>,
    pods_finished: Family<PodsFinishedLabels, Counter>,
    pods_created: Family<CreationLabels, Counter>,
    indexes_finished: Family<IndexLabels, Counter>,
    failures_by_policy: Family<ActionLabels, Counter>,
    pods_tracked: Family<EventLabels, Counter>,
    externally_managed_jobs: Family<ControllerLabels, Counter>,
    stale_syncs: Family<KindLabels, Counter>,
    workload_creations: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SyncLabels {
    completion_mode: &'static str,
    result: &'static str,
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FinishedLabels {
    completion_mode: &'static str,
    result: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PodsFinishedLabels {
    completion_mode: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CreationLabels {
    reason: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(non_snake_case)] // The label is spelled so on the wire.
struct IndexLabels {
    status: &'static str,
    backoffLimit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    action: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    group: &'static str,
    resource: &'static str,
}

impl Default for MetricFamilies {
    fn default() -> MetricFamilies {
        MetricFamilies {
            syncs: Family::default(),
            sync_durations: Family::new_with_constructor(sync_histogram as fn() -> Histogram),
            jobs_finished: Family::default(),
            pods_finished: Family::default(),
            pods_created: Family::default(),
            indexes_finished: Family::default(),
            failures_by_policy: Family::default(),
            pods_tracked: Family::default(),
            externally_managed_jobs: Family::default(),
            stale_syncs: Family::default(),
            workload_creations: Histogram::new(exponential_buckets(0.125, 2.0, 12)),
        }
    }
}

fn sync_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.004, 2.0, 15))
}

impl Metrics {
    /// Registers the metrics in `registry`.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        let families = &*metrics.0;
        let job = registry.sub_registry_with_prefix("job_controller");
        // The library appends `_total` to counters and the unit to names.
        job.register("job_syncs", "Reconciles of Jobs, each until nothing is left to do", families.syncs.clone());
        let duration = "Duration of reconciles of Jobs";
        job.register_with_unit("job_sync_duration", duration, Unit::Seconds, families.sync_durations.clone());
        job.register("jobs_finished", "Jobs that are complete or failed", families.jobs_finished.clone());
        job.register("job_pods_finished", "Pods whose end is in a Job's counts", families.pods_finished.clone());
        job.register(
            "job_pods_creation",
            "Pods created and pods refused by the server, by reason",
            families.pods_created.clone(),
        );
        job.register("job_finished_indexes", "Indexes that succeeded or failed", families.indexes_finished.clone());
        let by_policy = "Failed pods for which podFailurePolicy had a rule";
        job.register("pod_failures_handled_by_failure_policy", by_policy, families.failures_by_policy.clone());
        let tracked = "Ended pods with the tracking finalizer (add), and those whose finalizer was removed (delete)";
        job.register("terminated_pods_tracking_finalizer", tracked, families.pods_tracked.clone());
        job.register(
            "jobs_by_external_controller",
            "Jobs with spec.managedBy of another controller",
            families.externally_managed_jobs.clone(),
        );
        let stale = "Reconciles without a decision, because the cache may lack writes of the controller";
        job.register("stale_sync_skips", stale, families.stale_syncs.clone());
        registry.register_with_unit(
            "workload_creation_duration",
            "Time from the creation of a Job (in whole seconds) to the creation of its Workload",
            Unit::Seconds,
            families.workload_creations.clone(),
        );
        metrics
    }

    /// A Job was reconciled, with this result.
    pub fn synced(&self, sync: &SyncAttempt, now: Timestamp, is_success: bool) {
        let Some(completion_mode) = sync.completion_mode else { return };
        let result = if is_success { "success" } else { "error" };
        let labels = SyncLabels { completion_mode, result, action: sync.action.label() };
        self.0.sync_durations.get_or_create(&labels).observe(since(sync.began, now).as_secs_f64());
        self.0.syncs.get_or_create(&labels).inc();
    }

    /// The status of `job` was replaced: counts the difference.
    pub fn status_written(&self, job: &JobView, status: &JobStatusView) {
        let completion_mode = completion_mode(job);
        let (old, completions) = (&job.status, job.spec.completions.unwrap_or(i32::MAX));
        for (result, before, after) in
            [("succeeded", old.succeeded, status.succeeded), ("failed", old.failed, status.failed)]
        {
            let labels = PodsFinishedLabels { completion_mode, result };
            add(&self.0.pods_finished, &labels, before, after);
        }
        let backoff_limit = if job.spec.backoff_limit_per_index.is_some() { "perIndex" } else { "global" };
        let count = |text: &str| Indexes::parse(text, completions).len();
        if completion_mode == INDEXED {
            let failed_indexes = |status: &JobStatusView| status.failed_indexes.as_deref().map_or(0, count);
            for (result, before, after) in [
                ("succeeded", count(&old.completed_indexes), count(&status.completed_indexes)),
                ("failed", failed_indexes(old), failed_indexes(status)),
            ] {
                let labels = IndexLabels { status: result, backoffLimit: backoff_limit };
                add(&self.0.indexes_finished, &labels, before, after);
            }
        }
        for (kind, result) in [("Complete", "succeeded"), ("Failed", "failed")] {
            let end = status.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True");
            if let Some(end) = end.filter(|_| !Condition::is_true(&old.conditions, kind)) {
                let labels = FinishedLabels { completion_mode, result, reason: end.reason.clone() };
                self.0.jobs_finished.get_or_create(&labels).inc();
            }
        }
    }

    /// Pods were created for `job` or refused, while these were its pods.
    pub fn pods_created(&self, job: &JobView, pods: &[Arc<PodView>], created: usize, refused: usize) {
        let reason = creation_reason(job, pods);
        for (status, count) in [("succeeded", created), ("failed", refused)] {
            if count > 0 {
                self.0.pods_created.get_or_create(&CreationLabels { reason, status }).inc_by(count as u64);
            }
        }
    }

    /// A rule of `podFailurePolicy` matched a failed pod. Actions are `Count`, `FailIndex`, `FailJob` and `Ignore`.
    pub fn failure_handled(&self, action: &str) {
        self.0.failures_by_policy.get_or_create(&ActionLabels { action: action.to_owned() }).inc();
    }

    /// A pod changed: counts ended pods with the tracking finalizer, and those whose finalizer was removed.
    pub fn pod_changed(&self, change: &CacheChange<PodView>) {
        let is_tracked = |pod: &Option<Arc<PodView>>| {
            pod.as_ref().is_some_and(|pod| pod.is_finished() && has_tracking_finalizer(pod))
        };
        let event = match (is_tracked(&change.old), is_tracked(&change.new)) {
            (false, true) => "add",
            (true, false) => "delete",
            _ => return,
        };
        self.0.pods_tracked.get_or_create(&EventLabels { event }).inc();
    }

    /// A Job was created that another controller manages.
    pub fn job_externally_managed(&self, controller_name: &str) {
        let labels = ControllerLabels { controller_name: controller_name.to_owned() };
        self.0.externally_managed_jobs.get_or_create(&labels).inc();
    }

    /// The cache of pods lacks some, or may: pods are listed on the server before the next decision.
    // Upstream: also where the cache is only late. Here the same reconcile waits for it.
    pub fn stale_sync(&self) {
        self.0.stale_syncs.get_or_create(&KindLabels { group: "", resource: "pods" }).inc();
    }

    /// The Workload of `job` was created.
    pub fn workload_created(&self, job: &JobView, now: Timestamp) {
        if let Some(created) = job.metadata.creation_timestamp {
            self.0.workload_creations.observe(since(created, now).as_secs_f64());
        }
    }
}

/// One reconcile of a Job, until nothing is left to do.
#[derive(Debug)]
pub struct SyncAttempt {
    began: Timestamp,
    /// `None` while no Job was found.
    completion_mode: Option<&'static str>,
    action: SyncAction,
}

/// What a reconcile did; the later ones have precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SyncAction {
    Reconciling,
    Tracking,
    PodsDeleted,
    PodsCreated,
}

impl SyncAttempt {
    /// A reconcile that begins now.
    pub fn begin(now: Timestamp) -> SyncAttempt {
        SyncAttempt { began: now, completion_mode: None, action: SyncAction::Reconciling }
    }

    /// Records a step for `job`.
    pub fn record_step(&mut self, job: &JobView, step: &NextStep) {
        self.completion_mode = Some(completion_mode(job));
        let action = match step {
            NextStep::CreatePods(..) => SyncAction::PodsCreated,
            NextStep::DeleteWithoutCounting(_) | NextStep::DeleteAndCount(_) => SyncAction::PodsDeleted,
            NextStep::RemoveFinalizers(_) => SyncAction::Tracking,
            _ => SyncAction::Reconciling,
        };
        self.action = self.action.max(action);
    }
}

impl SyncAction {
    fn label(self) -> &'static str {
        match self {
            SyncAction::Reconciling => "reconciling",
            SyncAction::Tracking => "tracking",
            SyncAction::PodsDeleted => "pods_deleted",
            SyncAction::PodsCreated => "pods_created",
        }
    }
}

const INDEXED: &str = "Indexed";

fn completion_mode(job: &JobView) -> &'static str {
    if job.spec.completion_mode.as_deref() == Some(INDEXED) { INDEXED } else { "NonIndexed" }
}

/// Whether a pod replaces one that failed or is being deleted; the Job's `podReplacementPolicy` decides which.
fn creation_reason(job: &JobView, pods: &[Arc<PodView>]) -> &'static str {
    let is_lost = |pod: &Arc<PodView>| pod.status.phase == PodPhase::Failed || is_terminating(pod);
    if job.status.failed == 0 && !pods.iter().any(is_lost) {
        "new"
    } else if job.spec.pod_replacement_policy.as_deref() == Some("Failed") {
        "recreate_failed"
    } else {
        "recreate_terminating_or_failed"
    }
}

/// From `then` to `now`; zero if the clock was set back.
fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

fn add<L: Clone + std::hash::Hash + Eq>(family: &Family<L, Counter>, labels: &L, before: i32, after: i32) {
    if let Ok(more @ 1..) = u64::try_from(after.saturating_sub(before)) {
        family.get_or_create(labels).inc_by(more);
    }
}
