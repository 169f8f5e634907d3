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
use scheduler_core::{Change, Core, Decision, NewRun, Outcome, Refusal, Unit, Verdict};
use tokio::time::Instant;

use self::core_thread::CoreThread;
use crate::answers::Asked;
use crate::metrics::Metrics;
use crate::run::Config;

/// For how many groups ways out are looked for in one turn.
const ADVICES_PER_TURN: usize = 2;
/// Of how many decisions of a turn it is kept why they were made so.
const REMEMBERED_PER_TURN: usize = 2;

/// Where the core runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreRuns {
    /// In the scheduler's own time: nothing is waited for, so a simulation stays in step.
    #[default]
    InPlace,
    /// On a thread of its own, which ends with the scheduler. A panic there is a panic of the scheduler.
    OnThread,
}

/// The core, the clock that tells it the time, and what it is yet to be told.
pub(crate) struct Decide {
    seat: Seat,
    clock: Arc<dyn Clock>,
    /// In the order in which it happened; the next turn takes it.
    told: Vec<Told>,
    /// Answered at the end of the next turn.
    asked: Vec<Asked>,
    /// Ways out that were found and not taken from here yet.
    advices: Vec<(Unit, Option<Refusal>)>,
    /// New runs of groups that were not taken from here yet.
    new_runs: Vec<NewRun>,
    /// Whether the next turn may bring a decision, the passing of time aside.
    has_news: bool,
    /// When time alone makes a turn worth it.
    next_at: Option<Timestamp>,
}

enum Seat {
    InPlace(Box<Decider>),
    OnThread(CoreThread),
}

/// Something for the core to know.
#[derive(Clone, Debug)]
enum Told {
    Changed(Change),
    Settled(Outcome, Timestamp),
}

/// What a turn begins with.
#[derive(Debug)]
struct Turn {
    told: Vec<Told>,
    asked: Vec<Asked>,
    now: Timestamp,
}

/// A decision, and what is told of it.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    /// The `schedulerName` of the pods it is about, where that is known.
    pub(crate) profile: String,
    /// How often the unit was tried, this time included.
    pub(crate) tries: u32,
}

/// What a turn ends with.
#[derive(Debug)]
struct Made {
    decisions: Vec<Decided>,
    advices: Vec<(Unit, Option<Refusal>)>,
    new_runs: Vec<NewRun>,
    /// Whether the turn ended because it was long enough.
    more: bool,
    next_at: Option<Timestamp>,
}

impl Decide {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>, metrics: Metrics) -> Decide {
        let core = Core::new(config.core.clone());
        let mut decider = Decider { core, decisions_per_turn: config.decisions_per_turn, metrics };
        let seat = match config.core_runs {
            CoreRuns::InPlace => Seat::InPlace(Box::new(decider)),
            CoreRuns::OnThread => Seat::OnThread(CoreThread::start(move |turn| decider.take(turn))),
        };
        let (told, asked, advices, new_runs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Decide { seat, clock, told, asked, advices, new_runs, has_news: false, next_at: None }
    }

    /// Tells the core what has changed.
    pub(crate) fn observe(&mut self, change: Change) {
        self.told.push(Told::Changed(change));
        self.has_news = true;
    }

    /// Tells the core what became of a bind.
    pub(crate) fn settled(&mut self, outcome: Outcome) {
        // A bind that was taken moves nothing until the watch shows it, and that is news again: not worth a turn.
        self.has_news |= matches!(outcome, Outcome::Failed { .. });
        self.told.push(Told::Settled(outcome, self.clock.now()));
    }

    /// Asks the core something. The answer comes with the next turn.
    pub(crate) fn ask(&mut self, asked: Asked) {
        self.asked.push(asked);
        self.has_news = true;
    }

    /// Refusals with ways out that were found since the last call; none for a group that finds a place by now.
    pub(crate) fn take_advices(&mut self) -> Vec<(Unit, Option<Refusal>)> {
        std::mem::take(&mut self.advices)
    }

    /// Groups that began a new run since the last call. The core has seen then what it was told before the last turn.
    pub(crate) fn take_new_runs(&mut self) -> Vec<NewRun> {
        std::mem::take(&mut self.new_runs)
    }

    /// The decisions to be made now, a bounded number of them; [`Decide::has_news`] tells whether that was all. In
    /// place it waits for nothing.
    pub(crate) async fn turn(&mut self) -> Vec<Decided> {
        let now = self.clock.now();
        if !self.has_news && self.next_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let turn = Turn { told: std::mem::take(&mut self.told), asked: std::mem::take(&mut self.asked), now };
        let made = match &mut self.seat {
            Seat::InPlace(decider) => decider.take(turn),
            Seat::OnThread(thread) => thread.take(turn).await,
        };
        self.has_news = made.more;
        self.next_at = made.next_at;
        self.advices.extend(made.advices);
        self.new_runs.extend(made.new_runs);
        made.decisions
    }

    /// Whether there may be more to decide at once.
    pub(crate) fn has_news(&self) -> bool {
        self.has_news
    }

    /// How long until there may be something to decide without a change.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let at = self.next_at?;
        Some(Duration::try_from(at.duration_since(self.clock.now())).unwrap_or(Duration::ZERO))
    }
}

/// Takes turns with a core.
struct Decider {
    core: Core,
    decisions_per_turn: usize,
    metrics: Metrics,
}

impl Decider {
    fn take(&mut self, Turn { told, asked, now }: Turn) -> Made {
        for told in told {
            match told {
                Told::Changed(change) => self.core.observe(change),
                Told::Settled(outcome, at) => self.core.settled(outcome, at),
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
            decisions.push(Decided { decision, profile, tries });
        }
        let more = decisions.len() == self.decisions_per_turn;
        let (advices, advise_at) = self.explain(asked, now);
        self.metrics.turn_ended(&mut self.core);
        // A unit that was found to fit while it was explained is decided at once.
        let more = more || self.core.has_ready() || advise_at.is_some_and(|at| at <= now);
        let new_runs = self.core.take_new_runs();
        Made { decisions, advices, new_runs, more, next_at: self.core.next_at().into_iter().chain(advise_at).min() }
    }

    /// What is said beyond the decisions, now that they are made: ways out, and answers to whoever asked.
    fn explain(&mut self, asked: Vec<Asked>, now: Timestamp) -> (Vec<(Unit, Option<Refusal>)>, Option<Timestamp>) {
        let advices = self.core.advise(now, ADVICES_PER_TURN);
        self.core.remember(now, REMEMBERED_PER_TURN);
        asked.into_iter().for_each(|asked| asked.answer(&mut self.core));
        (advices, self.core.advise_at())
    }

    fn profile(&self, decision: &Decision) -> String {
        let name = match &decision.verdict {
            Verdict::Bind(placements) => self.core.scheduler_name(&Unit::Pod(placements[0].pod.clone())),
            Verdict::Wait(_) | Verdict::Release(_) => self.core.scheduler_name(&decision.unit),
        };
        name.unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests;
