//! Timestamps in a third of the memory of an optional `Timestamp`. Queues and pods have many.

use std::time::Duration;

use types::Timestamp;

/// The time after `pause`, or the last representable time.
pub(crate) fn saturating_add(time: Timestamp, pause: Duration) -> Timestamp {
    time.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// A time in microseconds, finer than the API's creation and transition times; or never, which is before all times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CompactTimestamp(i64);

impl CompactTimestamp {
    /// It has not happened, or its time is unknown.
    pub(crate) const NEVER: CompactTimestamp = CompactTimestamp(i64::MIN);

    /// The time, if there is one.
    pub(crate) fn time(self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.0).ok()
    }
}

impl From<Option<Timestamp>> for CompactTimestamp {
    fn from(time: Option<Timestamp>) -> CompactTimestamp {
        time.map_or(CompactTimestamp::NEVER, |time| CompactTimestamp(time.as_microsecond()))
    }
}

impl Default for CompactTimestamp {
    fn default() -> CompactTimestamp {
        CompactTimestamp::NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_saturates_at_the_last_time() {
        assert_eq!(saturating_add(Timestamp::UNIX_EPOCH, Duration::MAX), Timestamp::MAX);
        assert_eq!(saturating_add(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(saturating_add(Timestamp::UNIX_EPOCH, Duration::from_secs(7)).as_second(), 7);
    }

    #[test]
    fn compact_timestamps_order_as_their_times() {
        let second = |second| Timestamp::from_second(second).ok();
        let times = [None, Some(Timestamp::MIN), second(-1), second(0), second(1), second(4_000_000_000)];
        let compact = times.map(CompactTimestamp::from);
        assert!(compact.is_sorted_by(|one, next| one < next), "{compact:?}");
        for (time, one) in times.into_iter().zip(compact) {
            assert_eq!(one.time().map(|time| time.as_second()), time.map(|time| time.as_second()));
        }
    }
}
