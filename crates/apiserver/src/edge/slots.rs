//! Slots for connections. A connection without an identity costs its client nothing, so it must not displace one with
//! an identity. Connections without one share a fixed number of slots, and the oldest of them is closed for a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::edge::EdgeLimits;

/// The slots of one edge. Clones share the state.
#[derive(Clone)]
pub(super) struct Slots(Arc<Mutex<SlotsState>>);

struct SlotsState {
    last_number: u64,
    /// Connections that can be closed for another one, oldest first.
    evictable: BTreeMap<u64, Arc<Notify>>,
    max_evictable: usize,
    /// Connections with an identity that have a slot of their own.
    identified: BTreeSet<u64>,
    max_identified: usize,
}

impl Slots {
    pub fn new(limits: &EdgeLimits) -> Slots {
        Slots(Arc::new(Mutex::new(SlotsState {
            last_number: 0,
            evictable: BTreeMap::new(),
            max_evictable: limits.max_unidentified_connections.max(1),
            identified: BTreeSet::new(),
            max_identified: limits.max_connections,
        })))
    }

    /// A slot for a new connection. When there are too many, the oldest one without an identity is closed.
    pub fn acquire(&self) -> Slot {
        let mut state = self.lock();
        while state.evictable.len() >= state.max_evictable {
            state.evict_oldest();
        }
        state.last_number += 1;
        let (number, evicted) = (state.last_number, Arc::new(Notify::new()));
        state.evictable.insert(number, Arc::clone(&evicted));
        Slot { slots: self.clone(), number, evicted }
    }

    /// Closes the oldest connection without an identity, if there is one.
    pub fn evict_oldest(&self) {
        self.lock().evict_oldest();
    }

    fn lock(&self) -> MutexGuard<'_, SlotsState> {
        // No change of the state can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotsState {
    fn evict_oldest(&mut self) {
        if let Some((_, evicted)) = self.evictable.pop_first() {
            evicted.notify_one();
        }
    }
}

/// The slot of one connection, released when it is dropped.
pub(super) struct Slot {
    slots: Slots,
    number: u64,
    evicted: Arc<Notify>,
}

impl Slot {
    /// The client is authenticated: its connection is not closed for others, unless all slots for authenticated
    /// connections are in use.
    pub fn mark_identified(&self) {
        let mut state = self.slots.lock();
        if state.identified.len() < state.max_identified && state.evictable.remove(&self.number).is_some() {
            state.identified.insert(self.number);
        }
    }

    /// Resolves when the connection must be closed for another one.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.evictable.remove(&self.number);
        state.identified.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn slots(max_unidentified: usize, max_connections: usize) -> Slots {
        Slots::new(&EdgeLimits {
            max_unidentified_connections: max_unidentified,
            max_connections,
            ..EdgeLimits::default()
        })
    }

    fn is_evicted(slot: &Slot) -> bool {
        slot.evicted().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_connection_without_an_identity_is_closed() {
        let slots = slots(2, 10);
        let identified = slots.acquire();
        identified.mark_identified();
        let unidentified: Vec<Slot> = (0..5).map(|_| slots.acquire()).collect();
        let evicted: Vec<bool> = unidentified.iter().map(is_evicted).collect();
        assert_eq!(evicted, [true, true, true, false, false]);
        drop(unidentified);
        let _two = (slots.acquire(), slots.acquire());
        assert!(!is_evicted(&identified), "a connection with an identity keeps its slot");
    }

    #[test]
    fn released_slots_are_free_and_identified_connections_above_the_limit_can_be_evicted() {
        let slots = slots(2, 1);
        let first = slots.acquire();
        first.mark_identified();
        let beyond = slots.acquire();
        beyond.mark_identified();
        let _two = (slots.acquire(), slots.acquire());
        assert!(is_evicted(&beyond) && !is_evicted(&first));
        drop((first, beyond));
        let third = slots.acquire();
        third.mark_identified();
        let _two = (slots.acquire(), slots.acquire());
        assert!(!is_evicted(&third));
    }
}
