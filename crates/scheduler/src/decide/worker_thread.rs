//! A function on its own thread: one input in, one output back.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

/// A thread that calls one function. Dropping this waits for the present call and ends the thread.
pub(super) struct WorkerThread<I, O> {
    /// `Some` until drop, like `thread`.
    calls: Option<Sender<Call<I, O>>>,
    thread: Option<JoinHandle<()>>,
}

/// An input, and the channel for its output.
type Call<I, O> = (I, oneshot::Sender<O>);

impl<I: Send + 'static, O: Send + 'static> WorkerThread<I, O> {
    /// Starts the thread on which `run` is called.
    pub(super) fn start(name: &str, run: impl FnMut(I) -> O + Send + 'static) -> WorkerThread<I, O> {
        let (calls, queue) = channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || serve_calls(&queue, run));
        let thread = thread.expect("the system can start one more thread");
        WorkerThread { calls: Some(calls), thread: Some(thread) }
    }

    /// Calls the function with `input`, without waiting. Await the output with [`output`](Self::output).
    pub(super) fn call(&self, input: I) -> oneshot::Receiver<O> {
        let (sender, output) = oneshot::channel();
        let calls = self.calls.as_ref().expect("the channel exists until drop");
        // If the thread has ended, the sender is dropped with the input, and the receiver gets an error.
        let _ = calls.send((input, sender));
        output
    }

    /// The output of a call. Panics with the thread's panic. Dropping the future loses nothing.
    pub(super) async fn output(&mut self, call: &mut oneshot::Receiver<O>) -> O {
        match call.await {
            Ok(output) => output,
            Err(_) => self.resume_panic(),
        }
    }

    /// Continues the thread's panic here. Only a panic leaves a call without output.
    fn resume_panic(&mut self) -> ! {
        let ended = self.thread.take().expect("a thread panics once").join();
        resume_unwind(ended.expect_err("only a panic ends the thread before its last call"))
    }
}

impl<I, O> Drop for WorkerThread<I, O> {
    fn drop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread of the scheduler panicked in its last call");
        }
    }
}

fn serve_calls<I, O>(queue: &Receiver<Call<I, O>>, mut run: impl FnMut(I) -> O) {
    for (input, output) in queue {
        // If the scheduler was stopped meanwhile, the queue ends as well.
        let _ = output.send(run(input));
    }
}
