//! The writes that the server has acknowledged to one client, and what must therefore be stored after a crash.

use std::collections::BTreeMap;

/// The writes of one client, by the Job's name. No other client writes these Jobs, so the ledger is exact.
#[derive(Debug, Default)]
pub struct ClientLedger {
    jobs: BTreeMap<String, LedgerEntry>,
    /// The highest revision of any response.
    pub revision: u64,
}

/// One Job of the client.
#[derive(Clone, Debug)]
struct LedgerEntry {
    state: AckedJobState,
    /// The value of the annotation that the client counts up, as acknowledged.
    touch_count: u64,
    /// The write without a response: it may have been applied or not.
    unanswered: Option<UnansweredWrite>,
    /// Complete with exact counts, so that it may be deleted.
    is_finished: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AckedJobState {
    /// Never acknowledged.
    Absent,
    /// Acknowledged, at this revision or a later one.
    Live { uid: String, revision: u64 },
    /// Its deletion is acknowledged. Names are never reused.
    Deleted,
}

/// A write without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnansweredWrite {
    Create,
    Touch(u64),
    Delete,
}

/// A Job as found after a crash.
#[derive(Clone, Debug)]
pub struct StoredJob {
    pub uid: String,
    pub revision: u64,
    pub touch_count: u64,
}

impl ClientLedger {
    /// The client is about to create this Job.
    pub fn begin_create(&mut self, name: &str) {
        let entry = LedgerEntry {
            state: AckedJobState::Absent,
            touch_count: 0,
            unanswered: Some(UnansweredWrite::Create),
            is_finished: false,
        };
        self.jobs.insert(name.to_owned(), entry);
    }

    /// The create was acknowledged.
    pub fn ack_create(&mut self, name: &str, uid: &str, revision: u64) {
        let entry = self.entry(name);
        (entry.state, entry.unanswered) = (AckedJobState::Live { uid: uid.to_owned(), revision }, None);
        self.revision = self.revision.max(revision);
    }

    /// The client is about to count the annotation up; returns the new value.
    pub fn begin_touch(&mut self, name: &str) -> u64 {
        let entry = self.entry(name);
        let value = entry.touch_count + 1;
        entry.unanswered = Some(UnansweredWrite::Touch(value));
        value
    }

    /// The change of the annotation was acknowledged.
    pub fn ack_touch(&mut self, name: &str, value: u64, revision: u64) {
        let entry = self.entry(name);
        (entry.touch_count, entry.unanswered) = (value, None);
        if let AckedJobState::Live { revision: known, .. } = &mut entry.state {
            *known = revision;
        }
        self.revision = self.revision.max(revision);
    }

    /// The client is about to delete this Job.
    pub fn begin_delete(&mut self, name: &str) {
        self.entry(name).unanswered = Some(UnansweredWrite::Delete);
    }

    /// The deletion was acknowledged.
    pub fn ack_delete(&mut self, name: &str) {
        let entry = self.entry(name);
        (entry.state, entry.unanswered) = (AckedJobState::Deleted, None);
    }

    /// The Job is complete and its counts are exact.
    pub fn mark_finished(&mut self, name: &str) {
        self.entry(name).is_finished = true;
    }

    /// Jobs that exist.
    pub fn live(&self) -> impl Iterator<Item = &str> {
        self.names(|entry| matches!(entry.state, AckedJobState::Live { .. }))
    }

    /// Jobs that exist and may be deleted.
    pub fn deletable(&self) -> impl Iterator<Item = &str> {
        self.names(|entry| matches!(entry.state, AckedJobState::Live { .. }) && entry.is_finished)
    }

    /// How many Jobs are not known to be complete.
    pub fn unfinished(&self) -> usize {
        self.names(|entry| entry.state != AckedJobState::Deleted && !entry.is_finished).count()
    }

    /// Jobs whose creation was not acknowledged and that do not exist: to be created again.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.names(|entry| entry.state == AckedJobState::Absent)
    }

    /// How many Jobs were created, and how many of them deleted.
    pub fn totals(&self) -> (usize, usize) {
        let deleted = self.jobs.values().filter(|entry| entry.state == AckedJobState::Deleted).count();
        (self.live().count() + deleted, deleted)
    }

    fn names(&self, keep: impl Fn(&LedgerEntry) -> bool) -> impl Iterator<Item = &str> {
        self.jobs.iter().filter(move |(_, entry)| keep(entry)).map(|(name, _)| name.as_str())
    }

    fn entry(&mut self, name: &str) -> &mut LedgerEntry {
        self.jobs.get_mut(name).expect("a client writes only Jobs that it has begun to create")
    }

    /// Compares the ledger with the restarted server, resolves every write without a response, and lists losses.
    pub fn reconcile(&mut self, found: &BTreeMap<String, StoredJob>) -> Vec<String> {
        let mut losses = Vec::new();
        for (name, entry) in &mut self.jobs {
            let doubt = entry.unanswered.take();
            match (&entry.state, found.get(name)) {
                (AckedJobState::Absent, Some(job)) => {
                    entry.state = AckedJobState::Live { uid: job.uid.clone(), revision: job.revision };
                    entry.touch_count = job.touch_count;
                }
                (AckedJobState::Live { .. }, None) if doubt == Some(UnansweredWrite::Delete) => {
                    entry.state = AckedJobState::Deleted
                }
                (AckedJobState::Live { .. }, None) => {
                    losses.push(format!("job {name}: its creation was acknowledged, but it does not exist"))
                }
                (AckedJobState::Live { uid, revision }, Some(job)) => {
                    if *uid != job.uid {
                        losses.push(format!("job {name}: acknowledged with uid {uid}, found with {}", job.uid));
                    }
                    if job.revision < *revision {
                        losses.push(format!("job {name}: acknowledged at {revision}, found at {}", job.revision));
                    }
                    let in_doubt = doubt == Some(UnansweredWrite::Touch(job.touch_count));
                    if job.touch_count != entry.touch_count && !in_doubt {
                        let (wanted, was) = (entry.touch_count, job.touch_count);
                        losses.push(format!("job {name}: annotation {wanted} was acknowledged, found {was}"));
                    }
                    entry.touch_count = job.touch_count;
                }
                (AckedJobState::Deleted, Some(job)) => {
                    losses.push(format!("job {name}: its deletion was acknowledged, found at {}", job.revision));
                }
                (AckedJobState::Absent | AckedJobState::Deleted, None) => {}
            }
        }
        losses
    }

    /// Whether this client ever tried to create the Job.
    pub fn contains(&self, name: &str) -> bool {
        self.jobs.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored_jobs(jobs: &[(&str, &str, u64, u64)]) -> BTreeMap<String, StoredJob> {
        let of = |(name, uid, revision, touched): &(&str, &str, u64, u64)| {
            ((*name).to_owned(), StoredJob { uid: (*uid).to_owned(), revision: *revision, touch_count: *touched })
        };
        jobs.iter().map(of).collect()
    }

    fn ledger() -> ClientLedger {
        let mut ledger = ClientLedger::default();
        ledger.begin_create("a");
        ledger.ack_create("a", "uid-a", 7);
        ledger
    }

    #[test]
    fn an_acknowledged_write_must_be_stored_as_it_was_or_newer() {
        for (case, after, want) in [
            ("as it was", stored_jobs(&[("a", "uid-a", 7, 0)]), ""),
            ("newer", stored_jobs(&[("a", "uid-a", 9, 0)]), ""),
            ("gone", stored_jobs(&[]), "job a: its creation was acknowledged, but it does not exist"),
            ("older", stored_jobs(&[("a", "uid-a", 6, 0)]), "job a: acknowledged at 7, found at 6"),
            ("another", stored_jobs(&[("a", "uid-b", 7, 0)]), "job a: acknowledged with uid uid-a, found with uid-b"),
            ("changed", stored_jobs(&[("a", "uid-a", 9, 3)]), "job a: annotation 0 was acknowledged, found 3"),
        ] {
            assert_eq!(ledger().reconcile(&after).join("\n"), want, "{case}");
        }
    }

    #[test]
    fn a_write_without_a_response_may_be_applied_or_not() {
        for after in [stored_jobs(&[]), stored_jobs(&[("b", "uid-b", 8, 0)])] {
            let mut ledger = ClientLedger::default();
            ledger.begin_create("b");
            assert!(ledger.reconcile(&after).is_empty());
            assert_eq!(ledger.missing().count(), 1 - after.len());
        }
        for touched in [0, 1] {
            let mut ledger = ledger();
            ledger.begin_touch("a");
            assert!(ledger.reconcile(&stored_jobs(&[("a", "uid-a", 8, touched)])).is_empty());
            // From now on the found state counts as acknowledged.
            assert_eq!(ledger.reconcile(&stored_jobs(&[("a", "uid-a", 8, 1 - touched)])).len(), 1);
        }
        let mut ledger = ledger();
        ledger.begin_delete("a");
        assert!(ledger.reconcile(&stored_jobs(&[])).is_empty());
        assert_eq!(ledger.reconcile(&stored_jobs(&[("a", "uid-a", 8, 0)])).len(), 1);
    }

    #[test]
    fn an_acknowledged_delete_is_permanent() {
        let mut ledger = ledger();
        ledger.begin_delete("a");
        ledger.ack_delete("a");
        assert_eq!(ledger.reconcile(&stored_jobs(&[("a", "uid-a", 7, 0)])).len(), 1);
        assert!(ledger.reconcile(&stored_jobs(&[])).is_empty());
    }
}
