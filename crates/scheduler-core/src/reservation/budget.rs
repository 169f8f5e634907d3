//! How much capacity reservations may keep idle over time, and how soon one may follow another.
//!
//! One group after another may starve, each with a right to a reservation. Without a limit for all of them together
//! their reservations would follow each other without a gap, and pods that fit would wait as long as there are such
//! groups.

use std::time::Duration;

use types::Timestamp;

use crate::cluster::compact_timestamp::saturating_add;

/// The share of the cluster that may be kept idle in the long run, in millionths.
const SHARE: i64 = 100_000;
/// The longest pause between the end of a reservation and the next one, unless the budget requires a longer one.
const MAX_GAP: Duration = Duration::from_secs(60);
/// The initial balance: an hour's share. At most four times as much is saved.
const INITIAL_BALANCE: i64 = SHARE * 3_600_000_000;
const MAX_BALANCE: i64 = 4 * INITIAL_BALANCE;

/// What reservations may still spend, in millionths of the cluster × microseconds.
#[derive(Debug)]
pub(crate) struct ReservationBudget {
    /// A negative balance is a debt, and no reservation begins.
    balance: i64,
    /// Until when time was charged.
    counted_until: Option<Timestamp>,
    /// The end of the pause after the last reservation.
    gap_until: Option<Timestamp>,
}

impl Default for ReservationBudget {
    fn default() -> ReservationBudget {
        ReservationBudget { balance: INITIAL_BALANCE, counted_until: None, gap_until: None }
    }
}

impl ReservationBudget {
    /// Charges the time up to now, during which `idle` millionths of the cluster were kept idle.
    pub(crate) fn charge(&mut self, now: Timestamp, idle: i64) {
        let since = *self.counted_until.get_or_insert(now);
        let micros = i64::try_from(now.duration_since(since).as_micros()).unwrap_or(i64::MAX);
        if micros > 0 {
            self.counted_until = Some(now);
            self.balance = self.balance.saturating_add(micros.saturating_mul(SHARE - idle)).min(MAX_BALANCE);
        }
    }

    /// A reservation that started at `start` ends. The pause for other units is as long as it lasted.
    pub(crate) fn reservation_ended(&mut self, start: Timestamp, now: Timestamp) {
        let lasted = now.duration_since(start).unsigned_abs().min(MAX_GAP);
        self.gap_until = Some(saturating_add(now, lasted));
    }

    /// When the next reservation may begin.
    pub(crate) fn opens_at(&self) -> Timestamp {
        let paid_at = self.counted_until.filter(|_| self.balance < 0).map(|at| {
            let micros = self.balance.unsigned_abs().div_ceil(SHARE.unsigned_abs());
            saturating_add(at, Duration::from_micros(micros))
        });
        paid_at.into_iter().chain(self.gap_until).max().unwrap_or(Timestamp::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a representable time")
    }

    #[test]
    fn what_is_spent_is_earned_again_at_a_tenth() {
        let mut budget = ReservationBudget::default();
        budget.charge(second(0), 0);
        assert_eq!(budget.opens_at(), Timestamp::MIN);
        // Nine minutes of the whole cluster. Six were saved, and one was earned meanwhile.
        budget.charge(second(540), 1_000_000);
        assert_eq!(budget.opens_at(), second(540 + 1260));
        budget.charge(second(1000), 0);
        assert_eq!(budget.opens_at(), second(1800));
        budget.charge(second(1800), 0);
        assert!(budget.opens_at() <= second(1800));
        // At most four hours' share is saved: 24 minutes of the whole cluster, and 2:40 are earned meanwhile.
        budget.charge(second(1_000_000), 0);
        budget.charge(second(1_001_600), 1_000_000);
        assert_eq!(budget.opens_at(), Timestamp::MIN);
        budget.charge(second(1_001_601), 1_000_000);
        assert_eq!(budget.opens_at(), second(1_001_601 + 9));
    }

    #[test]
    fn the_pause_after_a_reservation_is_as_long_as_it_lasted_and_at_most_a_minute() {
        let mut budget = ReservationBudget::default();
        budget.reservation_ended(second(100), second(107));
        assert_eq!(budget.opens_at(), second(114));
        budget.reservation_ended(second(100), second(1000));
        assert_eq!(budget.opens_at(), second(1060));
    }
}
