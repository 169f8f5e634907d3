//! Metrics of work queues, with upstream's names.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The metrics of all queues of a process. Clones share the counters.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    depth: Family<QueueLabels, Gauge>,
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    queue_duration: Family<QueueLabels, Histogram>,
    work_duration: Family<QueueLabels, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

impl QueueMetrics {
    /// Registers the metrics of queues.
    pub fn register(registry: &mut Registry) -> QueueMetrics {
        let durations = || Family::new_with_constructor(duration_histogram as fn() -> Histogram);
        let metrics = QueueMetrics {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: durations(),
            work_duration: durations(),
        };
        // The library appends `_total` to counters and the unit to names.
        registry.register("workqueue_depth", "Keys that wait for a worker", metrics.depth.clone());
        registry.register("workqueue_adds", "Keys that were added", metrics.adds.clone());
        registry.register("workqueue_retries", "Keys that were added again after a failure", metrics.retries.clone());
        let waited = "How long a key waits for a worker";
        registry.register_with_unit("workqueue_queue_duration", waited, Unit::Seconds, metrics.queue_duration.clone());
        let worked = "How long a worker processes a key";
        registry.register_with_unit("workqueue_work_duration", worked, Unit::Seconds, metrics.work_duration.clone());
        metrics
    }

    /// The metrics of the queue called `name`. A queue that replaces an earlier one continues its counts.
    pub fn of(&self, name: &'static str) -> QueueCounts {
        let queue = QueueLabels { name };
        QueueCounts {
            depth: self.depth.get_or_create_owned(&queue),
            adds: self.adds.get_or_create_owned(&queue),
            retries: self.retries.get_or_create_owned(&queue),
            queue_duration: self.queue_duration.get_or_create_owned(&queue),
            work_duration: self.work_duration.get_or_create_owned(&queue),
        }
    }
}

/// The counters of one queue.
#[derive(Clone, Debug)]
pub struct QueueCounts {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
}

impl QueueCounts {
    /// This many keys wait now.
    pub(crate) fn depth(&self, keys: usize) {
        self.depth.set(i64::try_from(keys).unwrap_or(i64::MAX));
    }

    /// A key was added.
    pub(crate) fn added(&self) {
        self.adds.inc();
    }

    /// A key is retried.
    // Upstream: counts every delayed add, also intended ones, so its figure is mostly batching of events.
    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    /// A worker took a key that had waited this long.
    pub(crate) fn taken(&self, waited: Duration) {
        self.queue_duration.observe(waited.as_secs_f64());
    }

    /// A worker finished a key after this long.
    pub(crate) fn done(&self, worked: Duration) {
        self.work_duration.observe(worked.as_secs_f64());
    }
}

fn duration_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 10))
}
