//! Groups and who belongs to them. A group is known as soon as its PodGroup or one of its pods is seen.

mod composites; // groups of groups above them
mod members; // pending and placed members, counted so that no decision has to look at each of them
mod run; // which of the members that succeeded count

use std::collections::BTreeSet;
use std::sync::Arc;

use api::views::{ObjectKey, OwnerRef, quorum};
use rustc_hash::FxHashMap;

pub(crate) use self::composites::{Composites, ParentObstacle};
pub(crate) use self::members::{Pending, Placed};
pub(crate) use self::run::Run;
use crate::cluster::TopologyId;
use crate::moment::Moment;
use crate::pods::{Aside, PodId};
use crate::queue::Turn;
use crate::refusal::SetAside;

/// Stands for a group while the core knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u32);

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) key: ObjectKey,
    /// What the PodGroup says; none while there is no such object.
    pub(crate) terms: Option<Terms>,
    /// Pods to be placed.
    pub(crate) pending: Pending,
    /// When each of them was created and seen, the oldest first.
    pub(crate) ages: BTreeSet<(Moment, u64)>,
    /// Pods that are assumed or bound and not being deleted.
    // Upstream: pods that are being deleted count and pin the domain until they are gone, so that a gang whose old
    // pods linger on a lost rack cannot start anew elsewhere.
    pub(crate) placed: Placed,
    /// Those placed that were seen bound.
    pub(crate) bound_count: usize,
    /// Whether as many as it needs were seen bound at once since it last started, though the PodGroup may not say so yet.
    pub(crate) was_whole: bool,
    /// Whether its last start was seen. What the PodGroup says of an earlier one does not hold for it.
    pub(crate) is_start_seen: bool,
    /// The present run, with the members that succeeded in it.
    pub(crate) run: Run,
    /// What above it keeps it from being placed.
    pub(crate) parent_obstacle: Option<ParentObstacle>,
    /// Pods that name the group and are not to be placed with it now.
    pub(crate) aside: SetAside,
    /// Pods of any stage.
    pub(crate) members: BTreeSet<PodId>,
    /// The owners of its pods, each kept once.
    owners: BTreeSet<Arc<Owner>>,
    /// The turn of the group as a whole; follows from the PodGroup's priority and the first pod seen.
    pub(crate) turn: Turn,
}

/// The part of a PodGroup that placement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// None for a Basic group.
    pub(crate) min_count: Option<usize>,
    /// How many pods the group can have at once from now on, where that is known.
    pub(crate) expected_count: Option<usize>,
    pub(crate) topology: Option<TopologyId>,
    pub(crate) priority: i32,
    /// The group had its `min_count` once.
    pub(crate) reached: bool,
    /// The gang had its `min_count` once, which is enough for pods that come while others of it run.
    pub(crate) satisfied: bool,
    /// Who manages the group.
    pub(crate) owner: Option<Owner>,
    /// Whether our Job controller made the group.
    pub(crate) ours: bool,
    /// The CompositePodGroup it belongs to.
    pub(crate) parent: Option<ObjectKey>,
}

/// Who manages an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    uid: String,
    api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Owner {
    pub(crate) fn of(owner: &OwnerRef) -> Owner {
        let OwnerRef { uid, api_version, kind, name, .. } = owner;
        Owner { uid: uid.clone(), api_version: api_version.clone(), kind: kind.clone(), name: name.clone() }
    }

    /// Whether a pod that `other` manages may belong to a group of this owner: it is the same, or something in between,
    /// such as the Job of a JobSet. What lies in between is not known here, but it is of another kind.
    fn may_own(&self, other: Option<&Owner>) -> bool {
        other.is_some_and(|other| {
            self.uid == other.uid || (&self.api_version, &self.kind) != (&other.api_version, &other.kind)
        })
    }
}

impl Terms {
    /// Why a pod that names the group is not placed with it, if so.
    pub(crate) fn refuse(&self, owner: Option<&Owner>, priority: i32, by_priority: bool) -> Option<Aside> {
        if self.owner.as_ref().is_some_and(|own| !own.may_own(owner)) {
            return Some(Aside::Foreign);
        }
        (by_priority && priority != self.priority).then_some(Aside::OtherPriority)
    }
}

/// Whether a group can be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// No pod waits.
    NothingPending,
    /// Pods wait, the PodGroup is not there.
    NoPodGroup,
    /// A CompositePodGroup above the group is missing, or asks for more than Basic.
    Parent,
    /// A gang with fewer pods than it needs.
    Incomplete,
    /// A gang of which pods demand something of their place that no plugin looks at.
    Unsupported,
    /// A Basic group that must share a domain, of which pods are gated: begun with some, it might be in the wrong one.
    Gated,
    Ready,
}

impl Group {
    /// Members that count as placed.
    pub(crate) fn placed_count(&self) -> usize {
        self.placed.len() + self.run.succeeded_count()
    }

    /// How many members a gang needs, those that succeeded included; none for a Basic group.
    pub(crate) fn quorum(&self) -> Option<usize> {
        let terms = self.terms.as_ref()?;
        let quorum = quorum(terms.min_count?, terms.expected_count, self.run.succeeded_count());
        let exist = self.pending.len() + self.placed_count();
        Some(if self.run.is_continued() { quorum.min(exist).max(1) } else { quorum })
    }

    /// How many pods of the group are expected that do not exist yet.
    pub(crate) fn coming_count(&self) -> usize {
        let expected = self.terms.as_ref().and_then(|terms| terms.expected_count).unwrap_or(0);
        expected.saturating_sub(self.placed.len() + self.pending.len())
    }

    /// How many members there must be for any to be placed; none for a Basic group, and for a gang that runs once it had
    /// its `min_count`. Where none runs any more, as after a suspension, the gang starts as a whole again.
    // Upstream: the count binds for ever, so that a Job whose pods fail one by one ends up waiting for all of them.
    pub(crate) fn min_count(&self) -> Option<usize> {
        let terms = self.terms.as_ref()?;
        self.quorum().filter(|_| !terms.satisfied || self.placed.is_empty() || !self.is_whole())
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let Some(terms) = &self.terms else {
            let waits = !self.pending.is_empty() || self.aside.unsupported_count > 0;
            return if waits { Readiness::NoPodGroup } else { Readiness::NothingPending };
        };
        if terms.min_count.is_some() && self.aside.unsupported_count > 0 {
            Readiness::Unsupported
        } else if self.pending.is_empty() {
            Readiness::NothingPending
        } else if self.parent_obstacle.is_some() {
            Readiness::Parent
        } else if self.pending.len() + self.placed_count() < self.min_count().unwrap_or(1) {
            Readiness::Incomplete
        } else if terms.min_count.is_none()
            && terms.topology.is_some()
            && self.placed.is_empty()
            && self.aside.gated_count > 0
        {
            // Upstream: one gated member holds back any group, also where nothing hangs on who comes first.
            Readiness::Gated
        } else {
            Readiness::Ready
        }
    }

    /// When it is the group's turn. Pods that a gang needs for its `minCount` come in its turn, however late they are made.
    /// All others wait from when they were made: or else a Job that replaces its pods would always be before whoever
    /// came after its first one.
    pub(crate) fn next_turn(&self) -> Turn {
        if self.quorum().is_some_and(|quorum| self.placed_count() < quorum) {
            return self.turn;
        }
        self.ages.first().map_or(self.turn, |(created, seen)| Turn { created: *created, seen: *seen, ..self.turn })
    }

    /// Whether the group is a gang that has some of its pods placed, and did not have as many as it needs since it started.
    pub(crate) fn is_partial(&self) -> bool {
        let is_begun = !self.placed.is_empty() && !self.is_whole();
        is_begun && self.quorum().is_some_and(|quorum| self.placed_count() < quorum)
    }

    /// Whether the gang had as many as it needs since it last started, as far as is known.
    fn is_whole(&self) -> bool {
        let reached = self.terms.as_ref().is_some_and(|terms| terms.reached);
        self.was_whole || (reached && !self.is_start_seen)
    }

    /// Pods of the group are about to be placed.
    pub(crate) fn note_start(&mut self) {
        if self.placed.is_empty() {
            (self.was_whole, self.is_start_seen) = (false, true);
        }
    }

    /// Takes note of whether the gang is whole now.
    pub(crate) fn note_whole(&mut self) {
        let needed = self.quorum();
        let seen = self.bound_count + self.run.succeeded_count();
        self.was_whole |= needed.is_some_and(|needed| seen.min(self.placed_count()) >= needed);
    }

    /// The owner of a pod, as the group keeps it.
    pub(crate) fn owner(&mut self, owner: Owner) -> Arc<Owner> {
        if let Some(known) = self.owners.get(&owner) {
            return Arc::clone(known);
        }
        let owner = Arc::new(owner);
        self.owners.insert(Arc::clone(&owner));
        owner
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

    /// The same where the group may be gone. Another may have its id by then.
    pub(crate) fn known(&self, id: GroupId) -> Option<&Group> {
        self.entries.get(id.0 as usize)?.as_ref()
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
            pending: Pending::default(),
            ages: BTreeSet::new(),
            placed: Placed::default(),
            bound_count: 0,
            was_whole: false,
            is_start_seen: false,
            run: Run::default(),
            parent_obstacle: None,
            aside: SetAside::default(),
            members: BTreeSet::new(),
            owners: BTreeSet::new(),
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
