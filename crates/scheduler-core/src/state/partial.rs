//! Gangs that have some of their pods placed and did not have as many as they need since they started, as after a crash
//! between two binds.
//!
//! They are completed if that can be. If it cannot, their pods are released after a while: what they hold is of no use to
//! them, and may be what another gang lacks. Only pods that somebody manages, and so makes anew, are released.

use std::time::Duration;

use api::Timestamp;

use super::Core;
use crate::decision::{Decision, Release, Unit, Verdict, WhyReleased};
use crate::groups::GroupId;
use crate::moment::Moment;
use crate::pods::Stage;

/// How long a release waits for binds that are under way.
const BINDS_PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// Takes note of whether the group is half placed.
    pub(super) fn note_partial(&mut self, id: GroupId) {
        if self.config.release_after.is_none() {
            return;
        }
        let group = self.groups.get(id);
        let may_be_released = !self.config.release_only_ours || group.terms.as_ref().is_some_and(|terms| terms.ours);
        if may_be_released && group.is_partial() {
            self.partials.set(id);
        } else {
            self.partials.clear(id);
        }
    }

    /// The group is no more.
    pub(super) fn forget_partial(&mut self, id: GroupId) {
        self.partials.clear(id);
    }

    /// The pods of a gang that has been half placed for too long.
    pub(super) fn release(&mut self, now: Timestamp) -> Option<Decision> {
        let pause = self.config.release_after?;
        while let Some(id) = self.partials.ringing(now, pause) {
            let group = self.groups.get(id);
            if group.placed.pods().any(|pod| matches!(self.pods.get(pod).stage, Stage::Assumed(_))) {
                self.partials.ring_at(id, now + BINDS_PAUSE);
                continue;
            }
            if self.was_whole_before(id) {
                self.groups.get_mut(id).was_whole = true;
                self.partials.clear(id);
                continue;
            }
            // A pod that nobody manages would be lost for good.
            if group.placed.pods().any(|pod| self.pods.get(pod).owner.is_none()) {
                self.partials.ring_at(id, now + pause);
                continue;
            }
            let pods = group.placed.pods().map(|pod| self.pods.get(pod).as_member()).collect();
            let min_count = group.quorum().unwrap_or(1);
            let unit = Unit::Group(group.key.clone());
            // Should the pods stay, they are asked to go once more.
            self.partials.ring_at(id, now + pause);
            let verdict = Verdict::Release(Release { pods, why: WhyReleased::HalfBound { min_count } });
            return Some(Decision { unit, verdict, domain: None, unplaced: None });
        }
        None
    }

    /// Whether members that run show that the gang was whole before this core saw it. A gang starts once all that it needs
    /// exist. Where fewer are left of those that existed when the first one started, others are gone that did; of one that
    /// was left half bound they still wait.
    fn was_whole_before(&self, id: GroupId) -> bool {
        let group = self.groups.get(id);
        let started = group.placed.pods().filter_map(|pod| self.pods.get(pod).view.status.start_time).min();
        let (false, Some(started), Some(quorum)) = (group.is_start_seen, started, group.quorum()) else { return false };
        let waited = group.ages.range(..=(Moment::from(Some(started)), u64::MAX)).count();
        group.placed_count() + waited < quorum
    }
}
