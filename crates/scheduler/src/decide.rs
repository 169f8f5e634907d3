//! Calls the core, one turn at a time: all new changes in, decisions out.
//!
//! The core is called in place, or it owns a thread and is reached by a channel. In simulation no code may wait for
//! another thread, because the paused clock jumps meanwhile. Elsewhere a long decision must not delay the server and the
//! control loops that share a thread with the shell. Both modes look the same to the shell: all changes since the last
//! turn are one message, and all decisions of the turn are one message back.

mod core_thread; // the core on its own thread

use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Timestamp};
use scheduler_core::{BindOutcome, ClusterChange, Core, Decision, DecisionAction, NewRun, Refusal, Unit};
use tokio::time::Instant;

use self::core_thread::CoreThread;
use crate::handle::SchedulerRequest;
use crate::metrics::Metrics;
use crate::run::Config;

/// How many groups get a search for remedies in one turn.
const MAX_REMEDIES_PER_TURN: usize = 2;
/// How many placement reports are stored in one turn.
const MAX_REPORTS_PER_TURN: usize = 2;

/// Where the core runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreMode {
    /// In the scheduler's own task, without waiting, so a simulation stays deterministic.
    #[default]
    InPlace,
    /// On its own thread, which ends with the scheduler. A panic there is a panic of the scheduler.
    OnThread,
}

/// The core, its clock, and the inputs of the next turn.
pub(crate) struct CoreDriver {
    runner: CoreRunner,
    clock: Arc<dyn Clock>,
    /// In the order of occurrence; the next turn takes them.
    inputs: Vec<CoreMessage>,
    /// Handled at the end of the next turn.
    requests: Vec<SchedulerRequest>,
    /// Refusals with remedies, until [`CoreDriver::take_remedies`].
    remedies: Vec<(Unit, Option<Refusal>)>,
    /// New runs of groups, until [`CoreDriver::take_new_runs`].
    new_runs: Vec<NewRun>,
    /// Whether the next turn may bring a decision, time aside.
    has_work: bool,
    /// When a turn is due without any change.
    next_at: Option<Timestamp>,
}

enum CoreRunner {
    InPlace(Box<TurnRunner>),
    OnThread(CoreThread),
}

/// One input of the core.
#[derive(Clone, Debug)]
enum CoreMessage {
    Changed(ClusterChange),
    BindSettled(BindOutcome, Timestamp),
}

/// Input of a turn.
#[derive(Debug)]
struct TurnInput {
    inputs: Vec<CoreMessage>,
    requests: Vec<SchedulerRequest>,
    now: Timestamp,
}

/// A decision, with what its metrics need.
#[derive(Clone, Debug)]
pub(crate) struct DecisionRecord {
    pub(crate) decision: Decision,
    /// The `schedulerName` of its pods, if known.
    pub(crate) profile: String,
    /// How often the unit was tried, this time included.
    pub(crate) tries: u32,
}

/// Output of a turn.
#[derive(Debug)]
struct TurnOutput {
    decisions: Vec<DecisionRecord>,
    remedies: Vec<(Unit, Option<Refusal>)>,
    new_runs: Vec<NewRun>,
    /// Whether the turn reached its limit, or another decision is pending.
    more: bool,
    next_at: Option<Timestamp>,
}

impl CoreDriver {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>, metrics: Metrics) -> CoreDriver {
        let core = Core::new(config.core.clone());
        let mut runner = TurnRunner { core, decisions_per_turn: config.max_decisions_per_turn, metrics };
        let runner = match config.core_mode {
            CoreMode::InPlace => CoreRunner::InPlace(Box::new(runner)),
            CoreMode::OnThread => CoreRunner::OnThread(CoreThread::start(move |turn| runner.run_turn(turn))),
        };
        CoreDriver {
            runner,
            clock,
            inputs: Vec::new(),
            requests: Vec::new(),
            remedies: Vec::new(),
            new_runs: Vec::new(),
            has_work: false,
            next_at: None,
        }
    }

    /// Passes a change to the core with the next turn.
    pub(crate) fn observe(&mut self, change: ClusterChange) {
        self.inputs.push(CoreMessage::Changed(change));
        self.has_work = true;
    }

    /// Passes the result of a bind to the core with the next turn.
    pub(crate) fn settled(&mut self, outcome: BindOutcome) {
        // A successful bind changes nothing until the watch shows it, and that is a change again: no turn is needed.
        self.has_work |= matches!(outcome, BindOutcome::Failed { .. });
        self.inputs.push(CoreMessage::BindSettled(outcome, self.clock.now()));
    }

    /// Passes a request to the core. The response comes with the next turn.
    pub(crate) fn request(&mut self, request: SchedulerRequest) {
        self.requests.push(request);
        self.has_work = true;
    }

    /// Refusals with remedies found since the last call; `None` for a group that fits by now.
    pub(crate) fn take_remedies(&mut self) -> Vec<(Unit, Option<Refusal>)> {
        std::mem::take(&mut self.remedies)
    }

    /// Groups that began a new run since the last call, as of the inputs of the last turn.
    pub(crate) fn take_new_runs(&mut self) -> Vec<NewRun> {
        std::mem::take(&mut self.new_runs)
    }

    /// Makes a bounded number of decisions; [`CoreDriver::has_work`] is true if more may follow. In place it does not
    /// wait.
    pub(crate) async fn run_turn(&mut self) -> Vec<DecisionRecord> {
        let now = self.clock.now();
        if !self.has_work && self.next_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let turn =
            TurnInput { inputs: std::mem::take(&mut self.inputs), requests: std::mem::take(&mut self.requests), now };
        let output = match &mut self.runner {
            CoreRunner::InPlace(runner) => runner.run_turn(turn),
            CoreRunner::OnThread(thread) => thread.run_turn(turn).await,
        };
        self.has_work = output.more;
        self.next_at = output.next_at;
        self.remedies.extend(output.remedies);
        self.new_runs.extend(output.new_runs);
        output.decisions
    }

    /// Whether a turn without delay may bring more decisions.
    pub(crate) fn has_work(&self) -> bool {
        self.has_work
    }

    /// How long until a turn is due without any change.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let at = self.next_at?;
        Some(Duration::try_from(at.duration_since(self.clock.now())).unwrap_or(Duration::ZERO))
    }
}

/// Runs turns of the core.
struct TurnRunner {
    core: Core,
    decisions_per_turn: usize,
    metrics: Metrics,
}

impl TurnRunner {
    fn run_turn(&mut self, TurnInput { inputs, requests, now }: TurnInput) -> TurnOutput {
        for input in inputs {
            match input {
                CoreMessage::Changed(change) => self.core.observe(change),
                CoreMessage::BindSettled(outcome, at) => self.core.settled(outcome, at),
            }
        }
        let mut decisions = Vec::new();
        while decisions.len() < self.decisions_per_turn {
            // Tokio's clock, which is paused in a simulation: otherwise the metrics of two runs would differ.
            let started = Instant::now();
            let Some(decision) = self.core.next(now) else { break };
            let took = started.elapsed();
            let (profile, tries) = (self.profile(&decision), self.core.tries_count(&decision.unit));
            self.metrics.decided(&decision, &profile, took);
            decisions.push(DecisionRecord { decision, profile, tries });
        }
        let more = decisions.len() == self.decisions_per_turn;
        let (remedies, remedies_at) = self.explain(requests, now);
        self.metrics.turn_ended(&mut self.core);
        // A unit that was found to fit while it was explained is decided without delay.
        let more = more || self.core.has_ready() || remedies_at.is_some_and(|at| at <= now);
        let new_runs = self.core.take_new_runs();
        TurnOutput {
            decisions,
            remedies,
            new_runs,
            more,
            next_at: self.core.next_at().into_iter().chain(remedies_at).min(),
        }
    }

    /// Work after the decisions: remedies, placement reports, and requests.
    fn explain(
        &mut self,
        requests: Vec<SchedulerRequest>,
        now: Timestamp,
    ) -> (Vec<(Unit, Option<Refusal>)>, Option<Timestamp>) {
        let remedies = self.core.find_remedies(now, MAX_REMEDIES_PER_TURN);
        self.core.cache_placement_reports(now, MAX_REPORTS_PER_TURN);
        requests.into_iter().for_each(|request| request.respond(&mut self.core));
        (remedies, self.core.remedies_due_at())
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
