//! Whose a Job is: its parent, whoever controls that, and so on up to the root.
//!
//! Of a tree of objects the root alone compiles the Workload (KEP-6089, Core Principles), and controllers in between hand
//! the annotations down. So a child looks for the Workload of each of its owners. The nearest that has one counts: there
//! is one in a tree, and where somebody made several, the one of the parent is found without asking for anybody else.
//!
//! Owners may be of any kind, so no cache has them: what the server says of each comes in by [`OwnerChain::record_lookup`].

use std::fmt;
use std::time::Duration;

use api::Timestamp;
use api::views::{MetaView, OwnerRef};
use runtime::Backoff;

use crate::job::settings::is_cron_job;

/// No more owners than this are looked at. Real trees have three levels; this is for those that somebody builds to be deep.
pub const MAX_OWNERS: usize = 8;

/// The owners of a Job, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerChain {
    /// The parent first.
    owners: Vec<OwnerRef>,
    /// Why there are no more of them; `None` while the server has still to be asked.
    end: Option<ChainEnd>,
}

/// Why a lineage ends where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// Nobody controls the last owner, or a CronJob, which sees to nobody's groups.
    Root,
    /// This owner is not there, or another object has come to bear its name.
    Gone(OwnerRef),
    /// The last owner is controlled by one that is below it.
    Cycle,
    /// There are more than are looked at.
    TooMany,
    /// Who controls the last owner cannot be read, for this reason.
    Unreadable(String),
}

/// What the server says of an owner.
#[derive(Clone, Debug)]
pub enum OwnerLookup {
    /// There is one of that name.
    Found(Box<MetaView>),
    /// There is none.
    Absent,
    /// It does not say, and will not until somebody changes that.
    Unreadable(String),
}

impl OwnerChain {
    /// What a Job itself says.
    pub fn from(parent: OwnerRef) -> OwnerChain {
        OwnerChain { owners: vec![parent], end: None }
    }

    /// The owners, the nearest first.
    pub fn owners(&self) -> &[OwnerRef] {
        &self.owners
    }

    /// Whom the server is to be asked for; nobody once all is known.
    pub fn next_lookup(&self) -> Option<&OwnerRef> {
        self.owners.last().filter(|_| self.end.is_none())
    }

    /// Takes in what the server says of the owner that was asked for.
    pub fn record_lookup(&mut self, answer: OwnerLookup) {
        let Some(asked) = self.next_lookup().cloned() else { return };
        let meta = match answer {
            OwnerLookup::Found(meta) if meta.uid == asked.uid => meta,
            OwnerLookup::Found(_) | OwnerLookup::Absent => return self.truncate_before(asked),
            OwnerLookup::Unreadable(why) => return self.end = Some(ChainEnd::Unreadable(why)),
        };
        match meta.controller().filter(|owner| !is_cron_job(owner)) {
            None => self.end = Some(ChainEnd::Root),
            Some(next) if self.owners.iter().any(|owner| owner.uid == next.uid) => self.end = Some(ChainEnd::Cycle),
            Some(_) if self.owners.len() == MAX_OWNERS => self.end = Some(ChainEnd::TooMany),
            Some(next) => self.owners.push(next.clone()),
        }
    }

    /// A Workload that names an owner which is not there is somebody else's. The parent stays: it is the Job's own word.
    fn truncate_before(&mut self, gone: OwnerRef) {
        if self.owners.len() > 1 {
            self.owners.pop();
        }
        self.end = Some(ChainEnd::Gone(gone));
    }
}

/// The owners as a message names them: `JobSet a or TrainJob b`.
impl fmt::Display for OwnerChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.owners.iter().map(name_of).collect();
        f.write_str(&names.join(" or "))
    }
}

impl OwnerChain {
    /// What keeps the owners from being all there are, for people; empty where nothing does.
    pub fn gap_message(&self) -> String {
        let last = self.owners.last().map(name_of).unwrap_or_default();
        match &self.end {
            None | Some(ChainEnd::Root) => String::new(),
            Some(ChainEnd::Gone(owner)) => format!("; {} is not there", name_of(owner)),
            Some(ChainEnd::Cycle) => format!("; {last} is controlled by one of its own"),
            Some(ChainEnd::TooMany) => format!("; {last} is the last of {MAX_OWNERS} owners that are looked at"),
            Some(ChainEnd::Unreadable(why)) => format!("; who controls {last} cannot be read: {why}"),
        }
    }
}

/// Kind and name, as messages have them.
pub fn name_of(owner: &OwnerRef) -> String {
    format!("{} {}", owner.kind, owner.name)
}

/// An owner as the `controllerRef` of a Workload would name it, in the form of the index.
pub fn controller_ref(namespace: &str, owner: &OwnerRef) -> String {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    format!("{namespace}/{group}/{}/{}", owner.kind, owner.name)
}

/// A lineage, and how old it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedOwnerChain {
    /// What the server said.
    pub chain: OwnerChain,
    /// How often it was asked.
    pub lookups: u32,
    /// When it was last asked.
    pub looked_up_at: Timestamp,
}

impl CachedOwnerChain {
    /// When to ask again about a Job that has found no Workload: an object may be given an owner, a kind be installed, a
    /// right be granted, and no event tells of it.
    pub fn due_in(&self, now: Timestamp, retry: Backoff) -> Duration {
        // On a clock that was set back it was asked in the future; that is no reason to wait until then.
        let passed = Duration::try_from(now.duration_since(self.looked_up_at)).unwrap_or(Duration::MAX);
        retry.delay(self.lookups).saturating_sub(passed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::job::tests::at;

    /// `Kind/name`, whose uid is its name unless `@` says another.
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

    /// What is found from `Set/a` up, where each line of `world` is an object and who controls it.
    fn resolve_text(world: &[(&str, &str)]) -> String {
        let world: BTreeMap<&str, &str> = world.iter().copied().collect();
        let answer = |asked: &OwnerRef| match world.get(asked.name.as_str()) {
            None => OwnerLookup::Absent,
            Some(&"forbidden") => OwnerLookup::Unreadable("it is forbidden".to_owned()),
            Some(above) => {
                let owner_references = (!above.is_empty()).then(|| owner(above)).into_iter().collect();
                let meta = MetaView { uid: asked.name.clone(), owner_references, ..MetaView::default() };
                OwnerLookup::Found(Box::new(meta))
            }
        };
        let mut lineage = OwnerChain::from(owner("Set/a"));
        while let Some(asked) = lineage.next_lookup() {
            let answer = answer(asked);
            lineage.record_lookup(answer);
        }
        format!("{lineage}{}", lineage.gap_message())
    }

    #[test]
    fn owners_are_followed_to_the_root_and_no_further_than_is_certain() {
        for (case, world, want) in [
            ("a root", vec![("a", "")], "Set a"),
            ("three levels", vec![("a", "Train/b"), ("b", "Flow/c"), ("c", "")], "Set a or Train b or Flow c"),
            ("a CronJob is nobody's parent", vec![("a", "CronJob/c"), ("c", "")], "Set a"),
            ("the parent is not there", vec![], "Set a; Set a is not there"),
            ("an owner is not there", vec![("a", "Train/b")], "Set a; Train b is not there"),
            (
                "another of the same name is",
                vec![("a", "Train/b@old"), ("b", "Flow/c"), ("c", "")],
                "Set a; Train b is not there",
            ),
            (
                "a circle",
                vec![("a", "Train/b"), ("b", "Set/a")],
                "Set a or Train b; Train b is controlled by one of its own",
            ),
            (
                "one may not be read",
                vec![("a", "Train/b"), ("b", "forbidden")],
                "Set a or Train b; who controls Train b cannot be read: it is forbidden",
            ),
            (
                "the parent may not be read",
                vec![("a", "forbidden")],
                "Set a; who controls Set a cannot be read: it is forbidden",
            ),
        ] {
            assert_eq!(resolve_text(&world), want, "{case}");
        }
    }

    #[test]
    fn a_tree_of_any_depth_is_read_to_a_bound() {
        let chain: Vec<(String, String)> =
            ('a'..='z').zip('b'..).map(|(of, by)| (of.into(), format!("Set/{by}"))).collect();
        let world: Vec<(&str, &str)> = chain.iter().map(|(of, by)| (of.as_str(), by.as_str())).collect();
        let found = resolve_text(&world);
        assert!(found.ends_with("Set g or Set h; Set h is the last of 8 owners that are looked at"), "{found}");
    }

    #[test]
    fn a_job_without_a_workload_is_looked_up_less_and_less_often() {
        let retry = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(60) };
        for (case, asked, now, want) in [
            ("just asked", 1, 100, 1),
            ("meanwhile", 4, 105, 3),
            ("due", 4, 108, 0),
            ("long ago", 4, 1000, 0),
            ("never longer than the longest wait", 40, 100, 60),
            ("in the future of a clock that was set back", 40, 7, 0),
        ] {
            let known =
                CachedOwnerChain { chain: OwnerChain::from(owner("Set/a")), lookups: asked, looked_up_at: at(100) };
            assert_eq!(known.due_in(at(now), retry), Duration::from_secs(want), "{case}");
        }
    }
}
