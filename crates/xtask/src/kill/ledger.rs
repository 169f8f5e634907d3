//! What the server has acknowledged to one client, and what must therefore be there after a crash.

use std::collections::BTreeMap;

/// The writes of one client, by the Job's name. No other client touches these Jobs, so the book is exact.
#[derive(Debug, Default)]
pub struct Ledger {
    jobs: BTreeMap<String, Entry>,
    /// The highest version any answer carried.
    pub revision: u64,
}

/// One Job of the client's.
#[derive(Clone, Debug)]
struct Entry {
    state: State,
    /// The value of the annotation that the client counts up, as acknowledged.
    touched: u64,
    /// The write whose answer never came: it may have happened or not.
    doubt: Option<Doubt>,
    /// Seen complete with exact counts, so that it may be deleted.
    is_finished: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Never acknowledged.
    Absent,
    /// Acknowledged; at this version or a later one.
    Live { uid: String, revision: u64 },
    /// Its deletion is acknowledged. Names are never used again.
    Deleted,
}

/// A write whose answer never came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    Create,
    Touch(u64),
    Delete,
}

/// A Job as it was found after a crash.
#[derive(Clone, Debug)]
pub struct Found {
    pub uid: String,
    pub revision: u64,
    pub touched: u64,
}

impl Ledger {
    /// The client is about to create this Job.
    pub fn creates(&mut self, name: &str) {
        let entry = Entry { state: State::Absent, touched: 0, doubt: Some(Doubt::Create), is_finished: false };
        self.jobs.insert(name.to_owned(), entry);
    }

    /// The create was acknowledged.
    pub fn created(&mut self, name: &str, uid: &str, revision: u64) {
        let entry = self.entry(name);
        (entry.state, entry.doubt) = (State::Live { uid: uid.to_owned(), revision }, None);
        self.revision = self.revision.max(revision);
    }

    /// The client is about to count the annotation up; returns the new value.
    pub fn touches(&mut self, name: &str) -> u64 {
        let entry = self.entry(name);
        let value = entry.touched + 1;
        entry.doubt = Some(Doubt::Touch(value));
        value
    }

    /// The change of the annotation was acknowledged.
    pub fn touched(&mut self, name: &str, value: u64, revision: u64) {
        let entry = self.entry(name);
        (entry.touched, entry.doubt) = (value, None);
        if let State::Live { revision: known, .. } = &mut entry.state {
            *known = revision;
        }
        self.revision = self.revision.max(revision);
    }

    /// The client is about to delete this Job.
    pub fn deletes(&mut self, name: &str) {
        self.entry(name).doubt = Some(Doubt::Delete);
    }

    /// The deletion was acknowledged.
    pub fn deleted(&mut self, name: &str) {
        let entry = self.entry(name);
        (entry.state, entry.doubt) = (State::Deleted, None);
    }

    /// The Job is complete and its counts are exact.
    pub fn finished(&mut self, name: &str) {
        self.entry(name).is_finished = true;
    }

    /// Jobs that are there.
    pub fn live(&self) -> impl Iterator<Item = &str> {
        self.names(|entry| matches!(entry.state, State::Live { .. }))
    }

    /// Jobs that are there and may be deleted.
    pub fn deletable(&self) -> impl Iterator<Item = &str> {
        self.names(|entry| matches!(entry.state, State::Live { .. }) && entry.is_finished)
    }

    /// How many Jobs were not seen complete yet.
    pub fn unfinished(&self) -> usize {
        self.names(|entry| entry.state != State::Deleted && !entry.is_finished).count()
    }

    /// Jobs that were to be created and are not there: to be created again.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.names(|entry| entry.state == State::Absent)
    }

    /// How many Jobs were created, and how many of them deleted.
    pub fn totals(&self) -> (usize, usize) {
        let deleted = self.jobs.values().filter(|entry| entry.state == State::Deleted).count();
        (self.live().count() + deleted, deleted)
    }

    fn names(&self, keep: impl Fn(&Entry) -> bool) -> impl Iterator<Item = &str> {
        self.jobs.iter().filter(move |(_, entry)| keep(entry)).map(|(name, _)| name.as_str())
    }

    fn entry(&mut self, name: &str) -> &mut Entry {
        self.jobs.get_mut(name).expect("a client writes only Jobs that it has begun to create")
    }

    /// Compares the book with what the restarted server holds, settles every doubt by it, and lists what is lost.
    pub fn settle(&mut self, found: &BTreeMap<String, Found>) -> Vec<String> {
        let mut losses = Vec::new();
        for (name, entry) in &mut self.jobs {
            let doubt = entry.doubt.take();
            match (&entry.state, found.get(name)) {
                (State::Absent, Some(job)) => {
                    entry.state = State::Live { uid: job.uid.clone(), revision: job.revision };
                    entry.touched = job.touched;
                }
                (State::Live { .. }, None) if doubt == Some(Doubt::Delete) => entry.state = State::Deleted,
                (State::Live { .. }, None) => {
                    losses.push(format!("job {name}: its creation was acknowledged, it is gone"))
                }
                (State::Live { uid, revision }, Some(job)) => {
                    if *uid != job.uid {
                        losses.push(format!("job {name}: acknowledged with uid {uid}, found with {}", job.uid));
                    }
                    if job.revision < *revision {
                        losses.push(format!("job {name}: acknowledged at {revision}, found at {}", job.revision));
                    }
                    let in_doubt = doubt == Some(Doubt::Touch(job.touched));
                    if job.touched != entry.touched && !in_doubt {
                        let (wanted, was) = (entry.touched, job.touched);
                        losses.push(format!("job {name}: annotation {wanted} was acknowledged, found {was}"));
                    }
                    entry.touched = job.touched;
                }
                (State::Deleted, Some(job)) => {
                    losses.push(format!("job {name}: its deletion was acknowledged, found at {}", job.revision));
                }
                (State::Absent | State::Deleted, None) => {}
            }
        }
        losses
    }

    /// Whether this client ever tried to create the Job.
    pub fn knows(&self, name: &str) -> bool {
        self.jobs.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(jobs: &[(&str, &str, u64, u64)]) -> BTreeMap<String, Found> {
        let of = |(name, uid, revision, touched): &(&str, &str, u64, u64)| {
            ((*name).to_owned(), Found { uid: (*uid).to_owned(), revision: *revision, touched: *touched })
        };
        jobs.iter().map(of).collect()
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.creates("a");
        ledger.created("a", "uid-a", 7);
        ledger
    }

    #[test]
    fn an_acknowledged_write_must_be_there_as_it_was_or_newer() {
        for (case, after, want) in [
            ("as it was", found(&[("a", "uid-a", 7, 0)]), ""),
            ("newer", found(&[("a", "uid-a", 9, 0)]), ""),
            ("gone", found(&[]), "job a: its creation was acknowledged, it is gone"),
            ("older", found(&[("a", "uid-a", 6, 0)]), "job a: acknowledged at 7, found at 6"),
            ("another", found(&[("a", "uid-b", 7, 0)]), "job a: acknowledged with uid uid-a, found with uid-b"),
            ("changed", found(&[("a", "uid-a", 9, 3)]), "job a: annotation 0 was acknowledged, found 3"),
        ] {
            assert_eq!(ledger().settle(&after).join("\n"), want, "{case}");
        }
    }

    #[test]
    fn a_write_without_an_answer_may_have_happened_or_not() {
        for after in [found(&[]), found(&[("b", "uid-b", 8, 0)])] {
            let mut ledger = Ledger::default();
            ledger.creates("b");
            assert!(ledger.settle(&after).is_empty());
            assert_eq!(ledger.missing().count(), 1 - after.len());
        }
        for touched in [0, 1] {
            let mut ledger = ledger();
            ledger.touches("a");
            assert!(ledger.settle(&found(&[("a", "uid-a", 8, touched)])).is_empty());
            // From now on what was found counts as acknowledged.
            assert_eq!(ledger.settle(&found(&[("a", "uid-a", 8, 1 - touched)])).len(), 1);
        }
        let mut ledger = ledger();
        ledger.deletes("a");
        assert!(ledger.settle(&found(&[])).is_empty());
        assert_eq!(ledger.settle(&found(&[("a", "uid-a", 8, 0)])).len(), 1);
    }

    #[test]
    fn an_acknowledged_delete_stays() {
        let mut ledger = ledger();
        ledger.deletes("a");
        ledger.deleted("a");
        assert_eq!(ledger.settle(&found(&[("a", "uid-a", 7, 0)])).len(), 1);
        assert!(ledger.settle(&found(&[])).is_empty());
    }
}
