//! The loop: take in what changed, decide, announce, wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api::views::{CompositePodGroupView, NodeView, ObjectKey, PodGroupView, PodView};
use api::{Clock, Timestamp};
use kube::Client;
use runtime::{Cache, Cursor, Recorder, failure, is_not_found};
use scheduler_core::{Change, Decision, Outcome, Placement, Unit, UnsupportedTerms, Verdict, WhyReleased};
use tokio::sync::mpsc;

use crate::announce::Announcer;
use crate::answers::{Answers, Asked};
use crate::attempts::{Attempt, Attempts};
use crate::bind_monitor::BindMonitor;
use crate::book::{Book, Topic};
use crate::carry_out::{Done, Limits, Writes};
use crate::decide::{CoreRuns, Decide, Decided};
use crate::metrics::{Ended, Metrics};

/// How long a failed condition waits for another attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How the scheduler runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of the core.
    pub core: scheduler_core::Config,
    /// Whether pods are placed with the group they name. Where the server has no groups, each pod is placed alone.
    pub by_groups: bool,
    /// Where the core runs.
    pub core_runs: CoreRuns,
    /// Binds in flight.
    pub binds_in_flight: usize,
    /// Writes of PodGroup conditions in flight.
    pub group_conditions_in_flight: usize,
    /// Writes of pod conditions in flight.
    pub pod_conditions_in_flight: usize,
    /// Decisions before the loop lets binds proceed and looks at changes again.
    pub decisions_per_turn: usize,
    /// The least time between two refusals of one unit that differ only in numbers.
    pub refusal_pause: Duration,
}

impl Config {
    /// The name under which Events are reported that are about no pod of a known scheduler: that of the first profile.
    pub fn name(&self) -> &str {
        self.core.profiles.first().map_or("default-scheduler", |profile| profile.scheduler_name.as_str())
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            core: scheduler_core::Config::default(),
            by_groups: true,
            core_runs: CoreRuns::default(),
            binds_in_flight: 64,
            group_conditions_in_flight: 16,
            pod_conditions_in_flight: 4,
            decisions_per_turn: 64,
            refusal_pause: Duration::from_secs(10),
        }
    }
}

/// What the scheduler is given.
#[derive(Clone)]
pub struct Parts {
    /// Writes go through this.
    pub client: Client,
    /// Pods, indexed by group.
    pub pods: Cache<PodView>,
    /// Nodes.
    pub nodes: Cache<NodeView>,
    /// PodGroups.
    pub pod_groups: Cache<PodGroupView>,
    /// CompositePodGroups, which groups may belong to.
    pub composite_pod_groups: Cache<CompositePodGroupView>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Takes events.
    pub recorder: Recorder,
    /// Settings.
    pub config: Config,
    /// Where refusals are shown.
    pub answers: Answers,
    /// What is counted.
    pub metrics: Metrics,
    /// Is told how long binds have been under way.
    pub monitor: BindMonitor,
}

/// Places pods for ever.
pub async fn run(parts: Parts) {
    // Refusals of a scheduler before this one are not ours to uphold.
    parts.answers.clear();
    // A core that knows half the nodes would refuse what fits.
    parts.nodes.synced().await;
    parts.pod_groups.synced().await;
    parts.pods.synced().await;
    let mut shell = Shell::new(parts);
    loop {
        shell.take_in();
        shell.decide().await;
        shell.announce();
        shell.wait().await;
    }
}

/// The pod without its group.
fn alone(pod: Arc<PodView>) -> Arc<PodView> {
    if pod.group_name().is_none() {
        return pod;
    }
    let mut alone = (*pod).clone();
    alone.spec.scheduling_group = None;
    Arc::new(alone)
}

/// The scheduler around its core.
struct Shell {
    nodes: Cursor<NodeView>,
    pod_groups: Cursor<PodGroupView>,
    composite_pod_groups: Cursor<CompositePodGroupView>,
    pods: Cursor<PodView>,
    questions: mpsc::Receiver<Asked>,
    decide: Decide,
    writes: Writes,
    attempts: Attempts,
    book: Book,
    by_groups: bool,
    announcer: Announcer,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    monitor: BindMonitor,
}

impl Shell {
    fn new(parts: Parts) -> Shell {
        let Parts {
            client,
            pods,
            nodes,
            pod_groups,
            composite_pod_groups,
            clock,
            recorder,
            config,
            answers,
            metrics,
            monitor,
        } = parts;
        metrics.watch(&answers, &pods);
        let names = config.core.profiles.iter().map(|profile| profile.scheduler_name.clone());
        let recorders = names.map(|name| (name.clone(), recorder.reporting_as(&name))).collect();
        let limits = Limits {
            binds: config.binds_in_flight,
            group_conditions: config.group_conditions_in_flight,
            pod_conditions: config.pod_conditions_in_flight,
        };
        Shell {
            nodes: nodes.subscribe(),
            pod_groups: pod_groups.subscribe(),
            composite_pod_groups: composite_pod_groups.subscribe(),
            pods: pods.subscribe(),
            questions: answers.open(),
            decide: Decide::new(&config, clock.clone(), metrics.clone()),
            writes: Writes::new(client, limits),
            attempts: Attempts::default(),
            book: Book::new(config.by_groups),
            by_groups: config.by_groups,
            announcer: Announcer {
                pods,
                pod_groups,
                recorders,
                recorder,
                answers,
                pause: config.refusal_pause,
                ignores_terms: config.core.unsupported_terms == UnsupportedTerms::Ignore,
            },
            clock,
            metrics,
            monitor,
        }
    }

    /// Tells the core everything that changed: nodes and groups first, so that pods find them.
    fn take_in(&mut self) {
        while let Ok(asked) = self.questions.try_recv() {
            self.decide.ask(asked);
        }
        while let Some(runtime::Change { old, new }) = self.nodes.try_next() {
            self.decide.observe(Change::Node { old, new });
        }
        while let Some(runtime::Change { old, new }) = self.composite_pod_groups.try_next() {
            self.decide.observe(Change::CompositePodGroup { old, new });
        }
        while let Some(change) = self.pod_groups.try_next() {
            self.book.note_group(&change);
            let key = change.latest().metadata.key();
            let expected = |view: &Arc<PodGroupView>| view.expected_count().map(|count| count.map_err(str::to_owned));
            if let Some(new) = &change.new
                && change.old.as_ref().and_then(expected) != expected(new)
            {
                self.announcer.bad_expected_count(new);
            }
            if change.new.is_none() {
                self.announcer.answers.withdraw(&Unit::Group(key));
            } else if change.old.is_none() {
                self.book.newcomers.extend(self.announcer.members(&key).iter().map(|pod| pod.metadata.key()));
            }
            self.decide.observe(Change::PodGroup { old: change.old, new: change.new });
        }
        while let Some(change) = self.pods.try_next() {
            if self.book.note_pod(&change) {
                // Also a member may have been refused alone.
                self.withdraw(&Unit::Pod(change.latest().metadata.key()));
            }
            let seen = |pod: Option<Arc<PodView>>| if self.by_groups { pod } else { pod.map(alone) };
            self.decide.observe(Change::Pod { old: seen(change.old), new: seen(change.new) });
        }
    }

    /// Makes a bounded number of decisions. Writes in flight go on while the core is at it.
    async fn decide(&mut self) {
        let mut ended = Vec::new();
        let decisions = {
            let mut turn = pin!(self.decide.turn());
            loop {
                tokio::select! { biased;
                    decisions = &mut turn => break decisions,
                    done = self.writes.next() => ended.push(done),
                }
            }
        };
        // First, because what is said about a group depends on who counts.
        self.decide.take_new_runs().into_iter().for_each(|run| self.book.begin_run(run));
        decisions.into_iter().for_each(|decided| self.carry_out(decided));
        for (unit, refusal) in self.decide.take_advices() {
            if self.announcer.answers.renew(&unit, refusal) {
                self.book.unsaid.insert(unit);
            }
        }
        ended.into_iter().for_each(|done| self.settle(done));
    }

    fn carry_out(&mut self, Decided { decision, profile, tries }: Decided) {
        let Decision { unit, verdict, unplaced, .. } = decision;
        let refused = match verdict {
            Verdict::Bind(placements) => {
                let attempt = Attempt { unit: unit.clone(), profile, tries, began: self.clock.now() };
                self.attempts.begin(attempt, &placements);
                self.writes.bind(placements);
                self.metrics.binding(self.attempts.len());
                unplaced
            }
            Verdict::Wait(refusal) => Some(refusal),
            Verdict::Release(release) => {
                tracing::info!("{unit}: {}", release.message());
                match release.why {
                    WhyReleased::HalfBound { .. } => self.announcer.released(unit.key(), &release.message()),
                    WhyReleased::Overcommit(_) => self.announcer.makes_way(unit.key(), &release.message()),
                }
                self.writes.release(release, &self.announcer.pods, self.clock.now());
                return;
            }
        };
        match refused {
            Some(refusal) => {
                self.announcer.answers.refuse(unit.clone(), refusal);
                self.book.unsaid.insert(unit);
            }
            None => self.withdraw(&unit),
        }
    }

    fn withdraw(&mut self, unit: &Unit) {
        self.announcer.answers.withdraw(unit);
        self.book.forget(unit);
    }

    fn announce(&mut self) {
        let now = self.clock.now();
        self.writes.look_at_the_clock(now);
        self.monitor.set(self.writes.oldest_bind());
        self.announcer.recorder.set_pace(self.writes.pace(now));
        self.book.open_agenda(now);
        self.announcer.newcomers(&mut self.book);
        self.announcer.demands(&mut self.book);
        self.announcer.units(&mut self.book, &mut self.writes, now);
        self.announcer.pods(&mut self.book, &mut self.writes, now);
    }

    /// Returns when there is something to do: a write ended, something changed, or the time has come.
    async fn wait(&mut self) {
        if self.decide.has_news() {
            // Others on this thread (the server, the caches) get their turn; decisions go on right after.
            tokio::task::yield_now().await;
        } else {
            let sleep = sleep_for(self.due_in());
            let ended = tokio::select! { biased;
                done = self.writes.next() => Some(done),
                () = self.nodes.ready() => None,
                () = self.pod_groups.ready() => None,
                () = self.composite_pod_groups.ready() => None,
                () = self.pods.ready() => None,
                Some(asked) = self.questions.recv() => {
                    self.decide.ask(asked);
                    None
                }
                () = sleep => None,
            };
            if let Some(done) = ended {
                self.settle(done);
            }
        }
        while let Some(done) = self.writes.try_next() {
            self.settle(done);
        }
    }

    fn settle(&mut self, done: Done) {
        let retry_at = self.clock.now() + RETRY_AFTER;
        match done {
            Done::Bind(placement, outcome) => self.settle_bind(placement, outcome),
            // The core asks again if the pod stays.
            Done::Release(member, outcome) => {
                if let Err(error) = outcome {
                    tracing::warn!("pod {}: not released: {}", member.pod, failure::message(&error));
                }
            }
            Done::GroupCondition(key, outcome) => {
                let retry = outcome.is_err_and(|error| worth_retrying("podgroup", &key, &error));
                self.book.group_condition_written(key, retry.then_some(retry_at));
            }
            Done::PodCondition(key, outcome) => {
                if outcome.is_err_and(|error| worth_retrying("pod", &key, &error)) {
                    self.book.remind(retry_at, Topic::Pod(key));
                }
            }
        }
    }

    fn settle_bind(&mut self, placement: Placement, outcome: Result<(), kube::Error>) {
        if let Err(error) = &outcome {
            tracing::info!("pod {}: bind to {} failed: {}", placement.pod, placement.node, failure::message(error));
        }
        let created = self.announcer.pods.get(&placement.pod).and_then(|pod| pod.metadata.creation_timestamp);
        let ended = if outcome.is_ok() { Ended::Scheduled } else { Ended::Error };
        self.attempts.end(&placement.pod, ended, created, self.clock.now(), &self.metrics);
        self.metrics.binding(self.attempts.len());
        self.announcer.bind_ended(&placement, outcome.as_ref().err(), &mut self.book);
        let Placement { pod, uid, .. } = placement;
        self.decide.settled(match outcome {
            Ok(()) => Outcome::Bound { pod, uid },
            Err(_) => Outcome::Failed { pod, uid },
        });
    }

    fn due_in(&self) -> Option<Duration> {
        let now = self.clock.now();
        let agenda = self.book.next_at().map(|at| until(at, now));
        [agenda, self.decide.due_in()].into_iter().flatten().min()
    }
}

/// How long after `now` that is; nothing if it is before.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

async fn sleep_for(delay: Option<Duration>) {
    match delay {
        // Never zero: time must pass between two looks at something that is due and yet not done.
        Some(delay) => tokio::time::sleep(delay.max(Duration::from_millis(1))).await,
        None => std::future::pending().await,
    }
}

/// A condition whose object is gone needs no other attempt; everything else may go better with a newer view.
fn worth_retrying(kind: &str, key: &ObjectKey, error: &kube::Error) -> bool {
    tracing::debug!("{kind} {key}: condition not written: {}", failure::message(error));
    !is_not_found(error)
}
