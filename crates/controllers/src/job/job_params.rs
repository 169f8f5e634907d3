//! The Job's spec with the API's defaults, and the wire names of the Job controller.

use api::views::{Condition, ContainerStatusView, JobView, PodGroupView, PodPhase, PodView};
use k8s_openapi::api::batch::v1::{PodFailurePolicy, SuccessPolicy};

use super::Config;

/// The controller's name: in `spec.managedBy`, in Events, and in the annotation on the objects it creates.
pub const CONTROLLER_NAME: &str = PodGroupView::JOB_CONTROLLER;
/// `spec.managedBy` of a Job that is ours, if it is set at all.
pub const MANAGED_BY: &str = "kubernetes.io/job-controller";
/// Annotation on Workloads and PodGroups: which of our controllers created it.
pub const MANAGED_BY_ANNOTATION: &str = PodGroupView::MANAGED_BY_ANNOTATION;
/// Finalizer that keeps a pod until its end is in the Job's counts.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label with a pod's completion index.
pub const INDEX_KEY: &str = "batch.kubernetes.io/job-completion-index";

/// Annotation with the number of earlier failures of the pod's index. Only Jobs with limits per index set it.
pub const FAILURES_KEY: &str = "batch.kubernetes.io/job-index-failure-count";
/// The same for failures that a rule ignores. Absent if there were none.
pub const IGNORED_FAILURES_KEY: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// NonIndexed or Indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionMode {
    /// Pods have no index.
    NonIndexed,
    /// Each index from 0 to `completions - 1` must succeed once.
    Indexed {
        /// How many indexes there are.
        completions: i32,
    },
}

/// How often each index may fail (KEP-3850).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerIndexLimits {
    /// An index that fails more often has failed for good.
    pub backoff_limit: i32,
    /// More failed indexes than this end the Job; `None`: it continues with the others.
    pub max_failed_indexes: Option<i32>,
}

/// The numbers and rules of a Job.
#[derive(Clone, Debug)]
pub struct JobParams<'a> {
    /// NonIndexed or Indexed.
    pub completion_mode: CompletionMode,
    /// How many must succeed; `None`: one success ends it.
    pub completions: Option<i32>,
    /// Most pods at a time.
    pub parallelism: i32,
    /// More failures than this end the Job.
    pub backoff_limit: i32,
    /// No pods while set.
    pub suspended: bool,
    /// A pod is replaced only once it has ended, not already while it is being deleted.
    pub replaces_ended_only: bool,
    /// Containers are restarted in place, and restarts count toward the limit.
    pub restarts_in_place: bool,
    /// Rules for failed pods.
    pub failure_policy: Option<&'a PodFailurePolicy>,
    /// When an Indexed Job succeeds before all its indexes have.
    pub success_policy: Option<&'a SuccessPolicy>,
    /// The limits of single indexes, of an Indexed Job that has them.
    pub per_index_limits: Option<PerIndexLimits>,
    /// Whether disrupted pods count as failed.
    pub counts_disruptions: bool,
    /// At most this many pods are created, deleted or released in one step.
    pub max_pods_per_sync: usize,
    /// At most this many uids are in `status.uncountedTerminatedPods`.
    pub max_uncounted_pods: usize,
}

impl<'a> JobParams<'a> {
    /// Reads a Job; `None` for a completion mode that this version does not know.
    pub fn of(job: &'a JobView, config: &Config) -> Option<JobParams<'a>> {
        let spec = &job.spec;
        let mode = match spec.completion_mode.as_deref() {
            None | Some("NonIndexed") => CompletionMode::NonIndexed,
            Some("Indexed") => CompletionMode::Indexed { completions: spec.completions.unwrap_or(0) },
            Some(_) => return None,
        };
        let is_indexed = mode != CompletionMode::NonIndexed;
        let backoff_limit = spec.backoff_limit_per_index.filter(|_| is_indexed);
        let per_index = backoff_limit
            .map(|backoff_limit| PerIndexLimits { backoff_limit, max_failed_indexes: spec.max_failed_indexes });
        Some(JobParams {
            completion_mode: mode,
            completions: spec.completions,
            parallelism: spec.parallelism.unwrap_or(1),
            backoff_limit: spec.backoff_limit.unwrap_or(if per_index.is_some() { i32::MAX } else { 6 }),
            suspended: spec.suspend.unwrap_or(false),
            replaces_ended_only: spec.pod_replacement_policy.as_deref() == Some("Failed"),
            restarts_in_place: spec.template.restart_policy == "OnFailure",
            failure_policy: spec.pod_failure_policy.as_ref(),
            success_policy: spec.success_policy.as_ref().filter(|_| is_indexed),
            per_index_limits: per_index,
            counts_disruptions: config.count_disruptions,
            max_pods_per_sync: config.max_pods_per_sync,
            max_uncounted_pods: config.max_uncounted_pods,
        })
    }

    /// The pod's index if the Job has such an index.
    pub fn index_of(&self, pod: &PodView) -> Option<i32> {
        let CompletionMode::Indexed { completions } = self.completion_mode else { return None };
        let index = pod.metadata.annotations.get(INDEX_KEY)?.parse().ok()?;
        (0..completions).contains(&index).then_some(index)
    }

    /// Whether the end of this pod can be counted. An Indexed Job counts only pods with a valid index.
    pub fn is_countable(&self, pod: &PodView) -> bool {
        self.completion_mode == CompletionMode::NonIndexed || self.index_of(pod).is_some()
    }

    /// Whether the pod counts as failed. Unless the Job replaces only ended pods, one that is being deleted has
    /// failed already, whatever its containers still do.
    pub fn has_failed(&self, pod: &PodView) -> bool {
        let is_replaced = pod.metadata.is_deleting() && !self.replaces_ended_only;
        pod.status.phase == PodPhase::Failed || (is_replaced && pod.status.phase != PodPhase::Succeeded)
    }
}

/// Whether the Job has reached its end.
pub fn is_finished(job: &JobView) -> bool {
    job.finished_condition().is_some()
}

/// Whether another controller runs this Job.
pub fn is_managed_by_others(job: &JobView) -> bool {
    job.spec.managed_by.as_deref().is_some_and(|manager| manager != MANAGED_BY)
}

/// Neither ended nor being deleted.
pub fn is_active(pod: &PodView) -> bool {
    !pod.is_finished() && !pod.metadata.is_deleting()
}

/// Being deleted, but not ended.
pub fn is_terminating(pod: &PodView) -> bool {
    !pod.is_finished() && pod.metadata.is_deleting()
}

/// Whether the pod has the tracking finalizer: its end is not counted, or the finalizer is not removed yet.
pub fn has_tracking_finalizer(pod: &PodView) -> bool {
    pod.metadata.has_finalizer(TRACKING_FINALIZER)
}

/// How often these containers were restarted. Wider than one count: a pod's status may have any values.
pub fn restarts<'a>(statuses: impl Iterator<Item = &'a ContainerStatusView>) -> i64 {
    statuses.map(|status| i64::from(status.restart_count)).sum()
}

/// Whether the pod is ready.
pub fn is_ready(pod: &PodView) -> bool {
    Condition::is_true(&pod.status.conditions, "Ready")
}
