//! The pending Events: which is written next, and which is dropped when there are too many.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{EventKind, PendingEvent};

/// Pending Events by urgency. Those of one kind about one object stay in order.
#[derive(Default)]
pub(super) struct PendingEvents {
    warnings: FairQueue,
    normals: FairQueue,
}

impl PendingEvents {
    pub(super) fn len(&self) -> usize {
        self.warnings.len + self.normals.len
    }

    pub(super) fn push(&mut self, event: PendingEvent) {
        match event.kind {
            EventKind::Warning => self.warnings.push(event),
            EventKind::Normal => self.normals.push(event),
        }
    }

    /// At most `count` Events, each about another object, warnings first. Objects take turns, so that one with many
    /// Events does not delay the others.
    pub(super) fn take(&mut self, count: usize) -> Vec<PendingEvent> {
        let mut events = self.warnings.take(count, &[]);
        let others = self.normals.take(count - events.len(), &events);
        events.extend(others);
        events
    }

    /// Drops the oldest Event of the object with the most Events; a warning only if there is nothing else.
    pub(super) fn drop_one(&mut self) {
        if self.normals.len > 0 { self.normals.drop_one() } else { self.warnings.drop_one() }
    }
}

/// Events by object. Each object has a turn; the lowest is next.
#[derive(Default)]
struct FairQueue {
    /// The Events of each object by its turn, oldest first; never empty.
    events: BTreeMap<u64, VecDeque<PendingEvent>>,
    /// The turn of each object, by uid.
    turns: BTreeMap<String, u64>,
    /// The number of Events at each turn. Of objects with equal numbers, the one that waits the longest is the last.
    sizes: BTreeSet<(usize, Reverse<u64>)>,
    /// The turn of the next object that is added.
    turns_given: u64,
    len: usize,
}

impl FairQueue {
    fn push(&mut self, event: PendingEvent) {
        let turn = self.turns.get(&event.regarding.uid).copied().unwrap_or_else(|| self.last_turn());
        let mut events = self.remove_object(turn);
        events.push_back(event);
        self.insert_object(turn, events);
    }

    fn take(&mut self, count: usize, others: &[PendingEvent]) -> Vec<PendingEvent> {
        let is_other = |events: &VecDeque<PendingEvent>| {
            events.front().is_some_and(|event| others.iter().all(|other| other.regarding.uid != event.regarding.uid))
        };
        let next = self.events.iter().filter(|(_, events)| is_other(events)).map(|(turn, _)| *turn);
        let next: Vec<u64> = next.take(count).collect();
        next.into_iter().filter_map(|turn| self.take_from(turn)).collect()
    }

    /// The oldest Event of an object, which then gets the last turn.
    fn take_from(&mut self, turn: u64) -> Option<PendingEvent> {
        let mut events = self.remove_object(turn);
        let oldest = events.pop_front();
        let last = self.last_turn();
        self.insert_object(last, events);
        oldest
    }

    fn drop_one(&mut self) {
        let Some((_, Reverse(turn))) = self.sizes.last().copied() else { return };
        let mut events = self.remove_object(turn);
        events.pop_front();
        self.insert_object(turn, events);
    }

    /// Removes an object with all its Events.
    fn remove_object(&mut self, turn: u64) -> VecDeque<PendingEvent> {
        let Some(events) = self.events.remove(&turn) else { return VecDeque::new() };
        if let Some(event) = events.front() {
            self.turns.remove(&event.regarding.uid);
        }
        self.sizes.remove(&(events.len(), Reverse(turn)));
        self.len -= events.len();
        events
    }

    fn insert_object(&mut self, turn: u64, events: VecDeque<PendingEvent>) {
        let Some(event) = events.front() else { return };
        self.turns.insert(event.regarding.uid.clone(), turn);
        self.sizes.insert((events.len(), Reverse(turn)));
        self.len += events.len();
        self.events.insert(turn, events);
    }

    fn last_turn(&mut self) -> u64 {
        self.turns_given += 1;
        self.turns_given
    }
}

#[cfg(test)]
mod tests {
    use types::Timestamp;

    use super::super::ObjectRef;
    use super::*;

    /// Each word is an Event about the object of its first letter; capitals are warnings.
    fn pending(words: &str) -> PendingEvents {
        let mut waiting = PendingEvents::default();
        for word in words.split(' ') {
            let kind = if word.starts_with(char::is_uppercase) { EventKind::Warning } else { EventKind::Normal };
            let about = ObjectRef { uid: word[..1].to_lowercase(), ..ObjectRef::default() };
            let (reason, action, message) = (String::new(), String::new(), word.to_owned());
            waiting.push(PendingEvent {
                component: "tester".into(),
                regarding: about,
                kind,
                reason,
                action,
                message,
                at: Timestamp::UNIX_EPOCH,
            });
        }
        waiting
    }

    fn taken(waiting: &mut PendingEvents, count: usize) -> String {
        waiting.take(count).into_iter().map(|event| event.message).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn concurrent_events_are_about_different_objects_and_the_oldest_goes_first() {
        let mut waiting = pending("a0 b1 a2 c3 d4 e5");
        assert_eq!([taken(&mut waiting, 3), taken(&mut waiting, 3)], ["a0 b1 c3", "d4 e5 a2"]);
        assert_eq!((taken(&mut waiting, 3).as_str(), waiting.len()), ("", 0));
    }

    // One Job with thousands of pods delayed the only Event of every other object for seconds.
    #[test]
    fn an_object_with_many_events_does_not_delay_the_others() {
        let mut waiting = pending("a0 a1 a2 a3 a4 b5 a6 c7 b8");
        assert_eq!(taken(&mut waiting, 1), "a0");
        assert_eq!(taken(&mut waiting, 2), "b5 c7");
        assert_eq!(taken(&mut waiting, 8), "a1 b8");
        assert_eq!(taken(&mut waiting, 8), "a2");
    }

    #[test]
    fn warnings_go_first_and_one_event_about_an_object_at_a_time() {
        let mut waiting = pending("a0 a1 b2 A3 c4 C5");
        assert_eq!(taken(&mut waiting, 8), "A3 C5 b2");
        assert_eq!(taken(&mut waiting, 8), "a0 c4");
        assert_eq!(taken(&mut waiting, 1), "a1");
    }

    #[test]
    fn the_oldest_event_of_the_object_with_the_most_is_dropped_and_warnings_last() {
        let mut waiting = pending("A0 b1 c2 c3 d4 d5 A6");
        let mut dropped = || {
            let before = names(&waiting);
            waiting.drop_one();
            let after = names(&waiting);
            before.into_iter().filter(|name| !after.contains(name)).collect::<Vec<_>>().join(" ")
        };
        let order: Vec<String> = (0..8).map(|_| dropped()).collect();
        assert_eq!(order.join(" "), "c2 d4 b1 c3 d5 A0 A6 ");
        assert_eq!(waiting.len(), 0);
    }

    fn names(waiting: &PendingEvents) -> Vec<String> {
        let rows = [&waiting.warnings, &waiting.normals];
        rows.iter().flat_map(|row| row.events.values().flatten().map(|event| event.message.clone())).collect()
    }
}
