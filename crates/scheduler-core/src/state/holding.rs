//! Keeps room free for a group that was passed over for too long: one group at a time, and only for so long.
//!
//! While it lasts, units whose turn is after that of the group see only what its pods would leave of those nodes. It ends
//! when the group is placed or gone, and otherwise by itself, so that no mistake about who will leave can block a cluster:
//! soon where nothing comes free, and at the latest after `hold_for`. The next hold for the same group then comes after a
//! longer pause, and the next for any group when the [`HoldBudget`] says so.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Timestamp;
use api::clock::rfc3339;

use super::Core;
use crate::cluster::HeldRoom;
use crate::hold;
use crate::moment::later;
use crate::need::Need;
use crate::queue::counts::Arrival;
use crate::queue::{Turn, UnitId};
use crate::ways_out::WayOut;

/// A hold ends when nothing that it waits for has come free for so long.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// How often it is looked at what has come free.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For whom nodes are held.
#[derive(Debug)]
pub(super) struct Holding {
    unit: UnitId,
    turn: Turn,
    began: Timestamp,
    until: Timestamp,
    /// What was free at the last look.
    room: HeldRoom,
    looked_at: Timestamp,
    /// The most pods that had their room so far, in thousandths, and since when.
    most: i64,
    since: Timestamp,
}

impl Holding {
    /// When it ends by itself, if nothing more comes free.
    pub(super) fn ends_at(&self) -> Timestamp {
        later(self.since, STALLED_AFTER).min(self.until)
    }
}

impl Core {
    /// Ends a hold that is over, and begins one for the group that was passed over for too long.
    pub(super) fn keep_hold(&mut self, now: Timestamp) {
        self.look_at_hold(now);
        if let Some(holding) = &self.holding {
            let unit = holding.unit;
            if holding.ends_at() > now && self.queue.is_refused(unit) {
                return;
            }
            self.end_hold(now);
            if self.queue.is_refused(unit) {
                self.queue.held_in_vain(unit, now);
            }
        }
        if self.hold_budget.opens_at() > now {
            return;
        }
        while let Some(unit) = self.queue.passed_over(now) {
            self.cluster.show_hold(false);
            let need = self.need(unit);
            let held = need.map(|need| hold::shares_for(&need, &self.cluster, &mut self.classes)).unwrap_or_default();
            let Some(turn) = self.queue.turn_of(unit).filter(|_| !held.is_empty()) else {
                self.queue.pass_again(unit, now);
                continue;
            };
            let until = later(now, self.config.hold_for);
            let whom = self.name_of(unit);
            let held_for = format!("{}, which waits longer, until {} at the latest", whom.key(), rfc3339(until));
            self.cluster.hold(held, held_for);
            self.advisory.cluster_changed();
            let room = self.cluster.held_room();
            let most = room.pods_milli;
            self.holding = Some(Holding { unit, turn, began: now, until, room, looked_at: now, most, since: now });
            return;
        }
    }

    /// Takes account of what the hold keeps idle, and of whether something has come free.
    fn look_at_hold(&mut self, now: Timestamp) {
        let Some(holding) = &mut self.holding else { return self.hold_budget.pass(now, 0) };
        if now < later(holding.looked_at, LOOK_EVERY).min(holding.ends_at()) {
            return;
        }
        self.hold_budget.pass(now, holding.room.idle_millionths);
        (holding.room, holding.looked_at) = (self.cluster.held_room(), now);
        if holding.room.pods_milli > holding.most {
            (holding.most, holding.since) = (holding.room.pods_milli, now);
        }
    }

    /// When holds are to be looked at, although nothing changes.
    pub(super) fn next_hold_at(&self) -> Option<Timestamp> {
        match &self.holding {
            Some(holding) => Some(holding.ends_at()),
            None => self.queue.next_passed_over_at().map(|at| at.max(self.hold_budget.opens_at())),
        }
    }

    /// Hides the hold from the unit it is for and from those before it, and shows it to the others.
    pub(super) fn show_hold_to(&mut self, unit: UnitId) {
        let after = |holding: &Holding| unit != holding.unit && self.queue.turn_of(unit) > Some(holding.turn);
        let shown = self.holding.as_ref().is_some_and(after);
        self.cluster.show_hold(shown);
    }

    /// The end of the hold, where that alone is in the way of the unit that is looked at.
    pub(super) fn hold_to_end(&mut self, need: &Need) -> Option<WayOut> {
        let holding = self.holding.as_ref().filter(|_| self.cluster.shows_hold())?;
        let (group, until) = (self.name_of(holding.unit).key().clone(), holding.until);
        self.cluster.show_hold(false);
        let fits = self.judge(need).is_none();
        self.cluster.show_hold(true);
        fits.then_some(WayOut::HoldEnds { group, until })
    }

    /// The unit has what nodes may have been held for.
    pub(super) fn end_hold_of(&mut self, unit: UnitId, now: Timestamp) {
        if self.holding.as_ref().is_some_and(|holding| holding.unit == unit) {
            self.end_hold(now);
        }
    }

    fn end_hold(&mut self, now: Timestamp) {
        if let Some(holding) = self.holding.take() {
            self.hold_budget.pass(now, holding.room.idle_millionths);
            self.hold_budget.hold_ended(holding.began, now);
        }
        let nodes: Vec<_> = self.cluster.held_nodes().collect();
        self.cluster.hold(BTreeMap::new(), String::new());
        self.advisory.cluster_changed();
        let waiting: Vec<_> = self.queue.waiting_classes().collect();
        for class in waiting {
            if nodes.iter().any(|node| self.room(class, *node) > 0) {
                self.queue.wake_class(class, Arrival::NodeChanged);
            }
        }
    }
}
