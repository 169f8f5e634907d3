//! Half-placed gangs: some of their pods are placed, and they have not had their quorum since they started, as after
//! a crash between two binds.
//!
//! The core tries to complete them. If that is impossible, their pods are released after a pause: the capacity is of
//! no use to them and may be what another gang lacks. Only pods with a controller, which recreates them, are
//! released. The release waits for binds in flight while they make progress.

use types::Timestamp;

use super::Core;
use crate::cluster::compact_timestamp::CompactTimestamp;
use crate::decision::{Decision, DecisionAction, Release, ReleaseReason, Unit};
use crate::demand::groups::GroupId;
use crate::demand::pods::{PodId, Stage};
use crate::queue::UnitId;
use crate::release::pending_binds::{BINDS_CHECK_INTERVAL, MAX_BINDS_WAIT, PendingBinds};

impl Core {
    /// Records whether the group is half placed.
    pub(super) fn note_partial(&mut self, id: GroupId) {
        if self.config.release_after.is_none() {
            return;
        }
        let group = self.groups.get(id);
        let may_be_released = !self.config.release_only_ours || group.spec.as_ref().is_some_and(|spec| spec.is_ours);
        if may_be_released && group.is_half_placed() {
            self.half_placed_gangs.set(id);
        } else {
            self.half_placed_gangs.clear(id);
            self.pending_binds.remove(&id);
        }
    }

    /// Removes all records of the group.
    pub(super) fn forget_partial(&mut self, id: GroupId) {
        self.half_placed_gangs.clear(id);
        self.pending_binds.remove(&id);
    }

    /// Whether binds of the group are in flight and worth waiting for.
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
            // A decision that may complete it is pending. It is made now, before those about other units.
            if self.queue.take_ready(UnitId::Group(id)) {
                self.half_placed_gangs.set_at(id, now);
                match self.decide_unit(UnitId::Group(id), now) {
                    None => continue,
                    decision => return decision,
                }
            }
            if self.had_quorum_before(id) {
                self.groups.get_mut(id).had_quorum = true;
                self.forget_partial(id);
                continue;
            }
            let group = self.groups.get(id);
            // A pod without a controller would be lost for good.
            if group.placed.pods().any(|pod| self.pods.get(pod).owner.is_none()) {
                self.half_placed_gangs.set_at(id, now + pause);
                continue;
            }
            let pods = group.placed.pods().map(|pod| self.pods.get(pod).pod_ref()).collect();
            let min_count = group.quorum().unwrap_or(1);
            let unit = Unit::Group(group.key.clone());
            // If the pods are not deleted, they are released once more.
            self.half_placed_gangs.set_at(id, now + pause);
            let action = DecisionAction::Release(Release { pods, reason: ReleaseReason::HalfBound { min_count } });
            return Some(Decision { unit, action, domain: None, unplaced: None });
        }
        None
    }

    /// Whether running members show that the gang had its quorum before this core observed it. A gang starts once its
    /// whole quorum exists. If fewer than the quorum are left of the members that existed when the first one started,
    /// others started and are gone. In a half-bound gang the others are still pending.
    fn had_quorum_before(&self, id: GroupId) -> bool {
        let group = self.groups.get(id);
        let started = group.placed.pods().filter_map(|pod| self.pods.get(pod).view.status.start_time).min();
        let (false, Some(started), Some(quorum)) = (group.start_observed, started, group.quorum()) else {
            return false;
        };
        let pending_since_start =
            group.pending_by_age.range(..=(CompactTimestamp::from(Some(started)), u64::MAX)).count();
        group.placed_count() + pending_since_start < quorum
    }
}
