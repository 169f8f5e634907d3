//! Runs the work on a large body without delaying the other requests of its thread.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};

/// A body of more bytes is worth the change of threads: it is a few milliseconds of work.
pub(crate) const MIN_BODY_BYTES: u64 = 64 << 10;

/// A future that blocks in place: while it is polled, another thread runs the other tasks of this one. On a
/// single-threaded runtime it is polled as it is.
pub(crate) struct BlockInPlace<F>(Pin<Box<F>>);

impl<F> BlockInPlace<F> {
    /// Wraps `future`.
    pub fn new(future: F) -> BlockInPlace<F> {
        BlockInPlace(Box::pin(future))
    }
}

impl<F: Future> Future for BlockInPlace<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let has_threads =
            Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
        match has_threads {
            true => tokio::task::block_in_place(|| self.0.as_mut().poll(context)),
            false => self.0.as_mut().poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// One worker, blocked until another task has run.
    #[test]
    fn other_tasks_run_while_a_large_request_is_handled() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime starts");
        let (done, other_is_done) = mpsc::channel();
        let heavy = runtime.spawn(BlockInPlace::new(async move {
            tokio::spawn(async move { done.send(()).expect("the receiver exists") });
            // The timeout only ends a failing test.
            other_is_done.recv_timeout(Duration::from_secs(60)).is_ok()
        }));
        assert!(runtime.block_on(heavy).expect("no panic"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_threaded_runtime_polls_the_future_as_it_is() {
        let output = BlockInPlace::new(async { 7 }).await;
        assert_eq!(output, 7);
    }
}
