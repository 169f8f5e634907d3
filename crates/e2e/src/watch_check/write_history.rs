//! The writes, and the events that a watcher must have received.

use std::collections::BTreeMap;
use std::fmt;

/// Namespace and name. Names are unique.
pub type PodKey = (String, String);

/// A write that was applied.
#[derive(Clone, Debug)]
pub struct WriteRecord {
    /// The object's label `side` after the write; `None` when it was deleted.
    pub side: Option<&'static str>,
    /// The write has a revision from `low` to `high`. For a put both are its own revision.
    pub min_revision: u64,
    pub max_revision: u64,
}

/// All writes of a run, in order for each object.
pub type WriteHistory = BTreeMap<PodKey, Vec<WriteRecord>>;

/// The scope of a watcher.
#[derive(Clone, Copy, Debug)]
pub struct WatchScope {
    pub namespace: Option<&'static str>,
    pub side: Option<SideSelector>,
}

/// A label selector on `side`.
#[derive(Clone, Copy, Debug)]
pub enum SideSelector {
    Is(&'static str),
    IsNot(&'static str),
}

impl WatchScope {
    /// Whether an object with this label is in scope.
    pub fn includes(&self, namespace: &str, side: Option<&str>) -> bool {
        let side_fits = match (self.side, side) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(SideSelector::Is(wanted)), Some(side)) => side == wanted,
            (Some(SideSelector::IsNot(unwanted)), Some(side)) => side != unwanted,
        };
        side_fits && self.namespace.is_none_or(|wanted| wanted == namespace)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEventKind {
    Added,
    Modified,
    Deleted,
}

/// An event as a watcher received it.
#[derive(Clone, Debug)]
pub struct WatchedEvent {
    pub revision: u64,
    pub kind: WatchEventKind,
    pub key: PodKey,
}

/// A range that a watcher followed without a gap: from a list, through any number of resumes, to a 410 or the end.
#[derive(Clone, Debug, Default)]
pub struct WatchSegment {
    /// The list's revision.
    pub from_revision: u64,
    /// Everything up to here was delivered, according to the last event or bookmark.
    pub to_revision: u64,
    pub events: Vec<WatchedEvent>,
}

/// The faults of a range; empty if it is ordered, unique, complete and contains no invented event.
pub fn faults(scope: &WatchScope, stretch: &WatchSegment, truth: &WriteHistory) -> Vec<String> {
    let mut faults = Vec::new();
    let mut last = stretch.from_revision;
    let mut by_key: BTreeMap<&PodKey, Vec<&WatchedEvent>> = BTreeMap::new();
    for event in &stretch.events {
        if event.revision <= last {
            faults.push(format!("{event} comes after {last}"));
        }
        last = event.revision;
        by_key.entry(&event.key).or_default().push(event);
    }
    for (key, writes) in truth {
        let events_seen = by_key.remove(key).unwrap_or_default();
        faults.extend(object_faults(scope, stretch, key, writes, &events_seen));
    }
    for event in by_key.into_values().flatten() {
        faults.push(format!("{event}: that object was never written"));
    }
    faults
}

fn object_faults(
    scope: &WatchScope,
    stretch: &WatchSegment,
    key: &PodKey,
    writes: &[WriteRecord],
    events_seen: &[&WatchedEvent],
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut events_seen = events_seen.iter().peekable();
    let mut before = false;
    for write in writes {
        let after = scope.includes(&key.0, write.side);
        let expected = match (before, after) {
            (false, false) => None,
            (false, true) => Some(WatchEventKind::Added),
            (true, true) => Some(WatchEventKind::Modified),
            (true, false) => Some(WatchEventKind::Deleted),
        };
        before = after;
        let Some(kind) = expected else { continue };
        // Events have the order of the writes, so the next one belongs to this write or to a later one.
        match events_seen.next_if(|event| (write.min_revision..=write.max_revision).contains(&event.revision)) {
            Some(event) if event.kind != kind => faults.push(format!("{event} should be {kind:?}")),
            Some(_) => {}
            None if write.min_revision > stretch.from_revision && write.max_revision <= stretch.to_revision => {
                let (from, to, name) = (stretch.from_revision, stretch.to_revision, &key.1);
                let (low, high) = (write.min_revision, write.max_revision);
                faults.push(format!("{kind:?} {name} at {low}..={high} is missing between {from} and {to}"));
            }
            None => {}
        }
    }
    faults.extend(events_seen.map(|event| format!("{event}: no such write")));
    faults
}

impl fmt::Display for WatchedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{} at {}", self.kind, self.key.0, self.key.1, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PodKey {
        ("default".into(), "a".into())
    }

    fn put(side: &'static str, revision: u64) -> WriteRecord {
        WriteRecord { side: Some(side), min_revision: revision, max_revision: revision }
    }

    fn write_history() -> WriteHistory {
        let deleted = WriteRecord { side: None, min_revision: 6, max_revision: 9 };
        BTreeMap::from([(key(), vec![put("left", 2), put("right", 4), put("left", 5), deleted])])
    }

    fn segment(from: u64, to: u64, events: &[(u64, WatchEventKind)]) -> WatchSegment {
        let events =
            events.iter().map(|(revision, kind)| WatchedEvent { revision: *revision, kind: *kind, key: key() });
        WatchSegment { from_revision: from, to_revision: to, events: events.collect() }
    }

    const ALL: WatchScope = WatchScope { namespace: None, side: None };
    const LEFT: WatchScope = WatchScope { namespace: None, side: Some(SideSelector::Is("left")) };

    #[test]
    fn a_complete_stretch_has_no_faults() {
        use WatchEventKind::{Added, Deleted, Modified};
        let whole = [(2, Added), (4, Modified), (5, Modified), (8, Deleted)];
        assert_eq!(faults(&ALL, &segment(0, 9, &whole), &write_history()), Vec::<String>::new());
        assert_eq!(faults(&ALL, &segment(4, 5, &whole[2..3]), &write_history()), Vec::<String>::new());
        let left = [(2, Added), (4, Deleted), (5, Added), (8, Deleted)];
        assert_eq!(faults(&LEFT, &segment(0, 9, &left), &write_history()), Vec::<String>::new());
        let other = WatchScope { namespace: Some("other"), side: None };
        assert_eq!(faults(&other, &segment(0, 9, &[]), &write_history()), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_fault_is_found() {
        use WatchEventKind::{Added, Deleted, Modified};
        for (case, scope, events) in [
            ("one missing", ALL, &[(2, Added), (5, Modified), (8, Deleted)][..]),
            ("delete missing", ALL, &[(2, Added), (4, Modified), (5, Modified)][..]),
            ("twice", ALL, &[(2, Added), (2, Added), (4, Modified), (5, Modified), (8, Deleted)][..]),
            ("out of order", ALL, &[(4, Modified), (2, Added), (5, Modified), (8, Deleted)][..]),
            ("wrong kind", ALL, &[(2, Modified), (4, Modified), (5, Modified), (8, Deleted)][..]),
            ("invented", ALL, &[(2, Added), (3, Modified), (4, Modified), (5, Modified), (8, Deleted)][..]),
            ("out of scope", LEFT, &[(2, Added), (4, Modified), (5, Modified), (8, Deleted)][..]),
        ] {
            assert_ne!(faults(&scope, &segment(0, 9, events), &write_history()), Vec::<String>::new(), "{case}");
        }
    }
}
