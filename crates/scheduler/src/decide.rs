//! The seam to the core: what is new goes in, decisions come out, a turn at a time.
//!
//! The core is called in place, or it owns a thread and is reached by a channel. In simulation nothing may wait for
//! another thread, because the paused clock jumps meanwhile. Elsewhere a long decision must not hold up the server and
//! the control loops that share a thread with the shell. The shell cannot tell the two apart: all that is new since the
//! last turn goes over in one message, and all decisions of the turn come back in one.

mod core_thread; // the core on a thread of its own

use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Timestamp};
use scheduler_core::{BindOutcome, ClusterChange, Core, Decision, DecisionAction, NewRun, Refusal, Unit};
use tokio::time::Instant;

use self::core_thread::CoreThread;
use crate::handle::SchedulerRequest;
use crate::metrics::Metrics;
use crate::run::Config;

/// For how many groups ways out are looked for in one turn.
const MAX_REMEDIES_PER_TURN: usize = 2;
/// Of how many decisions of a turn it is kept why they were made so.
const MAX_REPORTS_PER_TURN: usize = 2;

/// Where the core runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreMode {
    /// In the scheduler's own time: nothing is waited for, so a simulation stays in step.
    #[default]
    InPlace,
    /// On a thread of its own, which ends with the scheduler. A panic there is a panic of the scheduler.
    OnThread,
}

/// The core, the clock that tells it the time, and what it is yet to be told.
pub(crate) struct CoreDriver {
    runner: CoreRunner,
    clock: Arc<dyn Clock>,
    /// In the order in which it happened; the next turn takes it.
    inputs: Vec<CoreMessage>,
    /// Answered at the end of the next turn.
    requests: Vec<SchedulerRequest>,
    /// Ways out that were found and not taken from here yet.
    remedies: Vec<(Unit, Option<Refusal>)>,
    /// New runs of groups that were not taken from here yet.
    new_runs: Vec<NewRun>,
    /// Whether the next turn may bring a decision, the passing of time aside.
    has_work: bool,
    /// When time alone makes a turn worth it.
    next_at: Option<Timestamp>,
}

enum CoreRunner {
    InPlace(Box<TurnRunner>),
    OnThread(CoreThread),
}

/// Something for the core to know.
#[derive(Clone, Debug)]
enum CoreMessage {
    Changed(ClusterChange),
    BindSettled(BindOutcome, Timestamp),
}

/// What a turn begins with.
#[derive(Debug)]
struct TurnInput {
    inputs: Vec<CoreMessage>,
    requests: Vec<SchedulerRequest>,
    now: Timestamp,
}

/// A decision, and what is told of it.
#[derive(Clone, Debug)]
pub(crate) struct DecisionRecord {
    pub(crate) decision: Decision,
    /// The `schedulerName` of the pods it is about, where that is known.
    pub(crate) profile: String,
    /// How often the unit was tried, this time included.
    pub(crate) tries: u32,
}

/// What a turn ends with.
#[derive(Debug)]
struct TurnOutput {
    decisions: Vec<DecisionRecord>,
    remedies: Vec<(Unit, Option<Refusal>)>,
    new_runs: Vec<NewRun>,
    /// Whether the turn ended because it was long enough.
    more: bool,
    next_at: Option<Timestamp>,
}

impl CoreDriver {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>, metrics: Metrics) -> CoreDriver {
        let core = Core::new(config.core.clone());
        let mut decider = TurnRunner { core, decisions_per_turn: config.max_decisions_per_turn, metrics };
        let seat = match config.core_mode {
            CoreMode::InPlace => CoreRunner::InPlace(Box::new(decider)),
            CoreMode::OnThread => CoreRunner::OnThread(CoreThread::start(move |turn| decider.run_turn(turn))),
        };
        let (told, asked, advices, new_runs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        CoreDriver {
            runner: seat,
            clock,
            inputs: told,
            requests: asked,
            remedies: advices,
            new_runs,
            has_work: false,
            next_at: None,
        }
    }

    /// Tells the core what has changed.
    pub(crate) fn observe(&mut self, change: ClusterChange) {
        self.inputs.push(CoreMessage::Changed(change));
        self.has_work = true;
    }

    /// Tells the core what became of a bind.
    pub(crate) fn settled(&mut self, outcome: BindOutcome) {
        // A bind that was taken moves nothing until the watch shows it, and that is news again: not worth a turn.
        self.has_work |= matches!(outcome, BindOutcome::Failed { .. });
        self.inputs.push(CoreMessage::BindSettled(outcome, self.clock.now()));
    }

    /// Asks the core something. The answer comes with the next turn.
    pub(crate) fn request(&mut self, asked: SchedulerRequest) {
        self.requests.push(asked);
        self.has_work = true;
    }

    /// Refusals with ways out that were found since the last call; none for a group that finds a place by now.
    pub(crate) fn take_remedies(&mut self) -> Vec<(Unit, Option<Refusal>)> {
        std::mem::take(&mut self.remedies)
    }

    /// Groups that began a new run since the last call. The core has seen then what it was told before the last turn.
    pub(crate) fn take_new_runs(&mut self) -> Vec<NewRun> {
        std::mem::take(&mut self.new_runs)
    }

    /// The decisions to be made now, a bounded number of them; [`Decide::has_news`] tells whether that was all. In
    /// place it waits for nothing.
    pub(crate) async fn run_turn(&mut self) -> Vec<DecisionRecord> {
        let now = self.clock.now();
        if !self.has_work && self.next_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let turn =
            TurnInput { inputs: std::mem::take(&mut self.inputs), requests: std::mem::take(&mut self.requests), now };
        let made = match &mut self.runner {
            CoreRunner::InPlace(decider) => decider.run_turn(turn),
            CoreRunner::OnThread(thread) => thread.run_turn(turn).await,
        };
        self.has_work = made.more;
        self.next_at = made.next_at;
        self.remedies.extend(made.remedies);
        self.new_runs.extend(made.new_runs);
        made.decisions
    }

    /// Whether there may be more to decide at once.
    pub(crate) fn has_work(&self) -> bool {
        self.has_work
    }

    /// How long until there may be something to decide without a change.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let at = self.next_at?;
        Some(Duration::try_from(at.duration_since(self.clock.now())).unwrap_or(Duration::ZERO))
    }
}

/// Takes turns with a core.
struct TurnRunner {
    core: Core,
    decisions_per_turn: usize,
    metrics: Metrics,
}

impl TurnRunner {
    fn run_turn(&mut self, TurnInput { inputs: told, requests: asked, now }: TurnInput) -> TurnOutput {
        for told in told {
            match told {
                CoreMessage::Changed(change) => self.core.observe(change),
                CoreMessage::BindSettled(outcome, at) => self.core.settled(outcome, at),
            }
        }
        let mut decisions = Vec::new();
        while decisions.len() < self.decisions_per_turn {
            // Tokio's clock, which in a simulation stands still: a figure that differs would make two runs differ.
            let started = Instant::now();
            let Some(decision) = self.core.next(now) else { break };
            let took = started.elapsed();
            let (profile, tries) = (self.profile(&decision), self.core.tries_count(&decision.unit));
            self.metrics.decided(&decision, &profile, took);
            decisions.push(DecisionRecord { decision, profile, tries });
        }
        let more = decisions.len() == self.decisions_per_turn;
        let (advices, advise_at) = self.explain(asked, now);
        self.metrics.turn_ended(&mut self.core);
        // A unit that was found to fit while it was explained is decided at once.
        let more = more || self.core.has_ready() || advise_at.is_some_and(|at| at <= now);
        let new_runs = self.core.take_new_runs();
        TurnOutput {
            decisions,
            remedies: advices,
            new_runs,
            more,
            next_at: self.core.next_at().into_iter().chain(advise_at).min(),
        }
    }

    /// What is said beyond the decisions, now that they are made: ways out, and answers to whoever asked.
    fn explain(
        &mut self,
        asked: Vec<SchedulerRequest>,
        now: Timestamp,
    ) -> (Vec<(Unit, Option<Refusal>)>, Option<Timestamp>) {
        let advices = self.core.find_remedies(now, MAX_REMEDIES_PER_TURN);
        self.core.cache_placement_reports(now, MAX_REPORTS_PER_TURN);
        asked.into_iter().for_each(|asked| asked.respond(&mut self.core));
        (advices, self.core.remedies_due_at())
    }

    fn profile(&self, decision: &Decision) -> String {
        let name = match &decision.action {
            DecisionAction::Bind(placements) => self.core.scheduler_name(&Unit::Pod(placements[0].pod.clone())),
            DecisionAction::Wait(_) | DecisionAction::Release(_) => self.core.scheduler_name(&decision.unit),
        };
        name.unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests;
