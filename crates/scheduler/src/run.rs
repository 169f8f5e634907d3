//! The loop: observe changes, decide, publish, wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api::views::{CompositePodGroupView, NodeView, ObjectKey, PodGroupView, PodView};
use api::{Clock, Timestamp};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use runtime::{Cache, Cursor, Recorder, failure, is_not_found};
use scheduler_core::{
    BindOutcome, ClusterChange, Decision, DecisionAction, Placement, ReleaseReason, Unit, UnsupportedTerms,
};
use tokio::sync::mpsc;

use crate::announce::Announcer;
use crate::announce::status_tracker::{ReminderSubject, StatusTracker};
use crate::decide::{CoreDriver, CoreMode, DecisionRecord};
use crate::decision_span::DecisionSpans;
use crate::execute::attempts::{BindAttempt, BindAttempts};
use crate::execute::bind_monitor::BindMonitor;
use crate::execute::{FinishedWrite, WriteLimits, WriteQueue};
use crate::handle::{SchedulerHandle, SchedulerRequest};
use crate::metrics::{AttemptResult, Metrics};

/// Delay before a failed write of a condition is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How the scheduler runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of the core.
    pub core: scheduler_core::Config,
    /// Whether pods are placed with the group they name. On a server without PodGroups each pod is placed alone.
    pub by_groups: bool,
    /// Where the core runs.
    pub core_mode: CoreMode,
    /// Limit of binds in flight.
    pub max_binds_in_flight: usize,
    /// Limit of PodGroup condition writes in flight.
    pub max_group_conditions_in_flight: usize,
    /// Limit of pod condition writes in flight.
    pub max_pod_conditions_in_flight: usize,
    /// Decisions before the loop lets binds proceed and observes changes again.
    pub max_decisions_per_turn: usize,
    /// Minimum time between two published refusals of one unit that differ only in numbers.
    pub refusal_pause: Duration,
}

impl Config {
    /// The reporting name of Events without a pod of a known scheduler: that of the first profile.
    pub fn name(&self) -> &str {
        self.core.profiles.first().map_or("default-scheduler", |profile| profile.scheduler_name.as_str())
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            core: scheduler_core::Config::default(),
            by_groups: true,
            core_mode: CoreMode::default(),
            max_binds_in_flight: 64,
            max_group_conditions_in_flight: 16,
            max_pod_conditions_in_flight: 4,
            max_decisions_per_turn: 64,
            refusal_pause: Duration::from_secs(10),
        }
    }
}

/// The dependencies of the scheduler.
#[derive(Clone)]
pub struct SchedulerContext {
    /// For all writes.
    pub client: Client,
    /// Pods, indexed by group.
    pub pods: Cache<PodView>,
    /// Nodes.
    pub nodes: Cache<NodeView>,
    /// PodGroups.
    pub pod_groups: Cache<PodGroupView>,
    /// CompositePodGroups, the parents of PodGroups.
    pub composite_pod_groups: Cache<CompositePodGroupView>,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// For Events.
    pub recorder: Recorder,
    /// Settings.
    pub config: Config,
    /// Gets the refusals and receives requests.
    pub handle: SchedulerHandle,
    /// Metrics.
    pub metrics: Metrics,
    /// Records how long binds have been in flight.
    pub monitor: BindMonitor,
}

/// Places pods. Never returns.
pub fn run(context: SchedulerContext) -> BoxFuture<'static, ()> {
    run_forever(context).boxed()
}

async fn run_forever(context: SchedulerContext) {
    // Refusals of an earlier scheduler do not hold any more.
    context.handle.clear();
    // A core that knows half of the nodes would refuse units that fit.
    context.nodes.wait_for_sync().await;
    context.pod_groups.wait_for_sync().await;
    context.pods.wait_for_sync().await;
    let mut shell = Shell::new(context);
    loop {
        shell.observe_changes();
        shell.decide().await;
        shell.announce();
        shell.wait().await;
    }
}

/// The pod without its group.
fn without_group(pod: Arc<PodView>) -> Arc<PodView> {
    if pod.group_name().is_none() {
        return pod;
    }
    let mut ungrouped = (*pod).clone();
    ungrouped.spec.scheduling_group = None;
    Arc::new(ungrouped)
}

/// The scheduler around its core.
struct Shell {
    nodes: Cursor<NodeView>,
    pod_groups: Cursor<PodGroupView>,
    composite_pod_groups: Cursor<CompositePodGroupView>,
    pods: Cursor<PodView>,
    requests: mpsc::Receiver<SchedulerRequest>,
    core: CoreDriver,
    writes: WriteQueue,
    attempts: BindAttempts,
    status_tracker: StatusTracker,
    by_groups: bool,
    announcer: Announcer,
    spans: DecisionSpans,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    monitor: BindMonitor,
}

impl Shell {
    fn new(context: SchedulerContext) -> Shell {
        let SchedulerContext {
            client,
            pods,
            nodes,
            pod_groups,
            composite_pod_groups,
            clock,
            recorder,
            config,
            handle,
            metrics,
            monitor,
        } = context;
        metrics.watch(&handle, &pods);
        let names = config.core.profiles.iter().map(|profile| profile.scheduler_name.clone());
        let recorders = names.map(|name| (name.clone(), recorder.reporting_as(&name))).collect();
        let limits = WriteLimits {
            binds: config.max_binds_in_flight,
            group_conditions: config.max_group_conditions_in_flight,
            pod_conditions: config.max_pod_conditions_in_flight,
        };
        Shell {
            nodes: nodes.subscribe(),
            pod_groups: pod_groups.subscribe(),
            composite_pod_groups: composite_pod_groups.subscribe(),
            pods: pods.subscribe(),
            requests: handle.open_requests(),
            core: CoreDriver::new(&config, clock.clone(), metrics.clone()),
            writes: WriteQueue::new(client, limits),
            attempts: BindAttempts::default(),
            status_tracker: StatusTracker::new(config.by_groups),
            by_groups: config.by_groups,
            announcer: Announcer {
                pods,
                pod_groups,
                recorders,
                recorder,
                handle,
                pause: config.refusal_pause,
                ignores_terms: config.core.unsupported_terms == UnsupportedTerms::Ignore,
            },
            spans: DecisionSpans::new(),
            clock,
            metrics,
            monitor,
        }
    }

    /// Passes all changes to the core: nodes and groups first, because pods refer to them.
    fn observe_changes(&mut self) {
        self.spans.revision = self.announcer.pods.revision();
        while self.core.accepts_requests()
            && let Ok(request) = self.requests.try_recv()
        {
            self.core.request(request);
        }
        while let Some(runtime::CacheChange { old, new }) = self.nodes.try_next() {
            self.core.observe(ClusterChange::Node { old, new });
        }
        while let Some(runtime::CacheChange { old, new }) = self.composite_pod_groups.try_next() {
            self.core.observe(ClusterChange::CompositePodGroup { old, new });
        }
        while let Some(change) = self.pod_groups.try_next() {
            self.status_tracker.note_group(&change);
            let key = change.latest().metadata.key();
            let expected = |view: &Arc<PodGroupView>| view.expected_count().map(|count| count.map_err(str::to_owned));
            if let Some(new) = &change.new
                && change.old.as_ref().and_then(expected) != expected(new)
            {
                self.announcer.warn_bad_expected_count(new);
            }
            if change.new.is_none() {
                self.announcer.handle.remove_refusal(&Unit::Group(key));
            } else if change.old.is_none() {
                self.status_tracker
                    .new_members
                    .extend(self.announcer.members(&key).iter().map(|pod| pod.metadata.key()));
            }
            self.core.observe(ClusterChange::PodGroup { old: change.old, new: change.new });
        }
        while let Some(change) = self.pods.try_next() {
            if self.status_tracker.note_pod(&change) {
                // A group member may have been refused alone, too.
                self.withdraw(&Unit::Pod(change.latest().metadata.key()));
            }
            let grouped = |pod: Option<Arc<PodView>>| if self.by_groups { pod } else { pod.map(without_group) };
            self.core.observe(ClusterChange::Pod { old: grouped(change.old), new: grouped(change.new) });
        }
    }

    /// Makes a bounded number of decisions. Writes in flight proceed while the core decides.
    async fn decide(&mut self) {
        let mut finished = Vec::new();
        let decisions = {
            let mut turn = pin!(self.core.run_turn());
            loop {
                tokio::select! { biased;
                    decisions = &mut turn => break decisions,
                    done = self.writes.next() => finished.push(done),
                }
            }
        };
        // First, because the conditions of a group depend on which pods count.
        self.core.take_new_runs().into_iter().for_each(|run| self.status_tracker.begin_run(run));
        decisions.into_iter().for_each(|record| self.execute(record));
        for (unit, refusal) in self.core.take_remedies() {
            if self.announcer.handle.update_refusal(&unit, refusal) {
                self.status_tracker.dirty.insert(unit);
            }
        }
        finished.into_iter().for_each(|done| self.finish_write(done));
    }

    fn execute(&mut self, DecisionRecord { decision, profile, tries }: DecisionRecord) {
        let span = self.spans.next(&decision, tries);
        let _entered = span.enter();
        let Decision { unit, action, unplaced, .. } = decision;
        let refused = match action {
            DecisionAction::Bind(placements) => {
                tracing::debug!("binding {} pods", placements.len());
                let attempt = BindAttempt { unit: unit.clone(), profile, tries, began: self.clock.now() };
                self.attempts.begin(attempt, &placements);
                self.writes.bind(placements, &span);
                self.metrics.binding(self.attempts.len());
                unplaced
            }
            DecisionAction::Wait(refusal) => Some(refusal),
            DecisionAction::Release(release) => {
                tracing::info!("{unit}: {}", release.message());
                match release.reason {
                    ReleaseReason::HalfBound { .. } => self.announcer.gang_released(unit.key(), &release.message()),
                    ReleaseReason::Overcommit(_) => self.announcer.overcommit_released(unit.key(), &release.message()),
                }
                self.writes.release(release, &self.announcer.pods, self.clock.now(), &span);
                return;
            }
        };
        match refused {
            Some(refusal) => {
                tracing::debug!("refused: {}", refusal.plain_message());
                self.announcer.handle.set_refusal(unit.clone(), refusal);
                self.status_tracker.dirty.insert(unit);
            }
            None => self.withdraw(&unit),
        }
    }

    fn withdraw(&mut self, unit: &Unit) {
        self.announcer.handle.remove_refusal(unit);
        self.status_tracker.forget(unit);
    }

    fn announce(&mut self) {
        let now = self.clock.now();
        self.writes.update_congestion(now);
        self.monitor.set(self.writes.oldest_bind());
        self.announcer.recorder.set_pace(self.writes.pace(now));
        self.status_tracker.process_due(now);
        self.announcer.warn_priority_mismatch(&mut self.status_tracker);
        self.announcer.warn_ignored_terms(&mut self.status_tracker);
        self.announcer.publish_units(&mut self.status_tracker, &mut self.writes, now);
        self.announcer.publish_pods(&mut self.status_tracker, &mut self.writes, now);
    }

    /// Returns when a write has finished, something has changed, or a time is due.
    async fn wait(&mut self) {
        if self.core.has_work() {
            // Lets other tasks on this thread run (the server, the caches); decisions continue right after.
            tokio::task::yield_now().await;
        } else {
            let sleep = sleep_for(self.due_in());
            let accepts_requests = self.core.accepts_requests();
            let finished = tokio::select! { biased;
                done = self.writes.next() => Some(done),
                () = self.nodes.wait_until_ready() => None,
                () = self.pod_groups.wait_until_ready() => None,
                () = self.composite_pod_groups.wait_until_ready() => None,
                () = self.pods.wait_until_ready() => None,
                () = self.core.explained() => None,
                Some(request) = self.requests.recv(), if accepts_requests => {
                    self.core.request(request);
                    None
                }
                () = sleep => None,
            };
            if let Some(done) = finished {
                self.finish_write(done);
            }
        }
        while let Some(done) = self.writes.try_next() {
            self.finish_write(done);
        }
    }

    fn finish_write(&mut self, done: FinishedWrite) {
        let retry_at = self.clock.now() + RETRY_AFTER;
        match done {
            FinishedWrite::Bind(placement, outcome) => self.finish_bind(placement, outcome),
            FinishedWrite::Release => {}
            FinishedWrite::GroupCondition(key, outcome) => {
                let retry = outcome.is_err_and(|error| worth_retrying("podgroup", &key, &error));
                self.status_tracker.group_condition_written(key, retry.then_some(retry_at));
            }
            FinishedWrite::PodCondition(key, outcome) => {
                if outcome.is_err_and(|error| worth_retrying("pod", &key, &error)) {
                    self.status_tracker.remind(retry_at, ReminderSubject::Pod(key));
                }
            }
        }
    }

    fn finish_bind(&mut self, placement: Placement, outcome: Result<(), kube::Error>) {
        let created = self.announcer.pods.get(&placement.pod).and_then(|pod| pod.metadata.creation_timestamp);
        let result = if outcome.is_ok() { AttemptResult::Scheduled } else { AttemptResult::Error };
        self.attempts.end(&placement.pod, result, created, self.clock.now(), &self.metrics);
        self.metrics.binding(self.attempts.len());
        self.announcer.bind_ended(&placement, outcome.as_ref().err(), &mut self.status_tracker);
        let Placement { pod, uid, .. } = placement;
        self.core.settled(match outcome {
            Ok(()) => BindOutcome::Bound { pod, uid },
            Err(_) => BindOutcome::Failed { pod, uid },
        });
    }

    fn due_in(&self) -> Option<Duration> {
        let now = self.clock.now();
        let reminder = self.status_tracker.next_at().map(|at| duration_until(at, now));
        [reminder, self.core.due_in()].into_iter().flatten().min()
    }
}

/// The time from `now` until `at`; zero if `at` has passed.
pub(crate) fn duration_until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

async fn sleep_for(delay: Option<Duration>) {
    match delay {
        // Never zero: time must pass before something is tried again that is due and not done.
        Some(delay) => tokio::time::sleep(delay.max(Duration::from_millis(1))).await,
        None => std::future::pending().await,
    }
}

/// Whether a failed write of a condition is retried: not if the object is gone. Other errors may end with a newer view.
fn worth_retrying(kind: &str, key: &ObjectKey, error: &kube::Error) -> bool {
    tracing::debug!("{kind} {key}: condition not written: {}", failure::message(error));
    !is_not_found(error)
}
