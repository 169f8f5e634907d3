//! Gangs that have some of their pods placed and did not have as many as they need since they started, as after a crash
//! between two binds.
//!
//! They are completed if that can be. If it cannot, their pods are released after a while: what they hold is of no use to
//! them, and may be what another gang lacks. Only pods that somebody manages, and so makes anew, are released. Binds under
//! way are waited for while they make progress, and no longer.

use std::time::Duration;

use api::Timestamp;

use super::Core;
use crate::decision::{Decision, Release, Unit, Verdict, WhyReleased};
use crate::groups::GroupId;
use crate::moment::Moment;
use crate::pods::{PodId, Stage};

/// How often a release that waits for binds under way looks whether they have ended.
const BINDS_PAUSE: Duration = Duration::from_secs(1);
/// How long it waits while none of them ends. The server answers or is asked again in half that time.
const BINDS_PAUSE_MAX: Duration = Duration::from_secs(30);

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
        let may_be_released = !self.config.release_only_ours || group.terms.as_ref().is_some_and(|terms| terms.ours);
        if may_be_released && group.is_partial() {
            self.partials.set(id);
        } else {
            self.partials.clear(id);
            self.pending_binds.remove(&id);
        }
    }

    /// The group is no more.
    pub(super) fn forget_partial(&mut self, id: GroupId) {
        self.partials.clear(id);
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
        now < pending.since + BINDS_PAUSE_MAX
    }

    /// The pods of a gang that has been half placed for too long.
    pub(super) fn release(&mut self, now: Timestamp) -> Option<Decision> {
        let pause = self.config.release_after?;
        while let Some(id) = self.partials.ringing(now, pause) {
            if self.waits_for_binds(id, now) {
                self.partials.ring_at(id, now + BINDS_PAUSE);
                continue;
            }
            if self.was_whole_before(id) {
                self.groups.get_mut(id).was_whole = true;
                self.forget_partial(id);
                continue;
            }
            let group = self.groups.get(id);
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
