//! Prometheus metrics of the scheduler. Names are upstream's where upstream has the metric.

mod unschedulable; // pending pods, by the plugins that refuse them

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use api::views::PodView;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit as Measure};
use runtime::Cache;
use scheduler_core::{Core, Decision, DecisionAction, ReleaseReason, SubQueue, Unit};

use self::unschedulable::UnschedulableCollector;
use crate::handle::SchedulerHandle;

/// The label `attempts` has one value for this number and all larger ones.
const MAX_ATTEMPTS_LABEL: u32 = 15;

/// The metrics of the schedulers of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    pod_attempts: Family<AttemptLabels, Counter>,
    group_attempts: Family<AttemptLabels, Counter>,
    pod_decisions: Histogram,
    group_decisions: Histogram,
    core_time: Counter<f64, AtomicU64>,
    /// From the decision to the end of the bind.
    pod_attempt_durations: Family<AttemptLabels, Histogram>,
    group_attempt_durations: Family<AttemptLabels, Histogram>,
    /// From a pod's creation to its bind.
    pod_waits: Family<AttemptsLabel, Histogram>,
    pod_tries: Histogram,
    pending_pods: Family<QueueLabel, Gauge>,
    queued_units: Family<QueueTypeLabels, Gauge>,
    incoming_pods: Family<IncomingLabels, Counter>,
    incoming_units: Family<IncomingLabels, Counter>,
    unschedulable: UnschedulableCollector,
    cache_size: Family<CacheTypeLabel, Gauge>,
    failed_binds: Counter,
    released_pods: Family<ReleaseReasonLabel, Counter>,
    missed_wakeups: Counter,
    reservations: Family<UnitTypeLabel, Gauge>,
    nominations: Gauge,
    reserved_idle_share: Gauge<f64, AtomicU64>,
    reserved_idle_seconds: Counter<f64, AtomicU64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    result: &'static str,
    profile: String,
}

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    fn labels(self, profile: &str) -> AttemptLabels {
        let result = match self {
            AttemptResult::Scheduled => "scheduled",
            AttemptResult::Unschedulable => "unschedulable",
            AttemptResult::Error => "error",
        };
        AttemptLabels { result, profile: profile.to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptsLabel {
    attempts: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueTypeLabels {
    queue: &'static str,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IncomingLabels {
    queue: &'static str,
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnitTypeLabel {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheTypeLabel {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReleaseReasonLabel {
    reason: &'static str,
}

/// A finished attempt to place a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodAttempt<'a> {
    pub(crate) profile: &'a str,
    /// Attempts so far, this one included.
    pub(crate) tries: u32,
    pub(crate) took: Duration,
    /// Time since the pod was created.
    pub(crate) waited: Option<Duration>,
}

// Upstream: the smallest bucket is a millisecond; a decision here takes a thousandth of that.
fn from_a_microsecond() -> Histogram {
    Histogram::new(exponential_buckets(1e-6, 2.0, 25))
}

fn from_a_millisecond() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

fn from_ten_milliseconds() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 20))
}

impl Metrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics {
            pod_attempts: Family::default(),
            group_attempts: Family::default(),
            pod_decisions: from_a_microsecond(),
            group_decisions: from_a_microsecond(),
            core_time: Counter::default(),
            pod_attempt_durations: Family::new_with_constructor(from_a_millisecond),
            group_attempt_durations: Family::new_with_constructor(from_a_millisecond),
            pod_waits: Family::new_with_constructor(from_ten_milliseconds),
            pod_tries: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            pending_pods: Family::default(),
            queued_units: Family::default(),
            incoming_pods: Family::default(),
            incoming_units: Family::default(),
            unschedulable: UnschedulableCollector::default(),
            cache_size: Family::default(),
            failed_binds: Counter::default(),
            released_pods: Family::default(),
            missed_wakeups: Counter::default(),
            reservations: Family::default(),
            nominations: Gauge::default(),
            reserved_idle_share: Gauge::default(),
            reserved_idle_seconds: Counter::default(),
        };
        metrics.register_counts(registry);
        metrics.register_durations(registry);
        registry.register_collector(Box::new(metrics.unschedulable.clone()));
        metrics
    }

    // The library appends `_total` to counters and the unit to names.
    fn register_counts(&self, registry: &mut Registry) {
        let help = "Attempts to place a pod, by result";
        registry.register("scheduler_schedule_attempts", help, self.pod_attempts.clone());
        let help = "Decisions about PodGroups, by result; each refusal counts";
        registry.register("scheduler_podgroup_schedule_attempts", help, self.group_attempts.clone());
        let help = "Attempts needed to place a pod";
        registry.register("scheduler_pod_scheduling_attempts", help, self.pod_tries.clone());
        let help = "Pending pods, by sub-queue";
        registry.register("scheduler_pending_pods", help, self.pending_pods.clone());
        let help = "PodGroups, and pods without one, by sub-queue";
        registry.register("scheduler_queued_entities", help, self.queued_units.clone());
        let help = "Pods added to a sub-queue, by event";
        registry.register("scheduler_queue_incoming_pods", help, self.incoming_pods.clone());
        let help = "PodGroups, and pods without one, added to a sub-queue, by event";
        registry.register("scheduler_queue_incoming_entities", help, self.incoming_units.clone());
        let help = "Nodes and pods in the scheduler cache, and assumed pods";
        registry.register("scheduler_cache_size", help, self.cache_size.clone());
        let help = "Binds that failed";
        registry.register("phalanx_scheduler_failed_binds", help, self.failed_binds.clone());
        let help = "Pods released from their nodes: because their gang was half bound, or their node over-committed";
        registry.register("phalanx_scheduler_released_pods", help, self.released_pods.clone());
        let help = "Units that waited for a change and were found to fit during an explanation; they are decided next";
        registry.register("phalanx_scheduler_missed_wakeups", help, self.missed_wakeups.clone());
        self.register_reservations(registry);
    }

    fn register_reservations(&self, registry: &mut Registry) {
        let help = "PodGroups, and pods without one, that room is reserved for";
        registry.register("phalanx_scheduler_reservations", help, self.reservations.clone());
        let help = "Pods of other schedulers that room is kept for because they are nominated to a node";
        registry.register("phalanx_scheduler_nominated_pods", help, self.nominations.clone());
        let help = "Share of the cluster that reservations keep idle, by the resource with the largest share";
        registry.register("phalanx_scheduler_reserved_idle_share", help, self.reserved_idle_share.clone());
        let help = "What reservations have kept idle: share of the cluster times seconds";
        let seconds = Measure::Seconds;
        let name = "phalanx_scheduler_reserved_idle";
        registry.register_with_unit(name, help, seconds, self.reserved_idle_seconds.clone());
    }

    fn register_durations(&self, registry: &mut Registry) {
        let seconds = Measure::Seconds;
        let help = "Duration of a decision about a pod without a group";
        let name = "scheduler_scheduling_algorithm_duration";
        registry.register_with_unit(name, help, seconds.clone(), self.pod_decisions.clone());
        let help = "Duration of a decision about a PodGroup with all its pods";
        let name = "scheduler_podgroup_scheduling_algorithm_duration";
        registry.register_with_unit(name, help, seconds.clone(), self.group_decisions.clone());
        let help = "Time in which the scheduler's core noted changes and made decisions";
        registry.register_with_unit("phalanx_scheduler_core", help, seconds.clone(), self.core_time.clone());
        let help = "Time from the decision about a pod to the end of its bind, by result";
        let name = "scheduler_scheduling_attempt_duration";
        registry.register_with_unit(name, help, seconds.clone(), self.pod_attempt_durations.clone());
        let help = "Time from the decision about a PodGroup to the end of its last bind, by result";
        let name = "scheduler_podgroup_scheduling_attempt_duration";
        registry.register_with_unit(name, help, seconds.clone(), self.group_attempt_durations.clone());
        let help = "Time from the creation of a pod to its bind, by number of attempts";
        let name = "scheduler_pod_scheduling_sli_duration";
        registry.register_with_unit(name, help, seconds, self.pod_waits.clone());
    }

    /// How many waiting units were found to fit although no change had woken them. Each is a defect.
    pub fn missed_wakeups(&self) -> u64 {
        self.missed_wakeups.get()
    }

    /// Counts the pods of the refusals in `handle`, from now on.
    pub(crate) fn watch(&self, handle: &SchedulerHandle, pods: &Cache<PodView>) {
        self.unschedulable.watch(handle, pods);
    }

    /// Records a decision about pods of `profile`, and its duration.
    pub(crate) fn decided(&self, decision: &Decision, profile: &str, took: Duration) {
        let refused = match &decision.action {
            DecisionAction::Bind(_) => None,
            DecisionAction::Wait(refusal) => Some(refusal.pods_count as u64),
            DecisionAction::Release(release) => {
                let reason = match release.reason {
                    ReleaseReason::HalfBound { .. } => "half_bound",
                    ReleaseReason::Overcommit(_) => "overcommit",
                };
                self.released_pods.get_or_create(&ReleaseReasonLabel { reason }).inc_by(release.pods.len() as u64);
                return;
            }
        };
        let took = took.as_secs_f64();
        match decision.unit {
            Unit::Pod(_) => self.pod_decisions.observe(took),
            Unit::Group(_) => {
                self.group_decisions.observe(took);
                let result = if refused.is_some() { AttemptResult::Unschedulable } else { AttemptResult::Scheduled };
                self.group_attempts.get_or_create(&result.labels(profile)).inc();
            }
        }
        // The attempts of placed pods end with their binds.
        if let Some(pods) = refused {
            let attempt = AttemptResult::Unschedulable.labels(profile);
            self.pod_attempts.get_or_create(&attempt).inc_by(pods);
            let durations = match decision.unit {
                Unit::Pod(_) => &self.pod_attempt_durations,
                Unit::Group(_) => &self.group_attempt_durations,
            };
            durations.get_or_create(&attempt).observe(took);
        }
    }

    /// Records how long the core noted changes and made decisions.
    pub(crate) fn core_ran(&self, took: Duration) {
        self.core_time.inc_by(took.as_secs_f64());
    }

    /// Records the state of the core at the end of a turn.
    pub(crate) fn turn_ended(&self, core: &mut Core) {
        for sub_queue in SubQueue::ALL {
            let (counts, queue) = (core.sub_queue_counts(sub_queue), sub_queue.name());
            set(&self.pending_pods.get_or_create(&QueueLabel { queue }), counts.pods);
            for (r#type, count) in [("pod", counts.single_pods), ("podgroup", counts.groups)] {
                set(&self.queued_units.get_or_create(&QueueTypeLabels { queue, r#type }), count);
            }
        }
        for ((sub_queue, event), incoming) in core.take_incoming() {
            let label = IncomingLabels { queue: sub_queue.name(), event: event.name() };
            self.incoming_pods.get_or_create(&label).inc_by(incoming.pods);
            self.incoming_units.get_or_create(&label).inc_by(incoming.units);
        }
        for (r#type, count) in [("nodes", core.nodes_count()), ("pods", core.pods_count())] {
            set(&self.cache_size.get_or_create(&CacheTypeLabel { r#type }), count);
        }
        self.missed_wakeups.inc_by(core.take_missed_wakeups());
        let (pods_count, groups_count) = core.reservations_counts();
        for (r#type, count) in [("pod", pods_count), ("podgroup", groups_count)] {
            set(&self.reservations.get_or_create(&UnitTypeLabel { r#type }), count);
        }
        set(&self.nominations, core.nominations_count());
        self.reserved_idle_share.set(core.reserved_idle_share());
        self.reserved_idle_seconds.inc_by(core.take_reserved_idle_seconds());
    }

    /// Records the number of pending and in-flight binds.
    pub(crate) fn binding(&self, pods: usize) {
        set(&self.cache_size.get_or_create(&CacheTypeLabel { r#type: "assumed_pods" }), pods);
    }

    /// Records the end of a bind.
    pub(crate) fn bind_ended(&self, result: AttemptResult, attempt: PodAttempt<'_>) {
        let label = result.labels(attempt.profile);
        self.pod_attempts.get_or_create(&label).inc();
        self.pod_attempt_durations.get_or_create(&label).observe(attempt.took.as_secs_f64());
        if result != AttemptResult::Scheduled {
            self.failed_binds.inc();
            return;
        }
        self.pod_tries.observe(f64::from(attempt.tries));
        if let Some(waited) = attempt.waited {
            let is_capped = attempt.tries >= MAX_ATTEMPTS_LABEL;
            let attempts = if is_capped { format!("{MAX_ATTEMPTS_LABEL}+") } else { attempt.tries.to_string() };
            self.pod_waits.get_or_create(&AttemptsLabel { attempts }).observe(waited.as_secs_f64());
        }
    }

    /// Records the end of the last bind of a PodGroup, and the time since the decision.
    pub(crate) fn group_bound(&self, result: AttemptResult, profile: &str, took: Duration) {
        self.group_attempt_durations.get_or_create(&result.labels(profile)).observe(took.as_secs_f64());
    }
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

impl Default for Metrics {
    /// Metrics that are not exported.
    fn default() -> Metrics {
        Metrics::register(&mut Registry::default())
    }
}
