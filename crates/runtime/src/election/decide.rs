//! Decides whether the lease may be taken, from observations of it.

use std::time::Duration;

use tokio::time::Instant;

use super::ElectionSettings;
use super::lease::LeaseRecord;

/// The lease as last observed.
#[derive(Clone, Debug, Default)]
pub struct ObservedLease {
    record: Option<LeaseRecord>,
    /// When this version was first observed, by our own clock, which is the only one that counts.
    since: Option<Instant>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// The lease does not exist: create it.
    Create,
    /// It is ours, or has no holder: take it.
    Take,
    /// Another process holds it, for at least this long.
    Wait(Duration),
}

impl ObservedLease {
    /// Records the lease as read from the server (`None`: it does not exist).
    pub fn observe(&mut self, record: Option<LeaseRecord>, now: Instant) {
        if self.since.is_none() || record != self.record {
            self.since = Some(now);
        }
        self.record = record;
    }

    /// The lease; an empty one if it does not exist.
    pub fn record(&self) -> LeaseRecord {
        self.record.clone().unwrap_or_default()
    }

    /// Whether the lease may be taken now.
    pub fn next_action(&self, settings: &ElectionSettings, now: Instant) -> LeaseAction {
        let (Some(record), Some(since)) = (&self.record, self.since) else { return LeaseAction::Create };
        match record.holder() {
            Some(holder) if holder != settings.identity => {
                let left = record.duration(settings).saturating_sub(now.duration_since(since));
                if left.is_zero() { LeaseAction::Take } else { LeaseAction::Wait(left) }
            }
            _ => LeaseAction::Take,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn held(by: &str, version: u32) -> Option<LeaseRecord> {
        let spec = json!({ "holderIdentity": by, "leaseDurationSeconds": 15, "leaseTransitions": 3 });
        let metadata = json!({ "resourceVersion": version.to_string() });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).ok()
    }

    #[test]
    fn a_lease_is_taken_over_only_after_it_was_unchanged_for_its_whole_duration() {
        let settings = ElectionSettings::new("lease", "us");
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut observed = ObservedLease::default();
        observed.observe(None, at(0));
        assert_eq!(observed.next_action(&settings, at(0)), LeaseAction::Create);
        observed.observe(held("them", 1), at(1));
        assert_eq!(
            observed.next_action(&settings, at(1)),
            LeaseAction::Wait(Duration::from_secs(15)),
            "independent of its renew time"
        );
        observed.observe(held("them", 1), at(10));
        assert_eq!(observed.next_action(&settings, at(10)), LeaseAction::Wait(Duration::from_secs(6)));
        observed.observe(held("them", 2), at(12));
        assert_eq!(observed.next_action(&settings, at(12)), LeaseAction::Wait(Duration::from_secs(15)), "renewed");
        assert_eq!(observed.next_action(&settings, at(27)), LeaseAction::Take, "not renewed for its duration");
    }

    #[test]
    fn our_own_lease_and_a_released_one_are_taken_at_once() {
        let settings = ElectionSettings::new("lease", "us");
        let now = Instant::now();
        for holder in ["us", ""] {
            let mut observed = ObservedLease::default();
            observed.observe(held(holder, 7), now);
            assert_eq!(observed.next_action(&settings, now), LeaseAction::Take, "{holder:?}");
        }
    }

    #[test]
    fn only_a_change_of_holder_counts_as_a_transition() {
        let settings = ElectionSettings::new("lease", "us");
        let written = |record: Option<LeaseRecord>| {
            let spec = record.unwrap_or_default().acquired(&settings, types::Timestamp::UNIX_EPOCH);
            (spec["spec"]["leaseTransitions"].clone(), spec["metadata"]["resourceVersion"].clone())
        };
        assert_eq!(written(None), (json!(0), json!(null)));
        assert_eq!(written(held("us", 4)), (json!(3), json!("4")));
        assert_eq!(written(held("them", 4)), (json!(4), json!("4")));
        assert_eq!(written(held("", 4)), (json!(4), json!("4")));
    }

    #[test]
    fn invalid_durations_are_refused() {
        let seconds = Duration::from_secs;
        for (lease, renew, retry, sound) in
            [(15, 10, 2, true), (10, 10, 2, false), (15, 10, 6, false), (0, 0, 0, false), (15, 10, 0, false)]
        {
            let (lease, renew, retry) = (seconds(lease), seconds(renew), seconds(retry));
            let settings = ElectionSettings {
                lease_duration: lease,
                renew_deadline: renew,
                retry_period: retry,
                ..ElectionSettings::new("lease", "us")
            };
            assert_eq!(settings.validate().is_ok(), sound, "{settings:?}");
        }
    }
}
