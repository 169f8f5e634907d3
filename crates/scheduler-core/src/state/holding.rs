//! Keeps room free for a group that was passed over for too long: one group at a time, and only for so long.
//!
//! While it lasts, units whose turn is after that of the group see only what its pods would leave of those nodes. It ends
//! when the group is placed or gone, and otherwise by itself, so that no mistake about who will leave can block a cluster;
//! the next hold for the same group then comes after a longer pause.

use std::collections::BTreeMap;

use api::Timestamp;
use api::clock::rfc3339;

use super::Core;
use crate::hold;
use crate::need::Need;
use crate::queue::counts::Arrival;
use crate::queue::{Turn, UnitId};
use crate::ways_out::WayOut;

/// For whom nodes are held.
#[derive(Debug)]
pub(super) struct Holding {
    unit: UnitId,
    turn: Turn,
    pub(super) until: Timestamp,
}

impl Core {
    /// Ends a hold that is over, and begins one for whoever was passed over for too long.
    pub(super) fn keep_hold(&mut self, now: Timestamp) {
        if let Some(holding) = &self.holding {
            let unit = holding.unit;
            if holding.until > now && self.queue.is_refused(unit) {
                return;
            }
            self.end_hold();
            if self.queue.is_refused(unit) {
                self.queue.held_in_vain(unit, now);
            }
        }
        while let Some(unit) = self.queue.passed_over(now) {
            self.cluster.show_hold(false);
            let need = self.need(unit);
            let held = need.map(|need| hold::shares_for(&need, &self.cluster, &mut self.classes)).unwrap_or_default();
            let Some(turn) = self.queue.turn_of(unit).filter(|_| !held.is_empty()) else {
                self.queue.pass_again(unit, now);
                continue;
            };
            let until = now + self.config.hold_for;
            let whom = self.name_of(unit);
            let held_for = format!("{}, which waits longer, until {} at the latest", whom.key(), rfc3339(until));
            self.cluster.hold(held, held_for);
            self.advisory.cluster_changed();
            self.holding = Some(Holding { unit, turn, until });
            return;
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
    pub(super) fn end_hold_of(&mut self, unit: UnitId) {
        if self.holding.as_ref().is_some_and(|holding| holding.unit == unit) {
            self.end_hold();
        }
    }

    fn end_hold(&mut self) {
        self.holding = None;
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
