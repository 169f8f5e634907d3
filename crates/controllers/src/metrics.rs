//! The metrics of the controllers. Names and labels are upstream's where upstream has the metric.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use runtime::{QueueCounts, QueueMetrics};

use crate::job;
use crate::podgc::decide::PodGcReason;

/// The metrics of all controllers of a process. Clones share the same metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    queues: QueueMetrics,
    /// Those of the Job controller.
    pub job: job::Metrics,
    cron_job_skew: Histogram,
    job_deletion: Histogram,
    pods_deleted: Family<PodGcLabels, Counter>,
    pod_deletion_errors: Family<PodGcLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PodGcLabels {
    namespace: String,
    reason: &'static str,
}

impl Metrics {
    /// Registers the metrics in `registry`.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics {
            queues: QueueMetrics::register(registry),
            job: job::Metrics::register(registry),
            cron_job_skew: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            job_deletion: Histogram::new(exponential_buckets(0.1, 2.0, 14)),
            pods_deleted: Family::default(),
            pod_deletion_errors: Family::default(),
        };
        // The library appends `_total` to counters and the unit to names.
        registry.register_with_unit(
            "cronjob_controller_job_creation_skew_duration",
            "Time from a scheduled time to the creation of its Job",
            Unit::Seconds,
            metrics.cron_job_skew.clone(),
        );
        registry.register_with_unit(
            "ttl_after_finished_controller_job_deletion_duration",
            "Time from the expiry of a Job to its deletion",
            Unit::Seconds,
            metrics.job_deletion.clone(),
        );
        registry.register(
            "pod_gc_collector_force_delete_pods",
            "Pods deleted by the pod garbage collector",
            metrics.pods_deleted.clone(),
        );
        registry.register(
            "pod_gc_collector_force_delete_pod_errors",
            "Failed attempts of the pod garbage collector to delete a pod",
            metrics.pod_deletion_errors.clone(),
        );
        metrics
    }

    /// The metrics of the queue of this name.
    pub fn queue(&self, name: &'static str) -> QueueCounts {
        self.queues.of(name)
    }

    /// A CronJob got its Job this long after the scheduled time.
    pub fn cron_job_started(&self, skew: Duration) {
        self.cron_job_skew.observe(skew.as_secs_f64());
    }

    /// A Job was deleted this long after its expiry.
    pub fn job_expired(&self, late: Duration) {
        self.job_deletion.observe(late.as_secs_f64());
    }

    /// A pod was deleted, or could not be.
    pub fn pod_collected(&self, namespace: &str, reason: PodGcReason, is_deleted: bool) {
        let family = if is_deleted { &self.pods_deleted } else { &self.pod_deletion_errors };
        let reason = reason.name();
        family.get_or_create(&PodGcLabels { namespace: namespace.to_owned(), reason }).inc();
    }
}

impl Default for Metrics {
    /// Metrics that are not exported.
    fn default() -> Metrics {
        Metrics::register(&mut Registry::default())
    }
}
