//! Work on a large body, which must not keep the other requests of its thread waiting.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};

/// A body of more bytes than this is worth the change of threads: a few milliseconds of work.
pub(crate) const MIN_BODY_BYTES: u64 = 64 << 10;

/// A future during whose steps another thread takes over what else this one would do. On a runtime of one thread it is
/// the future as it is.
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

    /// One worker, busy with a step that lasts until another task has run.
    #[test]
    fn other_tasks_run_while_a_large_request_is_worked_on() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let (done, other_is_done) = mpsc::channel();
        let heavy = runtime.spawn(BlockInPlace::new(async move {
            tokio::spawn(async move { done.send(()).expect("somebody waits") });
            // The limit only ends the test where it fails.
            other_is_done.recv_timeout(Duration::from_secs(60)).is_ok()
        }));
        assert!(runtime.block_on(heavy).expect("no panic"));
    }

    #[tokio::test(start_paused = true)]
    async fn on_one_thread_it_is_the_future_as_it_is() {
        let answer = BlockInPlace::new(async { 7 }).await;
        assert_eq!(answer, 7);
    }
}
