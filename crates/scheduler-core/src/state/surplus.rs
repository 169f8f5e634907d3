//! Pods that were bound beyond what their node has, as when two schedulers give away the same room on a server that looks
//! at no bind. They are released after a while, if they are still too many by then.
//!
//! Only a bind that was seen counts: a node that shrinks, or a pod that grows in its place, asks nobody to leave. Pods of
//! other schedulers and pods that nobody would make anew stay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use types::Timestamp;
use types::views::PodView;

use super::Core;
use crate::cluster::NodeIndex;
use crate::compact_timestamp::CompactTimestamp;
use crate::decision::{Decision, DecisionAction, Release, ReleaseReason, Unit};
use crate::groups::GroupId;
use crate::overcommit::{self, NodeUsage, Overcommit, ReleaseCandidate};
use crate::pods::{PodId, Stage};
use crate::timers::Timers;

const POD_SCHEDULED: &str = "PodScheduled";

/// Pods that were bound beyond what there was, by node.
#[derive(Debug, Default)]
pub(super) struct OvercommitTracker {
    overcommitted: BTreeMap<NodeIndex, BTreeSet<PodId>>,
    timers: Timers<NodeIndex>,
    /// Decided, and not told yet.
    decisions: VecDeque<Decision>,
}

impl OvercommitTracker {
    /// The pod is on the node no more.
    pub(super) fn remove_pod(&mut self, node: NodeIndex, pod: PodId) {
        let Some(pods) = self.overcommitted.get_mut(&node) else { return };
        pods.remove(&pod);
        if pods.is_empty() {
            self.clear_node(node);
        }
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.timers.next_at()
    }

    fn clear_node(&mut self, node: NodeIndex) {
        self.overcommitted.remove(&node);
        self.timers.clear(node);
    }
}

/// In which order pods came to a node: that of the gang they belong to before their own.
type BindOrder<'a> =
    (CompactTimestamp, CompactTimestamp, (&'a str, &'a str), CompactTimestamp, CompactTimestamp, &'a str);

impl Core {
    /// A pod is shown on its node; `came`: it was seen without one before.
    pub(super) fn note_bound(&mut self, id: PodId, view: &PodView, came: bool) {
        let pod = self.pods.get_mut(id);
        pod.is_deleting = view.metadata.is_deleting();
        let Stage::Bound(node) = pod.stage else { return };
        if !came {
            return;
        }
        let scheduled = view.status.conditions.iter().find(|one| one.kind == POD_SCHEDULED && one.status == "True");
        pod.bound_at = scheduled.and_then(|one| one.last_transition_time).into();
        let judge = self.classes.profile(&view.spec.scheduler_name).filter(|_| view.metadata.controller().is_some());
        pod.release_profile = judge.filter(|judge| judge.fit().is_some()).cloned();
        if self.config.overcommit_after.is_some() && self.is_overcommitted(id, node) {
            self.overcommits.overcommitted.entry(node).or_default().insert(id);
            self.overcommits.timers.set(node);
        }
    }

    /// Whether the pod, which was bound last, takes more of its node than the others leave.
    fn is_overcommitted(&self, id: PodId, node: NodeIndex) -> bool {
        let pod = self.pods.get(id);
        let over = |resource| self.cluster.requested(resource, node) > self.cluster.allocatable(resource, node);
        // Nearly always the sums tell that there is room.
        let may_be = self.cluster.pods_count(node) > self.cluster.pods_allowed(node)
            || pod.usage.requests.iter().any(|(resource, _)| over(*resource));
        if !may_be || !self.cluster.node(node).present {
            return false;
        }
        // The sums also count binds of our own that are under way: those come after this one, if they come at all.
        let mut ledger = NodeUsage::of(&self.cluster, node);
        self.pods
            .bound_to(node)
            .filter(|other| *other != id)
            .for_each(|other| ledger.take(&self.pods.get(other).usage));
        self.release_candidate(id).is_some_and(|suspect| ledger.missing_for(suspect.usage, suspect.fit).is_some())
    }

    /// The next pod that has to leave a node which has had too many for too long.
    pub(super) fn release_overcommitted(&mut self, now: Timestamp) -> Option<Decision> {
        let pause = self.config.overcommit_after?;
        while self.overcommits.decisions.is_empty() {
            let node = self.overcommits.timers.next_due(now, pause)?;
            let leave = if self.cluster.node(node).present { self.pods_to_release(node) } else { Vec::new() };
            if leave.is_empty() {
                // Others have left meanwhile, or are about to.
                self.overcommits.clear_node(node);
                continue;
            }
            // Whoever keeps its place now keeps it, whatever becomes of the node.
            self.overcommits.overcommitted.insert(node, leave.iter().map(|(id, _)| *id).collect());
            // Should they stay, they are asked to go once more.
            self.overcommits.timers.set_at(node, now + pause);
            // The last to come is the first to go.
            for (id, overcommit) in leave.into_iter().rev() {
                let pod = self.pods.get(id);
                let release = Release { pods: vec![pod.pod_ref()], reason: ReleaseReason::Overcommit(overcommit) };
                let (unit, verdict) = (Unit::Pod(pod.key()), DecisionAction::Release(release));
                self.overcommits.decisions.push_back(Decision { unit, action: verdict, domain: None, unplaced: None });
            }
        }
        self.overcommits.decisions.pop_front()
    }

    /// Who has to leave the node now, in the order they came.
    fn pods_to_release(&self, node: NodeIndex) -> Vec<(PodId, Overcommit)> {
        let beyond = &self.overcommits.overcommitted[&node];
        let gangs: BTreeSet<GroupId> = beyond.iter().filter_map(|pod| self.gang_of(*pod)).collect();
        // Of two gangs that were bound at once each would be left with half of its pods, if only those went that were
        // bound last: where one of a gang is too many, all of it on this node have to stand back behind older gangs.
        let is_suspect = |id: &PodId| {
            let of_such_gang = self.gang_of(*id).is_some_and(|gang| gangs.contains(&gang));
            beyond.contains(id) || (of_such_gang && self.pods.get(*id).release_profile.is_some())
        };
        let here = self.pods.bound_to(node).filter(|id| !self.pods.get(*id).is_deleting);
        let (mut suspects, others): (Vec<PodId>, Vec<PodId>) = here.partition(is_suspect);
        suspects.sort_by_cached_key(|id| self.bind_order(*id));
        let mut ledger = NodeUsage::of(&self.cluster, node);
        others.iter().for_each(|id| ledger.take(&self.pods.get(*id).usage));
        let leave = overcommit::pods_to_release(ledger, suspects.iter().filter_map(|id| self.release_candidate(*id)));
        let mut all = NodeUsage::of(&self.cluster, node);
        others.iter().chain(&suspects).for_each(|id| all.take(&self.pods.get(*id).usage));
        leave.into_iter().map(|(id, short)| (id, all.overcommit(short))).collect()
    }

    fn release_candidate(&self, id: PodId) -> Option<ReleaseCandidate<'_, PodId>> {
        let pod = self.pods.get(id);
        let fit = pod.release_profile.as_ref()?.fit()?;
        Some(ReleaseCandidate { id, usage: &pod.usage, fit })
    }

    fn gang_of(&self, id: PodId) -> Option<GroupId> {
        let group = self.pods.get(id).group?;
        self.groups.get(group).spec.as_ref()?.min_count.map(|_| group)
    }

    fn bind_order(&self, id: PodId) -> BindOrder<'_> {
        let pod = self.pods.get(id);
        let (at, created, key) = match self.gang_of(id).map(|gang| self.groups.get(gang)) {
            Some(gang) => {
                let first = gang.placed.pods().map(|member| self.pods.get(member).bound_at).min();
                (first.unwrap_or_default(), gang.order.created, (&*gang.key.namespace, &*gang.key.name))
            }
            None => (pod.bound_at, pod.created(), (&*pod.view.metadata.namespace, &*pod.view.metadata.name)),
        };
        (at, created, key, pod.bound_at, pod.created(), pod.uid())
    }
}
