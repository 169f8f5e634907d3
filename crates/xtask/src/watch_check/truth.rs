//! What was written, and what a watcher must therefore have seen.

use std::collections::BTreeMap;
use std::fmt;

/// Namespace and name. No name is used twice.
pub type Key = (String, String);

/// A write that happened.
#[derive(Clone, Debug)]
pub struct Write {
    /// The object's label `side` after the write; `None` when it was deleted.
    pub side: Option<&'static str>,
    /// The write has the version `low` or a later one up to `high`. A put knows its own, so that both are it.
    pub low: u64,
    pub high: u64,
}

/// All writes of a run, in order for each object.
pub type Truth = BTreeMap<Key, Vec<Write>>;

/// What a watcher asked for.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub namespace: Option<&'static str>,
    pub side: Option<Side>,
}

/// A label selector on `side`.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    Is(&'static str),
    IsNot(&'static str),
}

impl Scope {
    /// Whether an object with this label belongs to it.
    pub fn holds(&self, namespace: &str, side: Option<&str>) -> bool {
        let side_fits = match (self.side, side) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(Side::Is(wanted)), Some(side)) => side == wanted,
            (Some(Side::IsNot(unwanted)), Some(side)) => side != unwanted,
        };
        side_fits && self.namespace.is_none_or(|wanted| wanted == namespace)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Added,
    Modified,
    Deleted,
}

/// An event as a watcher got it.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: u64,
    pub kind: Kind,
    pub key: Key,
}

/// A stretch that a watcher followed without a gap: from a list, through any number of resumes, to a 410 or the end.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// The list's version.
    pub from: u64,
    /// Everything up to here was delivered, as the last event or bookmark says.
    pub to: u64,
    pub events: Vec<Event>,
}

/// What is wrong with a stretch; empty when it is ordered, unique, complete and nothing in it is invented.
pub fn faults(scope: &Scope, stretch: &Stretch, truth: &Truth) -> Vec<String> {
    let mut faults = Vec::new();
    let mut last = stretch.from;
    let mut by_key: BTreeMap<&Key, Vec<&Event>> = BTreeMap::new();
    for event in &stretch.events {
        if event.revision <= last {
            faults.push(format!("{event} comes after {last}"));
        }
        last = event.revision;
        by_key.entry(&event.key).or_default().push(event);
    }
    for (key, writes) in truth {
        let seen = by_key.remove(key).unwrap_or_default();
        faults.extend(object_faults(scope, stretch, key, writes, &seen));
    }
    for event in by_key.into_values().flatten() {
        faults.push(format!("{event}: nobody wrote that object"));
    }
    faults
}

fn object_faults(scope: &Scope, stretch: &Stretch, key: &Key, writes: &[Write], seen: &[&Event]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = seen.iter().peekable();
    let mut before = false;
    for write in writes {
        let after = scope.holds(&key.0, write.side);
        let expected = match (before, after) {
            (false, false) => None,
            (false, true) => Some(Kind::Added),
            (true, true) => Some(Kind::Modified),
            (true, false) => Some(Kind::Deleted),
        };
        before = after;
        let Some(kind) = expected else { continue };
        // Events come in the order of the writes, so the next one is this write's or a later write's.
        match seen.next_if(|event| (write.low..=write.high).contains(&event.revision)) {
            Some(event) if event.kind != kind => faults.push(format!("{event} should be {kind:?}")),
            Some(_) => {}
            None if write.low > stretch.from && write.high <= stretch.to => {
                let (from, to, name) = (stretch.from, stretch.to, &key.1);
                let (low, high) = (write.low, write.high);
                faults.push(format!("{kind:?} {name} at {low}..={high} is missing between {from} and {to}"));
            }
            None => {}
        }
    }
    faults.extend(seen.map(|event| format!("{event}: no such write")));
    faults
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{} at {}", self.kind, self.key.0, self.key.1, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        ("default".into(), "a".into())
    }

    fn put(side: &'static str, revision: u64) -> Write {
        Write { side: Some(side), low: revision, high: revision }
    }

    fn truth() -> Truth {
        let deleted = Write { side: None, low: 6, high: 9 };
        BTreeMap::from([(key(), vec![put("left", 2), put("right", 4), put("left", 5), deleted])])
    }

    fn stretch(from: u64, to: u64, events: &[(u64, Kind)]) -> Stretch {
        let events = events.iter().map(|(revision, kind)| Event { revision: *revision, kind: *kind, key: key() });
        Stretch { from, to, events: events.collect() }
    }

    const ALL: Scope = Scope { namespace: None, side: None };
    const LEFT: Scope = Scope { namespace: None, side: Some(Side::Is("left")) };

    #[test]
    fn a_complete_stretch_has_no_faults() {
        use Kind::{Added, Deleted, Modified};
        let whole = [(2, Added), (4, Modified), (5, Modified), (8, Deleted)];
        assert_eq!(faults(&ALL, &stretch(0, 9, &whole), &truth()), Vec::<String>::new());
        assert_eq!(faults(&ALL, &stretch(4, 5, &whole[2..3]), &truth()), Vec::<String>::new());
        let left = [(2, Added), (4, Deleted), (5, Added), (8, Deleted)];
        assert_eq!(faults(&LEFT, &stretch(0, 9, &left), &truth()), Vec::<String>::new());
        let other = Scope { namespace: Some("other"), side: None };
        assert_eq!(faults(&other, &stretch(0, 9, &[]), &truth()), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_fault_is_found() {
        use Kind::{Added, Deleted, Modified};
        for (case, scope, events) in [
            ("one missing", ALL, &[(2, Added), (5, Modified), (8, Deleted)][..]),
            ("delete missing", ALL, &[(2, Added), (4, Modified), (5, Modified)][..]),
            ("twice", ALL, &[(2, Added), (2, Added), (4, Modified), (5, Modified), (8, Deleted)][..]),
            ("out of order", ALL, &[(4, Modified), (2, Added), (5, Modified), (8, Deleted)][..]),
            ("wrong kind", ALL, &[(2, Modified), (4, Modified), (5, Modified), (8, Deleted)][..]),
            ("invented", ALL, &[(2, Added), (3, Modified), (4, Modified), (5, Modified), (8, Deleted)][..]),
            ("out of scope", LEFT, &[(2, Added), (4, Modified), (5, Modified), (8, Deleted)][..]),
        ] {
            assert_ne!(faults(&scope, &stretch(0, 9, events), &truth()), Vec::<String>::new(), "{case}");
        }
    }
}
