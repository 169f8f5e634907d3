//! How long to wait after a failure.

use std::time::Duration;

use types::Random;

/// Doubles from `initial` up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Backoff {
    /// The delay after `failures` failures in a row; none after zero.
    pub fn delay(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        // Beyond 2^31 the maximum has long been reached, and the shift must not overflow.
        self.initial.saturating_mul(1 << doublings.min(31)).min(self.max)
    }

    /// Like [`Backoff::delay`], but random in its upper half, so that clients that failed together do not retry
    /// together.
    pub fn jittered(&self, failures: u32, random: &Random) -> Duration {
        let delay = self.delay(failures);
        let half = u64::try_from(delay.as_micros() / 2).unwrap_or(u64::MAX - 1);
        delay - Duration::from_micros(random.below(half + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_the_maximum() {
        let backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(1) };
        for (failures, want_ms) in [(0, 0), (1, 200), (2, 400), (3, 800), (4, 1000), (200, 1000)] {
            assert_eq!(backoff.delay(failures), Duration::from_millis(want_ms), "{failures} failures");
        }
    }

    #[test]
    fn jitter_stays_in_the_upper_half() {
        let backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(1) };
        let random = Random::seeded(1);
        let delays: Vec<Duration> = (0..100).map(|_| backoff.jittered(1, &random)).collect();
        assert!(delays.iter().all(|d| (Duration::from_millis(100)..=Duration::from_millis(200)).contains(d)));
        assert!(delays.iter().any(|d| *d != delays[0]), "a hundred delays are not all equal");
    }
}
