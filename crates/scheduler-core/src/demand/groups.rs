//! Groups and their members. A group is tracked as soon as its PodGroup or one of its pods is observed.

mod composites; // CompositePodGroups above groups
mod members; // pending and placed members, counted so that no decision iterates over them
mod run; // which succeeded members count

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use types::views::{ObjectKey, OwnerRef, quorum};

pub(crate) use self::composites::{Composites, ParentObstacle};
pub(crate) use self::members::{PendingMembers, PlacedMembers};
pub(crate) use self::run::GroupRun;
use crate::cluster::TopologyId;
use crate::cluster::chunked_vec::ChunkedVec;
use crate::cluster::compact_timestamp::CompactTimestamp;
use crate::demand::pods::{ExclusionReason, PodId};
use crate::explain::refusal::ExcludedCounts;
use crate::explain::remedies::RootOwner;
use crate::queue::QueueOrder;

/// Identifies a group while the core tracks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(u32);

impl GroupId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// One group.
#[derive(Debug)]
pub(crate) struct TrackedGroup {
    pub(crate) key: ObjectKey,
    /// From the PodGroup; none while there is no such object.
    pub(crate) spec: Option<GroupSpec>,
    /// Pods to be placed.
    pub(crate) pending: PendingMembers,
    /// Creation time and arrival of each of them, the oldest first.
    pub(crate) pending_by_age: BTreeSet<(CompactTimestamp, u64)>,
    /// Pods that are assumed or bound and not being deleted.
    // Upstream: pods that are being deleted count and pin the domain until they are gone, so that a gang whose old
    // pods linger on a lost rack cannot start again elsewhere.
    pub(crate) placed: PlacedMembers,
    /// Whether its quorum was observed bound at once since it last started. The PodGroup's condition may follow
    /// later.
    pub(crate) had_quorum: bool,
    /// Whether its last start was observed. If so, the PodGroup's condition may be of an earlier start and does not
    /// count.
    pub(crate) start_observed: bool,
    /// The current run, with the members that succeeded in it.
    pub(crate) run: GroupRun,
    /// A CompositePodGroup above it that keeps it from being placed.
    pub(crate) parent_obstacle: Option<ParentObstacle>,
    /// Pods that name the group but are not placed with it now.
    pub(crate) excluded: ExcludedCounts,
    /// Pods of any stage.
    pub(crate) members: BTreeSet<PodId>,
    /// The owners of its pods, each stored once.
    owners: BTreeSet<Arc<ControllerRef>>,
    /// The queue order of the group as a whole, from the PodGroup's priority and the first pod observed.
    pub(crate) order: QueueOrder,
}

/// The fields of a PodGroup that placement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupSpec {
    /// None for a Basic group.
    pub(crate) min_count: Option<usize>,
    /// How many pods the group can still have at once, where that is declared.
    pub(crate) expected_count: Option<usize>,
    pub(crate) topology: Option<TopologyId>,
    pub(crate) priority: i32,
    /// The group has had its `min_count`.
    pub(crate) reached_min_count: bool,
    /// The gang has had its `min_count`. This is enough for pods that are created while others of it run.
    pub(crate) satisfied: bool,
    /// The controller of the group.
    pub(crate) owner: Option<ControllerRef>,
    /// Whether our Job controller created the group.
    pub(crate) is_ours: bool,
    /// The CompositePodGroup it belongs to.
    pub(crate) parent: Option<ObjectKey>,
}

/// The controller of an object.
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

    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether a pod controlled by `other` may be a member of a group of this owner: the controller is the same, or
    /// one in between, such as the Job of a JobSet. Controllers in between are not observed here, but they are of
    /// another kind.
    fn may_own(&self, other: Option<&ControllerRef>) -> bool {
        other.is_some_and(|other| {
            self.uid == other.uid || (&self.api_version, &self.kind) != (&other.api_version, &other.kind)
        })
    }
}

impl GroupSpec {
    /// Why a pod that names the group is not a member, if it is not.
    pub(crate) fn exclude(
        &self,
        owner: Option<&ControllerRef>,
        priority: i32,
        by_priority: bool,
    ) -> Option<ExclusionReason> {
        if self.has_other_owner(owner) {
            return Some(ExclusionReason::OtherOwner);
        }
        (by_priority && priority != self.priority).then_some(ExclusionReason::PriorityMismatch)
    }

    /// Whether the group belongs to another owner than a pod with this one.
    pub(crate) fn has_other_owner(&self, owner: Option<&ControllerRef>) -> bool {
        self.owner.as_ref().is_some_and(|own| !own.may_own(owner))
    }
}

/// Whether a group can be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// No pod is pending.
    NothingPending,
    /// Pods are pending, but the PodGroup does not exist.
    NoPodGroup,
    /// A CompositePodGroup above the group is missing, or requests more than Basic.
    BlockedByParent,
    /// A gang with fewer pods than it needs.
    Incomplete,
    /// A gang with pods that have a placement term no plugin supports.
    Unsupported,
    /// A Basic group with a topology key, some of whose pods are gated. Starting with the others might choose the
    /// wrong domain.
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
        let spec = self.spec.as_ref()?;
        let quorum = quorum(spec.min_count?, spec.expected_count, self.run.succeeded_count());
        let existing = self.pending.len() + self.placed_count();
        Some(if self.run.is_continued() { quorum.min(existing).max(1) } else { quorum })
    }

    /// How many expected pods of the group do not exist yet.
    pub(crate) fn coming_count(&self) -> usize {
        let expected = self.spec.as_ref().and_then(|spec| spec.expected_count).unwrap_or(0);
        expected.saturating_sub(self.placed.len() + self.pending.len())
    }

    /// How many members must exist for any to be placed. None for a Basic group, and for a running gang that has had
    /// its `min_count`. If no member runs any more, as after a suspension, the gang starts as a whole again.
    // Upstream: the count applies forever, so that a Job whose pods fail one by one ends up waiting for all of them.
    pub(crate) fn min_count(&self) -> Option<usize> {
        let spec = self.spec.as_ref()?;
        self.quorum().filter(|_| !spec.satisfied || self.placed.is_empty() || !self.has_had_quorum())
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let Some(spec) = &self.spec else {
            let has_pending = !self.pending.is_empty() || self.excluded.unsupported_count > 0;
            return if has_pending { Readiness::NoPodGroup } else { Readiness::NothingPending };
        };
        if spec.min_count.is_some() && self.excluded.unsupported_count > 0 {
            Readiness::Unsupported
        } else if self.pending.is_empty() {
            Readiness::NothingPending
        } else if self.parent_obstacle.is_some() {
            Readiness::BlockedByParent
        } else if self.pending.len() + self.placed_count() < self.min_count().unwrap_or(1) {
            Readiness::Incomplete
        } else if spec.min_count.is_none()
            && spec.topology.is_some()
            && self.placed.is_empty()
            && self.excluded.gated_count > 0
        {
            // Upstream: one gated member blocks any group, also where nothing depends on which pod is first.
            Readiness::Gated
        } else {
            Readiness::Ready
        }
    }

    /// The group's queue order. Pods that a gang needs for its `minCount` use the order of the group, however late
    /// they are created. All others are ordered by their own creation. Otherwise a Job that keeps replacing pods
    /// would always overtake units younger than its first pod.
    pub(crate) fn queue_order(&self) -> QueueOrder {
        if self.quorum().is_some_and(|quorum| self.placed_count() < quorum) {
            return self.order;
        }
        self.pending_by_age.first().map_or(self.order, |(created, arrival)| QueueOrder {
            created: *created,
            arrival: *arrival,
            ..self.order
        })
    }

    /// Whether the group is a gang with some of its pods placed that has not had its quorum since it started.
    pub(crate) fn is_half_placed(&self) -> bool {
        let has_started = !self.placed.is_empty() && !self.has_had_quorum();
        has_started && self.quorum().is_some_and(|quorum| self.placed_count() < quorum)
    }

    /// Whether the gang has had its quorum since it last started, by what was observed.
    fn has_had_quorum(&self) -> bool {
        let reached = self.spec.as_ref().is_some_and(|spec| spec.reached_min_count);
        self.had_quorum || (reached && !self.start_observed)
    }

    /// Records that pods of the group are about to be placed.
    pub(crate) fn note_start(&mut self) {
        if self.placed.is_empty() {
            (self.had_quorum, self.start_observed) = (false, true);
            // Members that succeeded may be the quorum.
            self.note_quorum();
        }
    }

    /// Records whether the gang has its quorum now.
    pub(crate) fn note_quorum(&mut self) {
        let quorum = self.quorum();
        let bound = self.placed.bound_count() + self.run.succeeded_count();
        self.had_quorum |= quorum.is_some_and(|quorum| bound >= quorum);
    }

    /// Interns the owner of a pod.
    pub(crate) fn intern_owner(&mut self, owner: ControllerRef) -> Arc<ControllerRef> {
        if let Some(existing) = self.owners.get(&owner) {
            return Arc::clone(existing);
        }
        let owner = Arc::new(owner);
        self.owners.insert(Arc::clone(&owner));
        owner
    }
}

/// What users call a group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GroupName {
    pub(crate) key: ObjectKey,
    /// The owner of the group, such as its Job, which users know better than the group.
    pub(crate) root_owner: RootOwner,
}

impl GroupName {
    fn of(group: &TrackedGroup) -> GroupName {
        let owner = group.spec.as_ref().and_then(|spec| spec.owner.as_ref());
        let (kind, name) = match owner {
            Some(owner) => (owner.kind.to_lowercase(), &owner.name),
            None => ("podgroup".to_owned(), &group.key.name),
        };
        let root_owner = RootOwner { kind, key: ObjectKey::new(group.key.namespace.as_str(), name.as_str()) };
        GroupName { key: group.key.clone(), root_owner }
    }
}

/// The names of all groups. A copy costs little: it shares all that does not change afterwards.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupNames(ChunkedVec<Option<Arc<GroupName>>>);

impl GroupNames {
    pub(crate) fn get(&self, id: GroupId) -> &GroupName {
        self.0[id.at()].as_ref().expect("an id is used only while its group is tracked")
    }

    fn set(&mut self, id: GroupId, name: GroupName) {
        self.0.grow(id.at() + 1);
        if self.0[id.at()].as_deref() != Some(&name) {
            *self.0.get_mut(id.at()) = Some(Arc::new(name));
        }
    }
}

/// All groups, by id and by name.
#[derive(Debug, Default)]
pub(crate) struct GroupTable {
    names: GroupNames,
    entries: Vec<Option<TrackedGroup>>,
    free: Vec<GroupId>,
    by_key: FxHashMap<ObjectKey, GroupId>,
}

impl GroupTable {
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<GroupId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn get(&self, id: GroupId) -> &TrackedGroup {
        self.entries[id.0 as usize].as_ref().expect("an id is used only while its group is tracked")
    }

    /// Every group.
    pub(crate) fn all(&self) -> impl Iterator<Item = &TrackedGroup> {
        self.entries.iter().flatten()
    }

    /// Like `get`, for a group that may be gone. Another group may have its id by then.
    pub(crate) fn try_get(&self, id: GroupId) -> Option<&TrackedGroup> {
        self.entries.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: GroupId) -> &mut TrackedGroup {
        self.entries[id.0 as usize].as_mut().expect("an id is used only while its group is tracked")
    }

    /// The names of all groups.
    pub(crate) fn names(&self) -> &GroupNames {
        &self.names
    }

    /// Sets what the PodGroup requests; none if there is no such object any more. Returns what it requested before.
    pub(crate) fn set_spec(&mut self, id: GroupId, spec: Option<GroupSpec>) -> Option<GroupSpec> {
        let group = self.entries[id.at()].as_mut().expect("an id is used only while its group is tracked");
        let before = std::mem::replace(&mut group.spec, spec);
        self.names.set(id, GroupName::of(group));
        before
    }

    /// The group named `key`, added if it is new.
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
        self.names.set(id, GroupName::of(self.get(id)));
        id
    }

    pub(crate) fn remove(&mut self, id: GroupId) {
        let group = self.entries[id.0 as usize].take().expect("a group is removed once");
        self.by_key.remove(&group.key);
        self.free.push(id);
    }
}
