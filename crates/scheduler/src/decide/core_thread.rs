//! The core on its own thread: one turn in, its output back.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use super::{TurnInput, TurnOutput};

/// A thread that runs turns. Dropping this waits for the present turn and ends the thread.
pub(super) struct CoreThread {
    /// `Some` until drop, like `thread`.
    turns: Option<Sender<TurnRequest>>,
    thread: Option<JoinHandle<()>>,
}

/// A turn, and the channel for its output.
type TurnRequest = (TurnInput, oneshot::Sender<TurnOutput>);

impl CoreThread {
    /// Starts the thread on which `run` is called.
    pub(super) fn start(run: impl FnMut(TurnInput) -> TurnOutput + Send + 'static) -> CoreThread {
        let (turns, queue) = channel();
        let thread = thread::Builder::new().name("scheduler-core".to_owned()).spawn(move || serve_turns(&queue, run));
        let thread = thread.expect("the system can start one more thread");
        CoreThread { turns: Some(turns), thread: Some(thread) }
    }

    /// Runs `turn` on the thread. Panics with its panic.
    pub(super) async fn run_turn(&mut self, turn: TurnInput) -> TurnOutput {
        let (sender, output) = oneshot::channel();
        let turns = self.turns.as_ref().expect("the channel exists until drop");
        // If the thread has ended, the sender is dropped with the turn, and the receiver gets an error below.
        let _ = turns.send((turn, sender));
        match output.await {
            Ok(output) => output,
            Err(_) => self.resume_panic(),
        }
    }

    /// Continues the thread's panic here. Only a panic leaves a turn without output.
    fn resume_panic(&mut self) -> ! {
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

fn serve_turns(queue: &Receiver<TurnRequest>, mut run: impl FnMut(TurnInput) -> TurnOutput) {
    for (turn, output) in queue {
        // If the scheduler was stopped meanwhile, the queue ends as well.
        let _ = output.send(run(turn));
    }
}
