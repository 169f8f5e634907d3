//! Wall time on tokio's clock, and detection of steps of the system clock.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use types::{Clock, Timestamp};

/// How often two clocks are compared.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// A larger difference means that the clock was set.
const MAX_DRIFT: Duration = Duration::from_secs(1);

/// The time of an origin plus the time that tokio's clock has counted since, so that timestamps and sleeps agree: on
/// the paused clock both advance together.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Timestamp,
    started: Instant,
}

impl TokioClock {
    /// A clock that shows `origin` now. Needs a tokio runtime.
    pub fn starting_at(origin: Timestamp) -> TokioClock {
        TokioClock { origin, started: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.origin + self.started.elapsed()
    }
}

/// Returns when `clock` was set: since the call it has advanced by more or less than tokio's clock, which all sleeps
/// use. A sleep until a time of `clock` must then be computed again; the delay is at most some seconds. For clocks with
/// the same origin it never returns.
pub async fn wait_for_clock_step(clock: &dyn Clock) {
    let (wall, own) = (clock.now(), Instant::now());
    loop {
        sleep(CHECK_INTERVAL).await;
        let apart = clock.now().duration_since(wall + own.elapsed()).unsigned_abs();
        if apart > MAX_DRIFT {
            tracing::warn!(seconds = apart.as_secs(), "the clock was set");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;

    /// A clock that can be set.
    struct SettableClock(TokioClock, AtomicI64);

    impl Clock for SettableClock {
        fn now(&self) -> Timestamp {
            let step = self.1.load(Ordering::Relaxed);
            let shown = self.0.now().as_second() + step;
            Timestamp::from_second(shown).unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_step_is_noticed_within_seconds() {
        for step in [3600, -3600, 5, 0] {
            let clock =
                SettableClock(TokioClock::starting_at(Timestamp::UNIX_EPOCH + Duration::from_secs(7200)), 0.into());
            let mut set = std::pin::pin!(wait_for_clock_step(&clock));
            assert!(set.as_mut().now_or_never().is_none());
            advance(Duration::from_secs(3600)).await;
            assert!(set.as_mut().now_or_never().is_none(), "no step yet");
            clock.1.store(step, Ordering::Relaxed);
            advance(CHECK_INTERVAL).await;
            assert_eq!(set.now_or_never().is_some(), step != 0, "{step}");
        }
    }
}
