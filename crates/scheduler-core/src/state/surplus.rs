//! Pods that were bound beyond what their node has, as when two schedulers give away the same room on a server that looks
//! at no bind. They are released after a while, if they are still too many by then.
//!
//! Only a bind that was seen counts: a node that shrinks, or a pod that grows in its place, asks nobody to leave. Pods of
//! other schedulers and pods that nobody would make anew stay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::Timestamp;
use api::views::PodView;

use super::Core;
use crate::alarms::Alarms;
use crate::cluster::NodeIndex;
use crate::decision::{Decision, Release, Unit, Verdict, WhyReleased};
use crate::groups::GroupId;
use crate::moment::Moment;
use crate::overcommit::{self, Ledger, Overcommit, Suspect};
use crate::pods::{PodId, Stage};

const POD_SCHEDULED: &str = "PodScheduled";

/// Pods that were bound beyond what there was, by node.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    beyond: BTreeMap<NodeIndex, BTreeSet<PodId>>,
    alarms: Alarms<NodeIndex>,
    /// Decided, and not told yet.
    told: VecDeque<Decision>,
}

impl Surplus {
    /// The pod is on the node no more.
    pub(super) fn left(&mut self, node: NodeIndex, pod: PodId) {
        let Some(pods) = self.beyond.get_mut(&node) else { return };
        pods.remove(&pod);
        if pods.is_empty() {
            self.settled(node);
        }
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.alarms.next_at()
    }

    fn settled(&mut self, node: NodeIndex) {
        self.beyond.remove(&node);
        self.alarms.clear(node);
    }
}

/// In which order pods came to a node: that of the gang they belong to before their own.
type Rank<'a> = (Moment, Moment, (&'a str, &'a str), Moment, Moment, &'a str);

impl Core {
    /// A pod is shown on its node; `came`: it was seen without one before.
    pub(super) fn note_bound(&mut self, id: PodId, view: &PodView, came: bool) {
        let pod = self.pods.get_mut(id);
        pod.leaving = view.metadata.is_deleting();
        let Stage::Bound(node) = pod.stage else { return };
        if !came {
            return;
        }
        let scheduled = view.status.conditions.iter().find(|one| one.kind == POD_SCHEDULED && one.status == "True");
        pod.bound_at = scheduled.and_then(|one| one.last_transition_time).into();
        let judge = self.classes.profile(&view.spec.scheduler_name).filter(|_| view.metadata.controller().is_some());
        pod.judge = judge.filter(|judge| judge.fit().is_some()).cloned();
        if self.config.overcommit_after.is_some() && self.is_beyond(id, node) {
            self.surplus.beyond.entry(node).or_default().insert(id);
            self.surplus.alarms.set(node);
        }
    }

    /// Whether the pod, which was bound last, takes more of its node than the others leave.
    fn is_beyond(&self, id: PodId, node: NodeIndex) -> bool {
        let pod = self.pods.get(id);
        let over = |resource| self.cluster.requested(resource, node) > self.cluster.allocatable(resource, node);
        // Nearly always the sums tell that there is room.
        let may_be = self.cluster.pods_count(node) > self.cluster.pods_allowed(node)
            || pod.usage.requests.iter().any(|(resource, _)| over(*resource));
        if !may_be || !self.cluster.node(node).present {
            return false;
        }
        // The sums also count binds of our own that are under way: those come after this one, if they come at all.
        let mut ledger = Ledger::of(&self.cluster, node);
        self.pods
            .bound_to(node)
            .filter(|other| *other != id)
            .for_each(|other| ledger.take(&self.pods.get(other).usage));
        self.suspect(id).is_some_and(|suspect| ledger.lacks(suspect.usage, suspect.fit).is_some())
    }

    /// The next pod that has to leave a node which has had too many for too long.
    pub(super) fn make_room(&mut self, now: Timestamp) -> Option<Decision> {
        let pause = self.config.overcommit_after?;
        while self.surplus.told.is_empty() {
            let node = self.surplus.alarms.ringing(now, pause)?;
            let leave = if self.cluster.node(node).present { self.surplus_of(node) } else { Vec::new() };
            if leave.is_empty() {
                // Others have left meanwhile, or are about to.
                self.surplus.settled(node);
                continue;
            }
            // Whoever keeps its place now keeps it, whatever becomes of the node.
            self.surplus.beyond.insert(node, leave.iter().map(|(id, _)| *id).collect());
            // Should they stay, they are asked to go once more.
            self.surplus.alarms.ring_at(node, now + pause);
            // The last to come is the first to go.
            for (id, overcommit) in leave.into_iter().rev() {
                let pod = self.pods.get(id);
                let release = Release { pods: vec![pod.as_member()], why: WhyReleased::Overcommit(overcommit) };
                let (unit, verdict) = (Unit::Pod(pod.key()), Verdict::Release(release));
                self.surplus.told.push_back(Decision { unit, verdict, domain: None, unplaced: None });
            }
        }
        self.surplus.told.pop_front()
    }

    /// Who has to leave the node now, in the order they came.
    fn surplus_of(&self, node: NodeIndex) -> Vec<(PodId, Overcommit)> {
        let beyond = &self.surplus.beyond[&node];
        let gangs: BTreeSet<GroupId> = beyond.iter().filter_map(|pod| self.gang_of(*pod)).collect();
        // Of two gangs that were bound at once each would be left with half of its pods, if only those went that were
        // bound last: where one of a gang is too many, all of it on this node have to stand back behind older gangs.
        let is_suspect = |id: &PodId| {
            let of_such_gang = self.gang_of(*id).is_some_and(|gang| gangs.contains(&gang));
            beyond.contains(id) || (of_such_gang && self.pods.get(*id).judge.is_some())
        };
        let here = self.pods.bound_to(node).filter(|id| !self.pods.get(*id).leaving);
        let (mut suspects, others): (Vec<PodId>, Vec<PodId>) = here.partition(is_suspect);
        suspects.sort_by_cached_key(|id| self.rank(*id));
        let mut ledger = Ledger::of(&self.cluster, node);
        others.iter().for_each(|id| ledger.take(&self.pods.get(*id).usage));
        let leave = overcommit::surplus(ledger, suspects.iter().filter_map(|id| self.suspect(*id)));
        let mut all = Ledger::of(&self.cluster, node);
        others.iter().chain(&suspects).for_each(|id| all.take(&self.pods.get(*id).usage));
        leave.into_iter().map(|(id, short)| (id, all.overcommit(short))).collect()
    }

    fn suspect(&self, id: PodId) -> Option<Suspect<'_, PodId>> {
        let pod = self.pods.get(id);
        let fit = pod.judge.as_ref()?.fit()?;
        Some(Suspect { who: id, usage: &pod.usage, fit })
    }

    fn gang_of(&self, id: PodId) -> Option<GroupId> {
        let group = self.pods.get(id).group?;
        self.groups.get(group).terms.as_ref()?.min_count.map(|_| group)
    }

    fn rank(&self, id: PodId) -> Rank<'_> {
        let pod = self.pods.get(id);
        let (at, created, key) = match self.gang_of(id).map(|gang| self.groups.get(gang)) {
            Some(gang) => {
                let first = gang.placed.pods().map(|member| self.pods.get(member).bound_at).min();
                (first.unwrap_or_default(), gang.turn.created, (&*gang.key.namespace, &*gang.key.name))
            }
            None => (pod.bound_at, pod.created(), (&*pod.view.metadata.namespace, &*pod.view.metadata.name)),
        };
        (at, created, key, pod.bound_at, pod.created(), pod.uid())
    }
}
