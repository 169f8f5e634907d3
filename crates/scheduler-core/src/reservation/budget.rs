//! How much capacity reservations may keep idle over time, and how soon one may follow another.
//!
//! One unit after another may starve, each with a right to a reservation. Without a limit for all of them together
//! their reservations would follow each other without a gap, and pods that fit would wait as long as there are such
//! units.

use std::time::Duration;

use types::Timestamp;

use crate::cluster::compact_timestamp::saturating_add;

/// The longest pause between the end of a reservation and the next one, unless the budget requires a longer one.
const MAX_GAP: Duration = Duration::from_secs(60);
/// The initial balance is the share of so many microseconds: an hour. At most four times as much is saved.
const INITIAL_MICROS: i64 = 3_600_000_000;
const MAX_SAVED: i64 = 4;

/// What reservations may still spend, in millionths of the cluster × microseconds.
#[derive(Debug)]
pub(crate) struct ReservationBudget {
    /// The share of the cluster that may be kept idle in the long run, in millionths.
    share: i64,
    /// A negative balance is a debt, and no reservation begins.
    balance: i64,
    /// Until when time was charged.
    counted_until: Option<Timestamp>,
    /// What was kept idle at that time.
    idle: i64,
    /// What was spent in total.
    spent: i64,
    /// The end of the pause after the last reservation.
    gap_until: Option<Timestamp>,
}

impl ReservationBudget {
    /// The budget for a share of the cluster between 0 and 1. With 0 no reservation begins.
    pub(crate) fn of(share: f64) -> ReservationBudget {
        let share = (share.clamp(0.0, 1.0) * 1e6).round() as i64;
        let balance = share * INITIAL_MICROS;
        ReservationBudget { share, balance, counted_until: None, idle: 0, spent: 0, gap_until: None }
    }

    /// Charges the time up to now with what has been idle since the last call. From now on, `idle` millionths of the
    /// cluster are.
    pub(crate) fn charge(&mut self, now: Timestamp, idle: i64) {
        let since = *self.counted_until.get_or_insert(now);
        let before = std::mem::replace(&mut self.idle, idle);
        let micros = i64::try_from(now.duration_since(since).as_micros()).unwrap_or(i64::MAX);
        if micros > 0 {
            self.counted_until = Some(now);
            let earned = micros.saturating_mul(self.share - before);
            self.balance = self.balance.saturating_add(earned).min(MAX_SAVED * self.share * INITIAL_MICROS);
            self.spent = self.spent.saturating_add(micros.saturating_mul(before));
        }
    }

    /// Until when time was charged.
    pub(crate) fn counted_until(&self) -> Option<Timestamp> {
        self.counted_until
    }

    /// What is kept idle, in millionths of the cluster, as last charged.
    pub(crate) fn idle_millionths(&self) -> i64 {
        self.idle
    }

    /// What was spent since the last call, in seconds of the whole cluster.
    pub(crate) fn take_spent_seconds(&mut self) -> f64 {
        std::mem::take(&mut self.spent) as f64 / 1e12
    }

    /// A reservation that started at `start` ends. The pause for other units is as long as it lasted.
    pub(crate) fn reservation_ended(&mut self, start: Timestamp, now: Timestamp) {
        let lasted = now.duration_since(start).unsigned_abs().min(MAX_GAP);
        self.gap_until = self.gap_until.max(Some(saturating_add(now, lasted)));
    }

    /// When the next reservation may begin; `None`: never.
    pub(crate) fn opens_at(&self) -> Option<Timestamp> {
        let share = u64::try_from(self.share).ok().filter(|share| *share > 0)?;
        let paid_at = self
            .counted_until
            .filter(|_| self.balance < 0)
            .map(|at| saturating_add(at, Duration::from_micros(self.balance.unsigned_abs().div_ceil(share))));
        Some(paid_at.into_iter().chain(self.gap_until).max().unwrap_or(Timestamp::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a representable time")
    }

    /// A budget of a tenth of the cluster, at time 0.
    fn budget() -> ReservationBudget {
        let mut budget = ReservationBudget::of(0.1);
        budget.charge(second(0), 0);
        budget
    }

    #[test]
    fn what_is_spent_is_earned_again_at_the_share() {
        let mut budget = budget();
        assert_eq!(budget.opens_at(), Some(Timestamp::MIN));
        // Nine minutes of the whole cluster. Six were saved, and one was earned meanwhile.
        budget.charge(second(0), 1_000_000);
        budget.charge(second(540), 0);
        assert_eq!(budget.opens_at(), Some(second(540 + 1260)));
        assert_eq!((budget.take_spent_seconds(), budget.take_spent_seconds()), (540.0, 0.0));
        budget.charge(second(1000), 0);
        assert_eq!(budget.opens_at(), Some(second(1800)));
        budget.charge(second(1800), 0);
        assert!(budget.opens_at() <= Some(second(1800)));
        // At most four hours' share is saved: 24 minutes of the whole cluster, and 2:40 are earned meanwhile.
        budget.charge(second(1_000_000), 1_000_000);
        budget.charge(second(1_001_600), 1_000_000);
        assert_eq!(budget.opens_at(), Some(Timestamp::MIN));
        budget.charge(second(1_001_601), 0);
        assert_eq!(budget.opens_at(), Some(second(1_001_601 + 9)));
    }

    #[test]
    fn without_a_share_no_reservation_begins() {
        let mut budget = ReservationBudget::of(0.0);
        budget.charge(second(0), 0);
        budget.charge(second(100), 0);
        assert_eq!(budget.opens_at(), None);
    }

    #[test]
    fn the_pause_after_a_reservation_is_as_long_as_it_lasted_and_at_most_a_minute() {
        let mut budget = budget();
        budget.reservation_ended(second(100), second(107));
        assert_eq!(budget.opens_at(), Some(second(114)));
        budget.reservation_ended(second(100), second(1000));
        assert_eq!(budget.opens_at(), Some(second(1060)));
    }
}
