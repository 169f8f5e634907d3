//! Gangs that have some of their pods placed and never had as many as they need, as after a crash between two binds.
//!
//! They are completed if that can be. If it cannot, their pods are released after a while: what they hold is of no use to
//! them, and may be what another gang lacks. Only pods that somebody manages, and so makes anew, are released.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Timestamp;

use super::Core;
use crate::decision::{Decision, Member, Release, Unit, Verdict};
use crate::groups::GroupId;
use crate::pods::Stage;

/// How long a release waits for binds that are under way.
const BINDS_PAUSE: Duration = Duration::from_secs(1);

/// Half-placed gangs, and until when each may stay so.
#[derive(Debug, Default)]
pub(super) struct Partials {
    /// None until the next look at the time.
    until: BTreeMap<GroupId, Option<Timestamp>>,
    new: BTreeSet<GroupId>,
    due: BTreeSet<(Timestamp, GroupId)>,
}

impl Partials {
    fn set(&mut self, group: GroupId) {
        if self.until.insert(group, None).is_none() {
            self.new.insert(group);
        }
    }

    fn clear(&mut self, group: GroupId) {
        self.new.remove(&group);
        if let Some(Some(at)) = self.until.remove(&group) {
            self.due.remove(&(at, group));
        }
    }

    fn arm(&mut self, group: GroupId, at: Timestamp) {
        if let Some(Some(before)) = self.until.insert(group, Some(at)) {
            self.due.remove(&(before, group));
        }
        self.due.insert((at, group));
    }

    fn first_due(&self, now: Timestamp) -> Option<GroupId> {
        self.due.first().filter(|(at, _)| *at <= now).map(|(_, group)| *group)
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }
}

impl Core {
    /// Takes note of whether the group is half placed.
    pub(super) fn note_partial(&mut self, id: GroupId) {
        if self.config.release_after.is_none() {
            return;
        }
        let known = self.partials.until.contains_key(&id);
        match self.groups.get(id).is_partial() {
            true if !known => self.partials.set(id),
            false if known => self.partials.clear(id),
            _ => {}
        }
    }

    /// The group is no more.
    pub(super) fn forget_partial(&mut self, id: GroupId) {
        self.partials.clear(id);
    }

    /// The pods of a gang that has been half placed for too long.
    pub(super) fn release(&mut self, now: Timestamp) -> Option<Decision> {
        let pause = self.config.release_after?;
        for group in std::mem::take(&mut self.partials.new) {
            self.partials.arm(group, now + pause);
        }
        while let Some(id) = self.partials.first_due(now) {
            let group = self.groups.get(id);
            if group.placed.pods().any(|pod| matches!(self.pods.get(pod).stage, Stage::Assumed(_))) {
                self.partials.arm(id, now + BINDS_PAUSE);
                continue;
            }
            // A pod that nobody manages would be lost for good.
            if group.placed.pods().any(|pod| self.pods.get(pod).owner.is_none()) {
                self.partials.arm(id, now + pause);
                continue;
            }
            let member = |pod| {
                let pod = self.pods.get(pod);
                Member { pod: pod.key.clone(), uid: pod.uid.clone() }
            };
            let pods: Vec<Member> = group.placed.pods().map(member).collect();
            let min_count = group.terms.as_ref().and_then(|terms| terms.min_count).unwrap_or(1);
            let unit = Unit::Group(group.key.clone());
            // Should the pods stay, they are asked to go once more.
            self.partials.arm(id, now + pause);
            let verdict = Verdict::Release(Release { pods, min_count });
            return Some(Decision { unit, verdict, domain: None, unplaced: None });
        }
        None
    }
}
