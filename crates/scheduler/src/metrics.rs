//! What the scheduler counts. Names are upstream's where upstream has the metric.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit as Measure};
use scheduler_core::{Decision, Unit, Verdict};

/// The counters of the schedulers of a process. Clones count into the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    pod_attempts: Family<Attempt, Counter>,
    group_attempts: Family<Attempt, Counter>,
    pod_decisions: Histogram,
    group_decisions: Histogram,
    /// From a pod's creation to its bind.
    pod_waits: Histogram,
    failed_binds: Counter,
    released_pods: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    result: &'static str,
}

const SCHEDULED: Attempt = Attempt { result: "scheduled" };
const UNSCHEDULABLE: Attempt = Attempt { result: "unschedulable" };

impl Metrics {
    /// Has `registry` tell what is counted.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics {
            pod_attempts: Family::default(),
            group_attempts: Family::default(),
            // Upstream: the finest is a millisecond; a decision here takes a thousandth of that.
            pod_decisions: Histogram::new(exponential_buckets(1e-6, 2.0, 25)),
            group_decisions: Histogram::new(exponential_buckets(1e-6, 2.0, 25)),
            pod_waits: Histogram::new(exponential_buckets(0.01, 2.0, 20)),
            failed_binds: Counter::default(),
            released_pods: Counter::default(),
        };
        // The library appends `_total` to counters and the unit to names.
        let pods = "Pods that were decided about, by result; a pod that waits counts each time";
        registry.register("scheduler_schedule_attempts", pods, metrics.pod_attempts.clone());
        let groups = "PodGroups that were decided about, by result; one that waits counts each time";
        registry.register("scheduler_podgroup_schedule_attempts", groups, metrics.group_attempts.clone());
        let mut durations = |name: &str, help: &str, histogram: &Histogram| {
            registry.register_with_unit(name, help, Measure::Seconds, histogram.clone());
        };
        let help = "How long it takes to decide about a pod without a group";
        durations("scheduler_scheduling_algorithm_duration", help, &metrics.pod_decisions);
        let help = "How long it takes to decide about a PodGroup with all its pods";
        durations("scheduler_podgroup_scheduling_algorithm_duration", help, &metrics.group_decisions);
        let help = "From the creation of a pod to its bind";
        durations("scheduler_pod_scheduling_sli_duration", help, &metrics.pod_waits);
        let failed = "Binds that the server refused or that did not reach it";
        registry.register("phalanx_scheduler_failed_binds", failed, metrics.failed_binds.clone());
        let released = "Pods taken off their nodes because their gang never became whole";
        registry.register("phalanx_scheduler_released_pods", released, metrics.released_pods.clone());
        metrics
    }

    /// A decision was made, in this time.
    pub(crate) fn decided(&self, decision: &Decision, took: Duration) {
        let placed = match &decision.verdict {
            Verdict::Bind(placements) => placements.len() as u64,
            Verdict::Wait(_) => 0,
            Verdict::Release(release) => {
                self.released_pods.inc_by(release.pods.len() as u64);
                return;
            }
        };
        let result = if placed > 0 { SCHEDULED } else { UNSCHEDULABLE };
        match decision.unit {
            Unit::Pod(_) => {
                self.pod_decisions.observe(took.as_secs_f64());
                self.pod_attempts.get_or_create(&result).inc();
            }
            Unit::Group(_) => {
                self.group_decisions.observe(took.as_secs_f64());
                self.group_attempts.get_or_create(&result).inc();
                self.pod_attempts.get_or_create(&result).inc_by(placed);
            }
        }
    }

    /// A pod was bound this long after it was made.
    pub(crate) fn bound(&self, waited: Duration) {
        self.pod_waits.observe(waited.as_secs_f64());
    }

    /// A bind did not come about.
    pub(crate) fn bind_failed(&self) {
        self.failed_binds.inc();
    }
}

impl Default for Metrics {
    /// Counts for nobody.
    fn default() -> Metrics {
        Metrics::register(&mut Registry::default())
    }
}
