//! When something was, in a third of the room that an optional time takes. Queues and pods hold many.

use std::time::Duration;

use types::Timestamp;

/// The time so much later; the last there is where that is beyond all times.
pub(crate) fn saturating_add(time: Timestamp, pause: Duration) -> Timestamp {
    time.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// A time to the microsecond, finer than the API tells when objects are made and conditions change; or never, which is
/// before all times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CompactTimestamp(i64);

impl CompactTimestamp {
    /// It has not been, or nobody told when.
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
    fn there_is_no_time_after_the_last() {
        assert_eq!(saturating_add(Timestamp::UNIX_EPOCH, Duration::MAX), Timestamp::MAX);
        assert_eq!(saturating_add(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(saturating_add(Timestamp::UNIX_EPOCH, Duration::from_secs(7)).as_second(), 7);
    }

    #[test]
    fn moments_order_as_the_times_they_are() {
        let second = |second| Timestamp::from_second(second).ok();
        let times = [None, Some(Timestamp::MIN), second(-1), second(0), second(1), second(4_000_000_000)];
        let moments = times.map(CompactTimestamp::from);
        assert!(moments.is_sorted_by(|one, next| one < next), "{moments:?}");
        for (time, moment) in times.into_iter().zip(moments) {
            assert_eq!(moment.time().map(|time| time.as_second()), time.map(|time| time.as_second()));
        }
    }
}
