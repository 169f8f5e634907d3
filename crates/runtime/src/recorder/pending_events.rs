//! The Events that wait to be written: who is next, and who has to go when there are too many.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{EventKind, PendingEvent};

/// Notes that wait, by how urgent they are. Those of one kind about one object stay in their order.
#[derive(Default)]
pub(super) struct PendingEvents {
    warnings: FairQueue,
    normals: FairQueue,
}

impl PendingEvents {
    pub(super) fn len(&self) -> usize {
        self.warnings.len + self.normals.len
    }

    pub(super) fn push(&mut self, note: PendingEvent) {
        match note.kind {
            EventKind::Warning => self.warnings.push(note),
            EventKind::Normal => self.normals.push(note),
        }
    }

    /// At most `count` notes, each about another object, warnings first. Objects take turns: one with much to tell does
    /// not keep the others waiting.
    pub(super) fn take(&mut self, count: usize) -> Vec<PendingEvent> {
        let mut notes = self.warnings.take(count, &[]);
        let others = self.normals.take(count - notes.len(), &notes);
        notes.extend(others);
        notes
    }

    /// Gives up the oldest note of the object that most notes are about; a warning only where there is nothing else.
    pub(super) fn drop_one(&mut self) {
        if self.normals.len > 0 { self.normals.drop_one() } else { self.warnings.drop_one() }
    }
}

/// Notes by object. Each object stands in the row at its turn; the lowest is next.
#[derive(Default)]
struct FairQueue {
    /// The notes of the object whose turn it is, oldest first; never none.
    events: BTreeMap<u64, VecDeque<PendingEvent>>,
    /// The turn of each object, by uid.
    turns: BTreeMap<String, u64>,
    /// How many notes there are at each turn. Of objects with as many, the one that waits the longest is the last.
    sizes: BTreeSet<(usize, Reverse<u64>)>,
    /// The turn of the next object that joins the row.
    turns_given: u64,
    len: usize,
}

impl FairQueue {
    fn push(&mut self, note: PendingEvent) {
        let turn = self.turns.get(&note.regarding.uid).copied().unwrap_or_else(|| self.last_turn());
        let mut notes = self.remove_object(turn);
        notes.push_back(note);
        self.insert_object(turn, notes);
    }

    fn take(&mut self, count: usize, beside: &[PendingEvent]) -> Vec<PendingEvent> {
        let is_other = |notes: &VecDeque<PendingEvent>| {
            notes.front().is_some_and(|note| beside.iter().all(|other| other.regarding.uid != note.regarding.uid))
        };
        let next = self.events.iter().filter(|(_, notes)| is_other(notes)).map(|(turn, _)| *turn);
        let next: Vec<u64> = next.take(count).collect();
        next.into_iter().filter_map(|turn| self.take_from(turn)).collect()
    }

    /// The oldest note of an object, which stands last in the row from then on.
    fn take_from(&mut self, turn: u64) -> Option<PendingEvent> {
        let mut notes = self.remove_object(turn);
        let oldest = notes.pop_front();
        let last = self.last_turn();
        self.insert_object(last, notes);
        oldest
    }

    fn drop_one(&mut self) {
        let Some((_, Reverse(turn))) = self.sizes.last().copied() else { return };
        let mut notes = self.remove_object(turn);
        notes.pop_front();
        self.insert_object(turn, notes);
    }

    /// Takes an object out of the row, with all that waits about it.
    fn remove_object(&mut self, turn: u64) -> VecDeque<PendingEvent> {
        let Some(notes) = self.events.remove(&turn) else { return VecDeque::new() };
        if let Some(note) = notes.front() {
            self.turns.remove(&note.regarding.uid);
        }
        self.sizes.remove(&(notes.len(), Reverse(turn)));
        self.len -= notes.len();
        notes
    }

    fn insert_object(&mut self, turn: u64, notes: VecDeque<PendingEvent>) {
        let Some(note) = notes.front() else { return };
        self.turns.insert(note.regarding.uid.clone(), turn);
        self.sizes.insert((notes.len(), Reverse(turn)));
        self.len += notes.len();
        self.events.insert(turn, notes);
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

    /// Each word is a note, about the object of its first letter; capitals are warnings.
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
        waiting.take(count).into_iter().map(|note| note.message).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_written_side_by_side_is_about_different_objects_and_of_one_the_oldest_goes_first() {
        let mut waiting = pending("a0 b1 a2 c3 d4 e5");
        assert_eq!([taken(&mut waiting, 3), taken(&mut waiting, 3)], ["a0 b1 c3", "d4 e5 a2"]);
        assert_eq!((taken(&mut waiting, 3).as_str(), waiting.len()), ("", 0));
    }

    // One Job with thousands of pods kept the only event of every other waiting for seconds.
    #[test]
    fn an_object_with_much_to_tell_does_not_keep_the_others_waiting() {
        let mut waiting = pending("a0 a1 a2 a3 a4 b5 a6 c7 b8");
        assert_eq!(taken(&mut waiting, 1), "a0");
        assert_eq!(taken(&mut waiting, 2), "b5 c7");
        assert_eq!(taken(&mut waiting, 8), "a1 b8");
        assert_eq!(taken(&mut waiting, 8), "a2");
    }

    #[test]
    fn warnings_go_first_and_still_one_note_about_an_object_at_a_time() {
        let mut waiting = pending("a0 a1 b2 A3 c4 C5");
        assert_eq!(taken(&mut waiting, 8), "A3 C5 b2");
        assert_eq!(taken(&mut waiting, 8), "a0 c4");
        assert_eq!(taken(&mut waiting, 1), "a1");
    }

    #[test]
    fn the_oldest_note_of_the_object_with_the_most_is_given_up_and_warnings_last() {
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
        rows.iter().flat_map(|row| row.events.values().flatten().map(|note| note.message.clone())).collect()
    }
}
