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
use scheduler_core::{Change, Core, Decision, Outcome};
use tokio::time::Instant;

use self::core_thread::CoreThread;
use crate::metrics::Metrics;
use crate::run::Config;

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
    now: Timestamp,
}

/// What a turn ends with.
#[derive(Debug)]
struct Made {
    decisions: Vec<Decision>,
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
        Decide { seat, clock, told: Vec::new(), has_news: false, next_at: None }
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

    /// The decisions to be made now, a bounded number of them; [`Decide::has_news`] tells whether that was all. In
    /// place it waits for nothing.
    pub(crate) async fn turn(&mut self) -> Vec<Decision> {
        let now = self.clock.now();
        if !self.has_news && self.next_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let turn = Turn { told: std::mem::take(&mut self.told), now };
        let made = match &mut self.seat {
            Seat::InPlace(decider) => decider.take(turn),
            Seat::OnThread(thread) => thread.take(turn).await,
        };
        self.has_news = made.more;
        self.next_at = made.next_at;
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
    fn take(&mut self, Turn { told, now }: Turn) -> Made {
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
            self.metrics.decided(&decision, started.elapsed());
            decisions.push(decision);
        }
        let more = decisions.len() == self.decisions_per_turn;
        Made { decisions, more, next_at: self.core.next_at() }
    }
}

#[cfg(test)]
mod tests;
