//! Calls the core, one turn at a time: all new changes in, decisions out.
//!
//! The core is called in place, or it owns a thread and is reached by a channel. In simulation no code may wait for
//! another thread, because the paused clock jumps meanwhile. Elsewhere a long decision must not delay the server and the
//! control loops that share a thread with the shell. Both modes look the same to the shell: all changes since the last
//! turn are one message, and all decisions of the turn are one message back.
//!
//! Explanations and searches for remedies never delay a decision: on threads they have one of their own and read a fork
//! of the core, in place they come after the decisions of a turn.

mod worker_thread; // the core on its own thread, and explanations on another
mod explain_batch; // explanations that share one fork

use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Timestamp};
use futures::FutureExt;
use scheduler_core::{BindOutcome, ClusterChange, Core, Decision, DecisionAction, NewRun, Refusal, Unit};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::explain_batch::{ExplainBatch, ExplainResult};
use self::worker_thread::WorkerThread;
use crate::handle::SchedulerRequest;
use crate::metrics::Metrics;
use crate::run::Config;

/// Requests that wait for the next batch. Further ones wait in the channel.
const MAX_WAITING_REQUESTS: usize = 16;

/// Where the core runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreMode {
    /// In the scheduler's own task, without waiting, so a simulation stays deterministic.
    #[default]
    InPlace,
    /// On its own thread, and explanations on another. They end with the scheduler. A panic there is a panic of the
    /// scheduler.
    OnThread,
}

/// The core, its clock, and the inputs of the next turn.
pub(crate) struct CoreDriver {
    runner: CoreRunner,
    clock: Arc<dyn Clock>,
    /// In the order of occurrence; the next turn takes them.
    inputs: Vec<CoreMessage>,
    /// For the next batch of explanations.
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
    OnThread {
        core: WorkerThread<TurnInput, TurnOutput>,
        explainer: WorkerThread<ExplainBatch, Vec<ExplainResult>>,
        /// The batch that the explainer executes.
        batch: Option<oneshot::Receiver<Vec<ExplainResult>>>,
    },
}

/// One input of the core.
#[derive(Debug)]
enum CoreMessage {
    Changed(ClusterChange),
    BindSettled(BindOutcome, Timestamp),
    Explained(Vec<ExplainResult>),
}

/// Input of a turn.
#[derive(Debug)]
struct TurnInput {
    inputs: Vec<CoreMessage>,
    /// The requests of a new batch; none while another batch is executed.
    requests: Option<Vec<SchedulerRequest>>,
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
    /// To be executed.
    batch: Option<ExplainBatch>,
    /// Whether the turn reached its limit, or another decision is pending.
    more: bool,
    next_at: Option<Timestamp>,
}

impl CoreDriver {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>, metrics: Metrics) -> CoreDriver {
        CoreDriver::with_explainer(config, clock, metrics, ExplainBatch::run)
    }

    /// `explain` executes batches on the explainer's thread.
    fn with_explainer(
        config: &Config,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
        explain: impl FnMut(ExplainBatch) -> Vec<ExplainResult> + Send + 'static,
    ) -> CoreDriver {
        let core = Core::new(config.core.clone());
        let mut runner = TurnRunner { core, decisions_per_turn: config.max_decisions_per_turn, metrics };
        let runner = match config.core_mode {
            CoreMode::InPlace => CoreRunner::InPlace(Box::new(runner)),
            CoreMode::OnThread => CoreRunner::OnThread {
                core: WorkerThread::start("scheduler-core", move |turn| runner.run_turn(turn)),
                explainer: WorkerThread::start("explanations", explain),
                batch: None,
            },
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

    /// Whether [`CoreDriver::request`] takes one more request now. If not, it does after the present batch.
    pub(crate) fn accepts_requests(&self) -> bool {
        self.requests.len() < MAX_WAITING_REQUESTS
    }

    /// Adds a request to the next batch of explanations. A batch is made by a turn, when the batch before is executed.
    pub(crate) fn request(&mut self, request: SchedulerRequest) {
        self.requests.push(request);
        self.has_work |= !self.is_explaining();
    }

    /// Waits for the end of the batch that is executed, and passes its results to the core with the next turn. Without
    /// a batch it waits forever. Dropping the future loses nothing.
    pub(crate) async fn explained(&mut self) {
        let CoreRunner::OnThread { explainer, batch, .. } = &mut self.runner else {
            return std::future::pending().await;
        };
        let Some(call) = batch else { return std::future::pending().await };
        let results = explainer.output(call).await;
        *batch = None;
        self.inputs.push(CoreMessage::Explained(results));
        self.has_work = true;
    }

    fn is_explaining(&self) -> bool {
        matches!(&self.runner, CoreRunner::OnThread { batch: Some(_), .. })
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
        // Without waiting: the batch may have ended while the shell was busy.
        let _ = self.explained().now_or_never();
        let now = self.clock.now();
        if !self.has_work && self.next_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let requests = (!self.is_explaining()).then(|| std::mem::take(&mut self.requests));
        let turn = TurnInput { inputs: std::mem::take(&mut self.inputs), requests, now };
        let output = match &mut self.runner {
            CoreRunner::InPlace(runner) => runner.run_turn_in_place(turn),
            CoreRunner::OnThread { core, explainer, batch } => {
                let mut call = core.call(turn);
                let mut output = core.output(&mut call).await;
                *batch = output.batch.take().map(|next| explainer.call(next)).or(batch.take());
                output
            }
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
    /// A turn whose batch is executed elsewhere.
    fn run_turn(&mut self, turn: TurnInput) -> TurnOutput {
        let output = self.decide(turn);
        self.metrics.turn_ended(&mut self.core);
        output
    }

    /// A turn with the explanations, after the decisions.
    fn run_turn_in_place(&mut self, turn: TurnInput) -> TurnOutput {
        let now = turn.now;
        let mut output = self.decide(turn);
        if let Some(batch) = output.batch.take() {
            output.remedies.extend(explain_batch::accept_results(&mut self.core, batch.run()));
            let remedies_at = self.core.remedies_due_at();
            output.more |= self.core.has_ready() || remedies_at.is_some_and(|at| at <= now);
            output.next_at = self.core.next_at().into_iter().chain(remedies_at).min();
        }
        self.metrics.turn_ended(&mut self.core);
        output
    }

    /// A turn without its explanations.
    fn decide(&mut self, turn: TurnInput) -> TurnOutput {
        let started = Instant::now();
        let output = self.observe_and_decide(turn);
        self.metrics.core_ran(started.elapsed());
        output
    }

    fn observe_and_decide(&mut self, TurnInput { inputs, requests, now }: TurnInput) -> TurnOutput {
        let mut results = Vec::new();
        for input in inputs {
            match input {
                CoreMessage::Changed(change) => self.core.observe(change),
                CoreMessage::BindSettled(outcome, at) => self.core.settled(outcome, at),
                CoreMessage::Explained(explained) => results.extend(explained),
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
        // After the decisions, because what these have refused again has a newer refusal.
        let remedies = explain_batch::accept_results(&mut self.core, results);
        // A unit that was found to fit is decided without delay.
        let more = decisions.len() == self.decisions_per_turn || self.core.has_ready();
        let may_explain = requests.is_some();
        let batch = requests.and_then(|requests| ExplainBatch::collect(&mut self.core, requests, now));
        let new_runs = self.core.take_new_runs();
        // While a batch is executed, no other is made. Its end causes a turn.
        let remedies_at = self.core.remedies_due_at().filter(|_| may_explain && batch.is_none());
        let next_at = self.core.next_at().into_iter().chain(remedies_at).min();
        TurnOutput { decisions, remedies, new_runs, batch, more, next_at }
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
