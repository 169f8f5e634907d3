//! Who stands in the queue, and how.

use api::Timestamp;

use super::{Lack, Queue, Standing, Turn, UnitId};
use crate::explained::State;

/// A unit that has something to be decided.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) unit: UnitId,
    pub(crate) turn: Turn,
    pub(crate) state: State,
    pub(crate) pods_count: usize,
    pub(crate) tries_count: u32,
    pub(crate) next_try: Option<Timestamp>,
}

impl Queue {
    /// Every unit that has something to be decided, in the order of their turns. Looks at all units.
    pub(crate) fn listing(&self) -> Vec<Listed> {
        let mut listing = Vec::new();
        for (unit, entry) in &self.entries {
            let (state, next_try) = match &entry.standing {
                Standing::Idle => continue,
                Standing::Ready => (State::Active, None),
                Standing::Waiting(waiting) => (State::Waiting, waiting.recount),
                Standing::BackingOff(until) => (State::BackOff, Some(*until)),
                Standing::Incomplete(Lack::Support, _) => (State::Unsupported, None),
                Standing::Incomplete(Lack::Pods | Lack::PodGroup, _) => (State::Incomplete, None),
            };
            let (pods_count, tries_count) = (entry.pods_count, entry.tries_count);
            listing.push(Listed { unit: *unit, turn: entry.turn, state, pods_count, tries_count, next_try });
        }
        listing.sort_unstable_by_key(|listed| (listed.turn, listed.unit));
        listing
    }

    /// Whether the unit found no room and waits for a change.
    pub(crate) fn is_waiting(&self, unit: UnitId) -> bool {
        self.entries.get(&unit).is_some_and(|entry| matches!(entry.standing, Standing::Waiting(_)))
    }
}
