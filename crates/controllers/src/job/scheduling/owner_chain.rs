//! The owners of a child Job: its parent, the controller of the parent, and so on up to the root.
//!
//! In a tree of objects only the root compiles the Workload (KEP-6089, Core Principles), and the controllers in between
//! pass the annotations on. So a child looks for the Workload of each of its owners. The nearest owner with a Workload
//! counts: a tree has one, and if there are several, that of the parent is found without reading other owners.
//!
//! Owners may be of any kind, so no cache has them. They are read from the server and added with
//! [`OwnerChain::record_lookup`].

use std::fmt;
use std::time::Duration;

use api::Timestamp;
use api::views::{MetaView, OwnerRef};
use runtime::Backoff;

use crate::job::settings::is_cron_job;

/// At most this many owners are read. Real trees have three levels; the limit is for trees that are deep on purpose.
pub const MAX_OWNERS: usize = 8;

/// The owners of a Job, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerChain {
    /// The parent first.
    owners: Vec<OwnerRef>,
    /// Why there are no more; `None` while owners are still to be read.
    end: Option<ChainEnd>,
}

/// Why an owner chain ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// The last owner has no controller, or is controlled by a CronJob, which manages no groups.
    Root,
    /// This owner does not exist, or another object has its name.
    Gone(OwnerRef),
    /// The last owner is controlled by an owner below it.
    Cycle,
    /// There are more than [`MAX_OWNERS`].
    TooMany,
    /// The controller of the last owner cannot be read, for this reason.
    Unreadable(String),
}

/// The result of reading an owner from the server.
#[derive(Clone, Debug)]
pub enum OwnerLookup {
    /// An object with this name.
    Found(Box<MetaView>),
    /// No such object.
    Absent,
    /// It cannot be read, and a retry does not help until the cluster is changed.
    Unreadable(String),
}

impl OwnerChain {
    /// A chain with only the parent, which the Job names.
    pub fn from(parent: OwnerRef) -> OwnerChain {
        OwnerChain { owners: vec![parent], end: None }
    }

    /// The owners, the nearest first.
    pub fn owners(&self) -> &[OwnerRef] {
        &self.owners
    }

    /// The next owner to read; `None` if the chain is complete.
    pub fn next_lookup(&self) -> Option<&OwnerRef> {
        self.owners.last().filter(|_| self.end.is_none())
    }

    /// Adds the result of reading the owner of [`OwnerChain::next_lookup`].
    pub fn record_lookup(&mut self, lookup: OwnerLookup) {
        let Some(owner) = self.next_lookup().cloned() else { return };
        let meta = match lookup {
            OwnerLookup::Found(meta) if meta.uid == owner.uid => meta,
            OwnerLookup::Found(_) | OwnerLookup::Absent => return self.truncate_before(owner),
            OwnerLookup::Unreadable(reason) => return self.end = Some(ChainEnd::Unreadable(reason)),
        };
        match meta.controller().filter(|owner| !is_cron_job(owner)) {
            None => self.end = Some(ChainEnd::Root),
            Some(next) if self.owners.iter().any(|owner| owner.uid == next.uid) => self.end = Some(ChainEnd::Cycle),
            Some(_) if self.owners.len() == MAX_OWNERS => self.end = Some(ChainEnd::TooMany),
            Some(next) => self.owners.push(next.clone()),
        }
    }

    /// A Workload of an owner that does not exist is not for this Job. The parent stays, because the Job names it.
    fn truncate_before(&mut self, gone: OwnerRef) {
        if self.owners.len() > 1 {
            self.owners.pop();
        }
        self.end = Some(ChainEnd::Gone(gone));
    }
}

/// The owners in a message: `JobSet a or TrainJob b`.
impl fmt::Display for OwnerChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.owners.iter().map(name_of).collect();
        f.write_str(&names.join(" or "))
    }
}

impl OwnerChain {
    /// Why the chain is incomplete, for messages; empty if it is complete.
    pub fn gap_message(&self) -> String {
        let last = self.owners.last().map(name_of).unwrap_or_default();
        match &self.end {
            None | Some(ChainEnd::Root) => String::new(),
            Some(ChainEnd::Gone(owner)) => format!("; {} does not exist", name_of(owner)),
            Some(ChainEnd::Cycle) => format!("; {last} is controlled by an object that it owns"),
            Some(ChainEnd::TooMany) => format!("; {last} is the last of {MAX_OWNERS} owners that are read"),
            Some(ChainEnd::Unreadable(reason)) => format!("; the controller of {last} cannot be read: {reason}"),
        }
    }
}

/// Kind and name for messages.
pub fn name_of(owner: &OwnerRef) -> String {
    format!("{} {}", owner.kind, owner.name)
}

/// An owner as the `controllerRef` of a Workload would name it, in the form of the index.
pub fn controller_ref(namespace: &str, owner: &OwnerRef) -> String {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    format!("{namespace}/{group}/{}/{}", owner.kind, owner.name)
}

/// An owner chain with the time of its lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedOwnerChain {
    /// The chain.
    pub chain: OwnerChain,
    /// How often it was looked up.
    pub lookups: u32,
    /// When it was last looked up.
    pub looked_up_at: Timestamp,
}

impl CachedOwnerChain {
    /// When to look up again the owners of a Job without a Workload. An owner reference, a kind or a permission may be added
    /// without an event for this controller.
    pub fn due_in(&self, now: Timestamp, retry: Backoff) -> Duration {
        // If the clock was set back, the last lookup is in the future. Then a lookup is due at once.
        let passed = Duration::try_from(now.duration_since(self.looked_up_at)).unwrap_or(Duration::MAX);
        retry.delay(self.lookups).saturating_sub(passed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::job::tests::at;

    /// `Kind/name` or `Kind/name@uid`; the default uid is the name.
    fn owner(text: &str) -> OwnerRef {
        let (kind, name) = text.split_once('/').expect("a kind and a name");
        let (name, uid) = name.split_once('@').unwrap_or((name, name));
        let group = if kind == "CronJob" { "batch/v1" } else { "example.com/v1" };
        OwnerRef {
            api_version: group.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            controller: true,
            ..OwnerRef::default()
        }
    }

    /// The chain from `Set/a` up, where each line of `world` is an object and its controller.
    fn resolve_text(world: &[(&str, &str)]) -> String {
        let world: BTreeMap<&str, &str> = world.iter().copied().collect();
        let look_up = |wanted: &OwnerRef| match world.get(wanted.name.as_str()) {
            None => OwnerLookup::Absent,
            Some(&"forbidden") => OwnerLookup::Unreadable("it is forbidden".to_owned()),
            Some(above) => {
                let owner_references = (!above.is_empty()).then(|| owner(above)).into_iter().collect();
                let meta = MetaView { uid: wanted.name.clone(), owner_references, ..MetaView::default() };
                OwnerLookup::Found(Box::new(meta))
            }
        };
        let mut chain = OwnerChain::from(owner("Set/a"));
        while let Some(wanted) = chain.next_lookup() {
            let lookup = look_up(wanted);
            chain.record_lookup(lookup);
        }
        format!("{chain}{}", chain.gap_message())
    }

    #[test]
    fn owners_are_followed_up_to_the_root_or_the_first_uncertain_one() {
        for (case, world, want) in [
            ("a root", vec![("a", "")], "Set a"),
            ("three levels", vec![("a", "Train/b"), ("b", "Flow/c"), ("c", "")], "Set a or Train b or Flow c"),
            ("a CronJob is no parent", vec![("a", "CronJob/c"), ("c", "")], "Set a"),
            ("the parent does not exist", vec![], "Set a; Set a does not exist"),
            ("an owner does not exist", vec![("a", "Train/b")], "Set a; Train b does not exist"),
            (
                "another of the same name exists",
                vec![("a", "Train/b@old"), ("b", "Flow/c"), ("c", "")],
                "Set a; Train b does not exist",
            ),
            (
                "a cycle",
                vec![("a", "Train/b"), ("b", "Set/a")],
                "Set a or Train b; Train b is controlled by an object that it owns",
            ),
            (
                "one may not be read",
                vec![("a", "Train/b"), ("b", "forbidden")],
                "Set a or Train b; the controller of Train b cannot be read: it is forbidden",
            ),
            (
                "the parent may not be read",
                vec![("a", "forbidden")],
                "Set a; the controller of Set a cannot be read: it is forbidden",
            ),
        ] {
            assert_eq!(resolve_text(&world), want, "{case}");
        }
    }

    #[test]
    fn at_most_max_owners_are_read() {
        let chain: Vec<(String, String)> =
            ('a'..='z').zip('b'..).map(|(of, by)| (of.into(), format!("Set/{by}"))).collect();
        let world: Vec<(&str, &str)> = chain.iter().map(|(of, by)| (of.as_str(), by.as_str())).collect();
        let found = resolve_text(&world);
        assert!(found.ends_with("Set g or Set h; Set h is the last of 8 owners that are read"), "{found}");
    }

    #[test]
    fn a_job_without_a_workload_is_looked_up_less_and_less_often() {
        let retry = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(60) };
        for (case, lookups, now, want) in [
            ("just looked up", 1, 100, 1),
            ("meanwhile", 4, 105, 3),
            ("due", 4, 108, 0),
            ("long ago", 4, 1000, 0),
            ("never longer than the longest back-off", 40, 100, 60),
            ("the clock was set back", 40, 7, 0),
        ] {
            let cached = CachedOwnerChain { chain: OwnerChain::from(owner("Set/a")), lookups, looked_up_at: at(100) };
            assert_eq!(cached.due_in(at(now), retry), Duration::from_secs(want), "{case}");
        }
    }
}
