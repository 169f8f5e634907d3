//! Groups and who belongs to them. A group is known as soon as its PodGroup or one of its pods is seen.

mod composites; // groups of groups above them
mod members; // pending and placed members, counted so that no decision has to look at each of them
mod run; // which of the members that succeeded count

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use types::views::{ObjectKey, OwnerRef, quorum};

pub(crate) use self::composites::{Composites, ParentObstacle};
pub(crate) use self::members::{PendingMembers, PlacedMembers};
pub(crate) use self::run::GroupRun;
use crate::cluster::TopologyId;
use crate::compact_timestamp::CompactTimestamp;
use crate::pods::{ExclusionReason, PodId};
use crate::queue::QueueOrder;
use crate::refusal::ExcludedCounts;

/// Stands for a group while the core knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u32);

/// One group.
#[derive(Debug)]
pub(crate) struct TrackedGroup {
    pub(crate) key: ObjectKey,
    /// What the PodGroup says; none while there is no such object.
    pub(crate) spec: Option<GroupSpec>,
    /// Pods to be placed.
    pub(crate) pending: PendingMembers,
    /// When each of them was created and seen, the oldest first.
    pub(crate) pending_by_age: BTreeSet<(CompactTimestamp, u64)>,
    /// Pods that are assumed or bound and not being deleted.
    // Upstream: pods that are being deleted count and pin the domain until they are gone, so that a gang whose old
    // pods linger on a lost rack cannot start anew elsewhere.
    pub(crate) placed: PlacedMembers,
    /// Those placed that were seen bound.
    pub(crate) bound_count: usize,
    /// Whether as many as it needs were seen bound at once since it last started, though the PodGroup may not say so yet.
    pub(crate) had_quorum: bool,
    /// Whether its last start was seen. What the PodGroup says of an earlier one does not hold for it.
    pub(crate) start_observed: bool,
    /// The present run, with the members that succeeded in it.
    pub(crate) run: GroupRun,
    /// What above it keeps it from being placed.
    pub(crate) parent_obstacle: Option<ParentObstacle>,
    /// Pods that name the group and are not to be placed with it now.
    pub(crate) excluded: ExcludedCounts,
    /// Pods of any stage.
    pub(crate) members: BTreeSet<PodId>,
    /// The owners of its pods, each kept once.
    owners: BTreeSet<Arc<ControllerRef>>,
    /// The turn of the group as a whole; follows from the PodGroup's priority and the first pod seen.
    pub(crate) order: QueueOrder,
}

/// The part of a PodGroup that placement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupSpec {
    /// None for a Basic group.
    pub(crate) min_count: Option<usize>,
    /// How many pods the group can have at once from now on, where that is known.
    pub(crate) expected_count: Option<usize>,
    pub(crate) topology: Option<TopologyId>,
    pub(crate) priority: i32,
    /// The group had its `min_count` once.
    pub(crate) reached_min_count: bool,
    /// The gang had its `min_count` once, which is enough for pods that come while others of it run.
    pub(crate) satisfied: bool,
    /// Who manages the group.
    pub(crate) owner: Option<ControllerRef>,
    /// Whether our Job controller made the group.
    pub(crate) is_ours: bool,
    /// The CompositePodGroup it belongs to.
    pub(crate) parent: Option<ObjectKey>,
}

/// Who manages an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ControllerRef {
    uid: String,
    api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl ControllerRef {
    pub(crate) fn of(owner: &OwnerRef) -> ControllerRef {
        let OwnerRef { uid, api_version, kind, name, .. } = owner;
        ControllerRef { uid: uid.clone(), api_version: api_version.clone(), kind: kind.clone(), name: name.clone() }
    }

    /// Whether a pod that `other` manages may belong to a group of this owner: it is the same, or something in between,
    /// such as the Job of a JobSet. What lies in between is not known here, but it is of another kind.
    fn may_own(&self, other: Option<&ControllerRef>) -> bool {
        other.is_some_and(|other| {
            self.uid == other.uid || (&self.api_version, &self.kind) != (&other.api_version, &other.kind)
        })
    }
}

impl GroupSpec {
    /// Why a pod that names the group is not placed with it, if so.
    pub(crate) fn exclude(
        &self,
        owner: Option<&ControllerRef>,
        priority: i32,
        by_priority: bool,
    ) -> Option<ExclusionReason> {
        if self.owner.as_ref().is_some_and(|own| !own.may_own(owner)) {
            return Some(ExclusionReason::OtherOwner);
        }
        (by_priority && priority != self.priority).then_some(ExclusionReason::PriorityMismatch)
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
    BlockedByParent,
    /// A gang with fewer pods than it needs.
    Incomplete,
    /// A gang of which pods demand something of their place that no plugin looks at.
    Unsupported,
    /// A Basic group that must share a domain, of which pods are gated: begun with some, it might be in the wrong one.
    Gated,
    Ready,
}

impl TrackedGroup {
    /// Members that count as placed.
    pub(crate) fn placed_count(&self) -> usize {
        self.placed.len() + self.run.succeeded_count()
    }

    /// How many members a gang needs, those that succeeded included; none for a Basic group.
    pub(crate) fn quorum(&self) -> Option<usize> {
        let terms = self.spec.as_ref()?;
        let quorum = quorum(terms.min_count?, terms.expected_count, self.run.succeeded_count());
        let exist = self.pending.len() + self.placed_count();
        Some(if self.run.is_continued() { quorum.min(exist).max(1) } else { quorum })
    }

    /// How many pods of the group are expected that do not exist yet.
    pub(crate) fn coming_count(&self) -> usize {
        let expected = self.spec.as_ref().and_then(|terms| terms.expected_count).unwrap_or(0);
        expected.saturating_sub(self.placed.len() + self.pending.len())
    }

    /// How many members there must be for any to be placed; none for a Basic group, and for a gang that runs once it had
    /// its `min_count`. Where none runs any more, as after a suspension, the gang starts as a whole again.
    // Upstream: the count binds for ever, so that a Job whose pods fail one by one ends up waiting for all of them.
    pub(crate) fn min_count(&self) -> Option<usize> {
        let terms = self.spec.as_ref()?;
        self.quorum().filter(|_| !terms.satisfied || self.placed.is_empty() || !self.has_had_quorum())
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let Some(terms) = &self.spec else {
            let waits = !self.pending.is_empty() || self.excluded.unsupported_count > 0;
            return if waits { Readiness::NoPodGroup } else { Readiness::NothingPending };
        };
        if terms.min_count.is_some() && self.excluded.unsupported_count > 0 {
            Readiness::Unsupported
        } else if self.pending.is_empty() {
            Readiness::NothingPending
        } else if self.parent_obstacle.is_some() {
            Readiness::BlockedByParent
        } else if self.pending.len() + self.placed_count() < self.min_count().unwrap_or(1) {
            Readiness::Incomplete
        } else if terms.min_count.is_none()
            && terms.topology.is_some()
            && self.placed.is_empty()
            && self.excluded.gated_count > 0
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
    pub(crate) fn queue_order(&self) -> QueueOrder {
        if self.quorum().is_some_and(|quorum| self.placed_count() < quorum) {
            return self.order;
        }
        self.pending_by_age.first().map_or(self.order, |(created, seen)| QueueOrder {
            created: *created,
            seen: *seen,
            ..self.order
        })
    }

    /// Whether the group is a gang that has some of its pods placed, and did not have as many as it needs since it started.
    pub(crate) fn is_half_placed(&self) -> bool {
        let is_begun = !self.placed.is_empty() && !self.has_had_quorum();
        is_begun && self.quorum().is_some_and(|quorum| self.placed_count() < quorum)
    }

    /// Whether the gang had as many as it needs since it last started, as far as is known.
    fn has_had_quorum(&self) -> bool {
        let reached = self.spec.as_ref().is_some_and(|terms| terms.reached_min_count);
        self.had_quorum || (reached && !self.start_observed)
    }

    /// Pods of the group are about to be placed.
    pub(crate) fn note_start(&mut self) {
        if self.placed.is_empty() {
            (self.had_quorum, self.start_observed) = (false, true);
        }
    }

    /// Takes note of whether the gang is whole now.
    pub(crate) fn note_quorum(&mut self) {
        let needed = self.quorum();
        let seen = self.bound_count + self.run.succeeded_count();
        self.had_quorum |= needed.is_some_and(|needed| seen.min(self.placed_count()) >= needed);
    }

    /// The owner of a pod, as the group keeps it.
    pub(crate) fn intern_owner(&mut self, owner: ControllerRef) -> Arc<ControllerRef> {
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
pub(crate) struct GroupTable {
    entries: Vec<Option<TrackedGroup>>,
    free: Vec<GroupId>,
    by_key: FxHashMap<ObjectKey, GroupId>,
}

impl GroupTable {
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<GroupId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn get(&self, id: GroupId) -> &TrackedGroup {
        self.entries[id.0 as usize].as_ref().expect("an id is used only while its group is known")
    }

    /// The same where the group may be gone. Another may have its id by then.
    pub(crate) fn try_get(&self, id: GroupId) -> Option<&TrackedGroup> {
        self.entries.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: GroupId) -> &mut TrackedGroup {
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
        self.entries[id.0 as usize] = Some(TrackedGroup {
            key: key.clone(),
            spec: None,
            pending: PendingMembers::default(),
            pending_by_age: BTreeSet::new(),
            placed: PlacedMembers::default(),
            bound_count: 0,
            had_quorum: false,
            start_observed: false,
            run: GroupRun::default(),
            parent_obstacle: None,
            excluded: ExcludedCounts::default(),
            members: BTreeSet::new(),
            owners: BTreeSet::new(),
            order: QueueOrder::default(),
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
