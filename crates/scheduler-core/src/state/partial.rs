//! Gangs that have some of their pods placed and did not have as many as they need since they started, as after a crash
//! between two binds.
//!
//! They are completed if that can be. If it cannot, their pods are released after a while: what they hold is of no use to
//! them, and may be what another gang lacks. Only pods that somebody manages, and so makes anew, are released. Binds under
//! way are waited for while they make progress, and no longer.

use std::time::Duration;

use types::Timestamp;

use super::Core;
use crate::compact_timestamp::CompactTimestamp;
use crate::decision::{Decision, DecisionAction, Release, ReleaseReason, Unit};
use crate::groups::GroupId;
use crate::pods::{PodId, Stage};

/// How often a release that waits for binds under way looks whether they have ended.
const BINDS_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long it waits while none of them ends. The server answers or is asked again in half that time.
const MAX_BINDS_WAIT: Duration = Duration::from_secs(30);

/// Binds of a gang that its release waits for.
#[derive(Debug)]
pub(super) struct PendingBinds {
    count: usize,
    /// Since when they are so many.
    since: Timestamp,
}

impl Core {
    /// Takes note of whether the group is half placed.
    pub(super) fn note_partial(&mut self, id: GroupId) {
        if self.config.release_after.is_none() {
            return;
        }
        let group = self.groups.get(id);
        let may_be_released = !self.config.release_only_ours || group.spec.as_ref().is_some_and(|terms| terms.is_ours);
        if may_be_released && group.is_half_placed() {
            self.half_placed_gangs.set(id);
        } else {
            self.half_placed_gangs.clear(id);
            self.pending_binds.remove(&id);
        }
    }

    /// The group is no more.
    pub(super) fn forget_partial(&mut self, id: GroupId) {
        self.half_placed_gangs.clear(id);
        self.pending_binds.remove(&id);
    }

    /// Whether binds of the group are under way and worth waiting for.
    fn waits_for_binds(&mut self, id: GroupId, now: Timestamp) -> bool {
        let is_assumed = |pod: &PodId| matches!(self.pods.get(*pod).stage, Stage::Assumed(_));
        let count = self.groups.get(id).placed.pods().filter(is_assumed).count();
        if count == 0 {
            self.pending_binds.remove(&id);
            return false;
        }
        let pending = self.pending_binds.entry(id).or_insert(PendingBinds { count, since: now });
        if pending.count != count {
            *pending = PendingBinds { count, since: now };
        }
        now < pending.since + MAX_BINDS_WAIT
    }

    /// The pods of a gang that has been half placed for too long.
    pub(super) fn release_half_placed_gang(&mut self, now: Timestamp) -> Option<Decision> {
        let pause = self.config.release_after?;
        while let Some(id) = self.half_placed_gangs.next_due(now, pause) {
            if self.waits_for_binds(id, now) {
                self.half_placed_gangs.set_at(id, now + BINDS_CHECK_INTERVAL);
                continue;
            }
            if self.had_quorum_before(id) {
                self.groups.get_mut(id).had_quorum = true;
                self.forget_partial(id);
                continue;
            }
            let group = self.groups.get(id);
            // A pod that nobody manages would be lost for good.
            if group.placed.pods().any(|pod| self.pods.get(pod).owner.is_none()) {
                self.half_placed_gangs.set_at(id, now + pause);
                continue;
            }
            let pods = group.placed.pods().map(|pod| self.pods.get(pod).pod_ref()).collect();
            let min_count = group.quorum().unwrap_or(1);
            let unit = Unit::Group(group.key.clone());
            // Should the pods stay, they are asked to go once more.
            self.half_placed_gangs.set_at(id, now + pause);
            let verdict = DecisionAction::Release(Release { pods, reason: ReleaseReason::HalfBound { min_count } });
            return Some(Decision { unit, action: verdict, domain: None, unplaced: None });
        }
        None
    }

    /// Whether members that run show that the gang was whole before this core saw it. A gang starts once all that it needs
    /// exist. Where fewer are left of those that existed when the first one started, others are gone that did; of one that
    /// was left half bound they still wait.
    fn had_quorum_before(&self, id: GroupId) -> bool {
        let group = self.groups.get(id);
        let started = group.placed.pods().filter_map(|pod| self.pods.get(pod).view.status.start_time).min();
        let (false, Some(started), Some(quorum)) = (group.start_observed, started, group.quorum()) else {
            return false;
        };
        let waited = group.pending_by_age.range(..=(CompactTimestamp::from(Some(started)), u64::MAX)).count();
        group.placed_count() + waited < quorum
    }
}
