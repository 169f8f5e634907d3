//! What the controllers count. Names and labels are upstream's where upstream has the metric.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use runtime::{QueueCounts, QueueMetrics};

use crate::job;
use crate::podgc::decide::PodGcReason;

/// The counters of all controllers of a process. Clones count into the same.
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
    /// Has `registry` tell what is counted.
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
            "From the time of the schedule to its Job being there",
            Unit::Seconds,
            metrics.cron_job_skew.clone(),
        );
        registry.register_with_unit(
            "ttl_after_finished_controller_job_deletion_duration",
            "From the time at which a Job may go to its deletion",
            Unit::Seconds,
            metrics.job_deletion.clone(),
        );
        registry.register(
            "pod_gc_collector_force_delete_pods",
            "Pods that nobody else took away",
            metrics.pods_deleted.clone(),
        );
        registry.register(
            "pod_gc_collector_force_delete_pod_errors",
            "Pods that could not be taken away, tries counted",
            metrics.pod_deletion_errors.clone(),
        );
        metrics
    }

    /// The counters of the queue of this name.
    pub fn queue(&self, name: &'static str) -> QueueCounts {
        self.queues.of(name)
    }

    /// A CronJob got its Job this long after the time that its schedule names.
    pub fn cron_job_started(&self, skew: Duration) {
        self.cron_job_skew.observe(skew.as_secs_f64());
    }

    /// A Job was deleted this long after it might have been.
    pub fn job_expired(&self, late: Duration) {
        self.job_deletion.observe(late.as_secs_f64());
    }

    /// A pod was taken away, or was not.
    pub fn pod_collected(&self, namespace: &str, reason: PodGcReason, is_gone: bool) {
        let family = if is_gone { &self.pods_deleted } else { &self.pod_deletion_errors };
        let reason = reason.name();
        family.get_or_create(&PodGcLabels { namespace: namespace.to_owned(), reason }).inc();
    }
}

impl Default for Metrics {
    /// Counts, and nobody asks.
    fn default() -> Metrics {
        Metrics::register(&mut Registry::default())
    }
}
