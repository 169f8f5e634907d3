//! The Job controller: creates scheduling objects and pods, counts how pods end, and finishes the Job.
//!
//! In: the caches of Jobs, pods, Workloads, PodGroups and Namespaces.
//! Out: Workloads, PodGroups and pods, in that order; Job status; Events.
//! Promises: a pod's end is counted exactly once, after any crash. A late cache or a lost event causes no pod
//! without its group and no pod twice. Objects of others are used, never written.
//! Never: decides inside I/O; keeps state in memory that a restart cannot rebuild.

pub mod run; // the loop: changes to keys, keys to reconcile; read this first
pub mod observe; // what the caches have about one Job
pub mod next_step; // the decision: one write, in creation order
pub mod execute; // executes it
pub mod scheduling; // Workload and PodGroup
pub mod pods; // pods to adopt, release, create or delete
pub mod policy; // outcomes of pods and of the Job
pub mod status; // counts, conditions, finalizers to remove
pub mod settings; // which Jobs get scheduling objects
pub mod job_params; // the Job's spec with defaults, and wire names
pub mod metrics; // the metrics of the Job controller

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::Clock;
use api::gates::Gates;
use api::views::{JobView, NamespaceView, PodGroupView, PodView, WorkloadView};
use runtime::{Backoff, Cache, Capabilities, Recorder};

pub use metrics::Metrics;
pub use run::run;
pub use settings::{ChildOwners, OnSuspend, PlainJobs};

/// What the Job controller uses. `jobs` is indexed by controller, by the Workload or PodGroup they name and by selector,
/// `pods` by controller and, without one, by label, `workloads` by controller reference, `pod_groups` by Workload.
pub struct JobContext {
    /// The API server.
    pub client: kube::Client,
    /// All Jobs.
    pub jobs: Cache<JobView>,
    /// All pods.
    pub pods: Cache<PodView>,
    /// All Workloads.
    pub workloads: Cache<WorkloadView>,
    /// All PodGroups.
    pub pod_groups: Cache<PodGroupView>,
    /// All Namespaces, for their labels.
    pub namespaces: Cache<NamespaceView>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Which kinds the server has.
    pub capabilities: Capabilities,
    /// Where Events go.
    pub recorder: Recorder,
    /// Settings.
    pub config: Config,
    /// Feature gates.
    pub gates: Gates,
    /// Metrics.
    pub metrics: crate::Metrics,
}

/// Settings of the Job controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many Jobs are reconciled concurrently.
    // Upstream: 5. A worker of ours is not a thread, and waits for the server nearly all the time.
    pub concurrent_syncs: usize,
    /// How many pods of one Job are written concurrently.
    pub max_writes_in_flight: usize,
    /// How long pod and status events are batched before the Job is reconciled.
    // Upstream: 1 s. It saves status writes, but delays the end of the Job after that of its last pod.
    pub sync_batch_period: Duration,
    /// How many pods of one Job are created, deleted or released in one step.
    pub max_pods_per_sync: usize,
    /// How many uids `status.uncountedTerminatedPods` of a Job may have.
    pub max_uncounted_pods: usize,
    /// Back-off after an error of the API server.
    pub retry: Backoff,
    /// Back-off before failed pods are replaced.
    pub pod_backoff: Backoff,
    /// Whether the garbage collector is ours. Only then do pods have their PodGroup as a second owner (if the PodGroup is
    /// deleted with the Job). Upstream's collector would keep pods of a deleted Job for a PodGroup that waits for the pods.
    pub own_gc: bool,
    /// What Jobs without `spec.scheduling` get.
    pub plain_jobs: PlainJobs,
    /// Whether the scheduling objects of a suspended Job are kept.
    pub on_suspend: OnSuspend,
    /// Kinds of owners whose Jobs are children.
    pub child_owners: ChildOwners,
    /// Whether a disrupted pod (condition `DisruptionTarget`) counts as failed. A pod that the kubelet ended by itself
    /// always does.
    // Upstream: it counts.
    pub count_disruptions: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            concurrent_syncs: 64,
            max_writes_in_flight: 64,
            sync_batch_period: Duration::from_millis(200),
            max_pods_per_sync: 500,
            max_uncounted_pods: 500,
            retry: Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(60) },
            pod_backoff: Backoff { initial: Duration::from_secs(10), max: Duration::from_secs(600) },
            own_gc: true,
            plain_jobs: PlainJobs::default(),
            on_suspend: OnSuspend::default(),
            child_owners: ChildOwners::default(),
            count_disruptions: false,
        }
    }
}
