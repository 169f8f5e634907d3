//! Groups and who belongs to them. A group is known as soon as its PodGroup or one of its pods is seen.

use std::collections::{BTreeMap, BTreeSet};

use api::views::ObjectKey;
use rustc_hash::FxHashMap;

use crate::cluster::TopologyId;
use crate::pods::PodId;
use crate::queue::Turn;

/// Stands for a group while the core knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u32);

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) key: ObjectKey,
    /// What the PodGroup says; none while there is no such object.
    pub(crate) terms: Option<Terms>,
    /// Pods to be placed, by the order they were first seen.
    // Who counts: every pod of the namespace that names the group. Once PodGroups with an owner refuse pods of others
    // (design: section 4), those stay out of here and are reported alone.
    pub(crate) pending: BTreeMap<u64, PodId>,
    /// Pods that are assumed or bound and not being deleted.
    // Upstream: pods that are being deleted count and pin the domain until they are gone, so that a gang whose old
    // pods linger on a lost rack cannot start anew elsewhere.
    pub(crate) placed: BTreeSet<PodId>,
    /// Pods that ran to their end and still exist. They had their place, so they count toward `minCount`.
    // Upstream: they drop out, so that the last pods of a Job that has to replace one of them wait for ever.
    pub(crate) succeeded_count: usize,
    /// Pods of any stage.
    pub(crate) pods_count: usize,
    /// When it is the group's turn; follows from the PodGroup's priority and the first pod seen.
    pub(crate) turn: Turn,
}

/// The part of a PodGroup that placement reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// None for a Basic group.
    pub(crate) min_count: Option<usize>,
    pub(crate) topology: Option<TopologyId>,
    pub(crate) priority: i32,
    /// The gang had its `min_count` once, which is enough for pods that come while others of it run.
    pub(crate) satisfied: bool,
}

/// Whether a group can be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// No pod waits.
    NothingPending,
    /// Pods wait, the PodGroup is not there.
    NoPodGroup,
    /// A gang with fewer pods than it needs.
    Incomplete,
    Ready,
}

impl Group {
    /// Members that count as placed.
    pub(crate) fn placed_count(&self) -> usize {
        self.placed.len() + self.succeeded_count
    }

    /// How many members there must be for any to be placed; none for a Basic group, and for a gang that runs once it had
    /// its `min_count`. Where none runs any more, as after a suspension, the gang starts as a whole again.
    // Upstream: the count binds for ever, so that a Job whose pods fail one by one ends up waiting for all of them.
    pub(crate) fn min_count(&self) -> Option<usize> {
        let terms = self.terms.as_ref()?;
        terms.min_count.filter(|_| !terms.satisfied || self.placed.is_empty())
    }

    pub(crate) fn readiness(&self) -> Readiness {
        if self.pending.is_empty() {
            Readiness::NothingPending
        } else if self.terms.is_none() {
            Readiness::NoPodGroup
        } else if self.pending.len() + self.placed_count() < self.min_count().unwrap_or(1) {
            Readiness::Incomplete
        } else {
            Readiness::Ready
        }
    }
}

/// All groups, by id and by name.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    entries: Vec<Option<Group>>,
    free: Vec<GroupId>,
    by_key: FxHashMap<ObjectKey, GroupId>,
}

impl Groups {
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<GroupId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn get(&self, id: GroupId) -> &Group {
        self.entries[id.0 as usize].as_ref().expect("an id is used only while its group is known")
    }

    pub(crate) fn get_mut(&mut self, id: GroupId) -> &mut Group {
        self.entries[id.0 as usize].as_mut().expect("an id is used only while its group is known")
    }

    /// The group called `key`, which may be new.
    pub(crate) fn find_or_add(&mut self, key: &ObjectKey) -> GroupId {
        if let Some(id) = self.find(key) {
            return id;
        }
        let id = self.free.pop().unwrap_or(GroupId(self.entries.len() as u32));
        if id.0 as usize == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[id.0 as usize] = Some(Group {
            key: key.clone(),
            terms: None,
            pending: BTreeMap::new(),
            placed: BTreeSet::new(),
            succeeded_count: 0,
            pods_count: 0,
            turn: Turn::default(),
        });
        self.by_key.insert(key.clone(), id);
        id
    }

    pub(crate) fn remove(&mut self, id: GroupId) {
        let group = self.entries[id.0 as usize].take().expect("a group is removed once");
        self.by_key.remove(&group.key);
        self.free.push(id);
    }
}
