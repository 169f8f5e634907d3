//! The core on a thread of its own: one turn in, what was made of it out.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use super::{TurnInput, TurnOutput};

/// A thread that takes turns. It ends when this is dropped, which waits for the turn under way.
pub(super) struct CoreThread {
    /// Both are there until the end.
    turns: Option<Sender<TurnRequest>>,
    thread: Option<JoinHandle<()>>,
}

/// A turn, and who waits for what is made of it.
type TurnRequest = (TurnInput, oneshot::Sender<TurnOutput>);

impl CoreThread {
    /// Starts the thread on which `take` is called.
    pub(super) fn start(take: impl FnMut(TurnInput) -> TurnOutput + Send + 'static) -> CoreThread {
        let (turns, queue) = channel();
        let thread = thread::Builder::new().name("scheduler-core".to_owned()).spawn(move || serve_turns(&queue, take));
        let thread = thread.expect("the system has room for one more thread");
        CoreThread { turns: Some(turns), thread: Some(thread) }
    }

    /// Has the thread take `turn`. Panics with its panic.
    pub(super) async fn run_turn(&mut self, turn: TurnInput) -> TurnOutput {
        let (answer, answered) = oneshot::channel();
        let turns = self.turns.as_ref().expect("turns are taken until the end");
        // A turn that nobody takes is dropped with its answer, which is noticed below.
        let _ = turns.send((turn, answer));
        match answered.await {
            Ok(made) => made,
            Err(_) => self.end_with_its_panic(),
        }
    }

    /// The thread answers every turn, unless it is no more.
    fn end_with_its_panic(&mut self) -> ! {
        let ended = self.thread.take().expect("a thread panics once").join();
        resume_unwind(ended.expect_err("only a panic ends the thread before its last turn"))
    }
}

impl Drop for CoreThread {
    fn drop(&mut self) {
        self.turns = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the scheduler's core panicked in its last turn");
        }
    }
}

fn serve_turns(queue: &Receiver<TurnRequest>, mut take: impl FnMut(TurnInput) -> TurnOutput) {
    for (turn, answer) in queue {
        // Whoever was stopped meanwhile needs no answer; the queue then ends as well.
        let _ = answer.send(take(turn));
    }
}
