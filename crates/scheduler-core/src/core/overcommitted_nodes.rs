//! Pods bound beyond their node's capacity, as when two schedulers use the same capacity on a server that does not
//! check binds. They are released after a pause, if the node is still over-committed by then.
//!
//! Only observed binds count: a node that shrinks, or a pod that is resized in place, releases no pods. Pods of other
//! schedulers, and pods without a controller that would recreate them, stay.

use std::collections::BTreeSet;

use types::Timestamp;
use types::views::PodView;

use super::Core;
use crate::cluster::NodeIndex;
use crate::cluster::compact_timestamp::CompactTimestamp;
use crate::decision::{Decision, DecisionAction, Release, ReleaseReason, Unit};
use crate::demand::groups::GroupId;
use crate::demand::pods::{PodId, Stage};
use crate::release::overcommit::{self, NodeUsage, Overcommit, ReleaseCandidate};

const POD_SCHEDULED: &str = "PodScheduled";

/// The order of binds on a node: a gang's order precedes that of its pods.
type BindOrder<'a> =
    (CompactTimestamp, CompactTimestamp, (&'a str, &'a str), CompactTimestamp, CompactTimestamp, &'a str);

impl Core {
    /// A pod is observed on its node; `became_bound`: it was observed without one before.
    pub(super) fn note_bound(&mut self, id: PodId, view: &PodView, became_bound: bool) {
        let pod = self.pods.get_mut(id);
        pod.is_deleting = view.metadata.is_deleting();
        let Stage::Bound(node) = pod.stage else { return };
        if !became_bound {
            return;
        }
        let scheduled = view.status.conditions.iter().find(|one| one.kind == POD_SCHEDULED && one.status == "True");
        pod.bound_at = scheduled.and_then(|one| one.last_transition_time).into();
        let profile = self.classes.profile(&view.spec.scheduler_name).filter(|_| view.metadata.controller().is_some());
        pod.release_profile = profile.filter(|profile| profile.fit().is_some()).cloned();
        if self.config.overcommit_after.is_some() && self.is_overcommitted(id, node) {
            self.overcommits.overcommitted.entry(node).or_default().insert(id);
            self.overcommits.timers.set(node);
        }
    }

    /// Whether the pod, which was bound last, uses more of its node than the others leave.
    fn is_overcommitted(&self, id: PodId, node: NodeIndex) -> bool {
        let pod = self.pods.get(id);
        let over = |resource| self.cluster.requested(resource, node) > self.cluster.allocatable(resource, node);
        // Nearly always the sums show that the pod fits.
        let may_be = self.cluster.pods_count(node) > self.cluster.pods_allowed(node)
            || pod.usage.requests.iter().any(|(resource, _)| over(*resource));
        if !may_be || !self.cluster.node(node).present {
            return false;
        }
        // The sums also count our own binds in flight. Those come after this one, if they succeed at all.
        let mut usage = NodeUsage::of(&self.cluster, node);
        self.pods.bound_to(node).filter(|other| *other != id).for_each(|other| usage.take(&self.pods.get(other).usage));
        self.release_candidate(id).is_some_and(|candidate| usage.missing_for(candidate.usage, candidate.fit).is_some())
    }

    /// The next pod to release from a node that has been over-committed for too long.
    pub(super) fn release_overcommitted(&mut self, now: Timestamp) -> Option<Decision> {
        let pause = self.config.overcommit_after?;
        while self.overcommits.decisions.is_empty() {
            let node = self.overcommits.timers.next_due(now, pause)?;
            let to_release = if self.cluster.node(node).present { self.pods_to_release(node) } else { Vec::new() };
            if to_release.is_empty() {
                // Other pods have left meanwhile, or are terminating.
                self.overcommits.clear_node(node);
                continue;
            }
            // Pods that may stay now stay, whatever happens to the node later.
            self.overcommits.overcommitted.insert(node, to_release.iter().map(|(id, _)| *id).collect());
            // If they are not deleted, they are released once more.
            self.overcommits.timers.set_at(node, now + pause);
            // The pod bound last is released first.
            for (id, overcommit) in to_release.into_iter().rev() {
                let pod = self.pods.get(id);
                let release = Release { pods: vec![pod.pod_ref()], reason: ReleaseReason::Overcommit(overcommit) };
                let (unit, action) = (Unit::Pod(pod.key()), DecisionAction::Release(release));
                self.overcommits.decisions.push_back(Decision { unit, action, domain: None, unplaced: None });
            }
        }
        self.overcommits.decisions.pop_front()
    }

    /// The pods to release from the node now, in the order of their binds.
    fn pods_to_release(&self, node: NodeIndex) -> Vec<(PodId, Overcommit)> {
        let surplus = &self.overcommits.overcommitted[&node];
        let gangs: BTreeSet<GroupId> = surplus.iter().filter_map(|pod| self.gang_of(*pod)).collect();
        // If only the pods bound last were released, two gangs bound at the same time would each keep half of their
        // pods. So if one pod of a gang is surplus, all of the gang's pods on this node yield to older gangs.
        let is_candidate = |id: &PodId| {
            let in_surplus_gang = self.gang_of(*id).is_some_and(|gang| gangs.contains(&gang));
            surplus.contains(id) || (in_surplus_gang && self.pods.get(*id).release_profile.is_some())
        };
        let here = self.pods.bound_to(node).filter(|id| !self.pods.get(*id).is_deleting);
        let (mut candidates, others): (Vec<PodId>, Vec<PodId>) = here.partition(is_candidate);
        candidates.sort_by_cached_key(|id| self.bind_order(*id));
        let mut usage = NodeUsage::of(&self.cluster, node);
        others.iter().for_each(|id| usage.take(&self.pods.get(*id).usage));
        let to_release =
            overcommit::pods_to_release(usage, candidates.iter().filter_map(|id| self.release_candidate(*id)));
        let mut total = NodeUsage::of(&self.cluster, node);
        others.iter().chain(&candidates).for_each(|id| total.take(&self.pods.get(*id).usage));
        to_release.into_iter().map(|(id, missing)| (id, total.overcommit(missing))).collect()
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
