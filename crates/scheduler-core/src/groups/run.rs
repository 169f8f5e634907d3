//! Runs of a group: which of the members that succeeded count toward the present one.
//!
//! Pods that come when all others of the group have ended are a new run, and start as a whole: what succeeded before does
//! not count toward it. Where a controller goes on with what it began, as with a replacement for a member that failed, no
//! more pods are waited for than it makes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ControllerRef, TrackedGroup};
use crate::compact_timestamp::CompactTimestamp;
use crate::pods::{PodId, Pods, TrackedPod};

/// The present run of a group.
#[derive(Debug, Default)]
pub(crate) struct GroupRun {
    /// Whether it is known since the first of its pods came which pods are of earlier runs.
    is_resolved: bool,
    /// Members that succeeded in it and still exist. They had their place, so they count toward `minCount`.
    // Upstream: they drop out, so that the last pods of a Job that has to replace one of them wait for ever.
    succeeded: BTreeSet<PodId>,
    /// The run before was of the controller that makes the present pods, and it did not say how many will come: as many as
    /// exist have to start together, and no more are waited for.
    is_continued: bool,
    /// The controllers of pods that had a place in it.
    controllers: BTreeSet<Option<Arc<ControllerRef>>>,
}

impl GroupRun {
    /// How many members succeeded in it and still exist.
    pub(super) fn succeeded_count(&self) -> usize {
        self.succeeded.len()
    }

    pub(crate) fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// A pod of this controller gets a place.
    pub(crate) fn add_controller(&mut self, controller: Option<&Arc<ControllerRef>>) {
        if !self.controllers.contains(&controller.cloned()) {
            self.controllers.insert(controller.cloned());
        }
    }

    /// A pod came after a time without any that waited or had a place.
    pub(crate) fn reset(&mut self) {
        self.is_resolved = false;
    }

    /// A member succeeded.
    pub(crate) fn add_succeeded(&mut self, pod: PodId) {
        self.succeeded.insert(pod);
    }

    /// A member that had succeeded is gone.
    pub(crate) fn forget(&mut self, pod: PodId) {
        self.succeeded.remove(&pod);
    }
}

impl TrackedGroup {
    /// Tells the pods of earlier runs from those of the present one, once a run. Returns those that counted and do no
    /// longer.
    pub(crate) fn detect_new_run(&mut self, pods: &Pods) -> Vec<PodId> {
        let Some(terms) = self.spec.as_ref() else { return Vec::new() };
        let Some(min_count) = terms.min_count else { return Vec::new() };
        if std::mem::replace(&mut self.run.is_resolved, true) || self.run.succeeded.is_empty() {
            return Vec::new();
        }
        let live = || self.pending.pods().chain(self.placed.pods()).map(|id| pods.get(id));
        let Some(began) = live().map(TrackedPod::created).min() else { return Vec::new() };
        let controllers: BTreeSet<Option<Arc<ControllerRef>>> = live().map(|pod| pod.owner.clone()).collect();
        let succeeded = self.run.succeeded.iter().map(|id| (*id, pods.get(*id)));
        let ended: Vec<_> = succeeded.filter(|(_, pod)| ended_at(pod) <= began).collect();
        // Where something else than their controllers owns the group, several of them share it.
        let is_shared = terms.owner.as_ref().is_some_and(|own| !controllers.iter().flatten().any(|one| **one == *own));
        let is_own = |pod: &TrackedPod| pod.owner.is_some() && controllers.contains(&pod.owner);
        let has_begun = |one: &Option<Arc<ControllerRef>>| one.is_some() && self.run.controllers.contains(one);
        let goes_on = controllers.iter().any(has_begun) || ended.iter().any(|(_, pod)| is_own(pod));
        let is_complete = ended.len() >= min_count;
        if ended.is_empty() || (is_shared && !goes_on && !is_complete) {
            return Vec::new();
        }
        let is_told_how_many = terms.is_ours && terms.expected_count.is_some();
        let is_continued = if is_complete { ended.iter().all(|(_, pod)| is_own(pod)) } else { goes_on };
        let past: Vec<PodId> = ended.into_iter().map(|(id, _)| id).collect();
        past.iter().for_each(|pod| self.run.forget(*pod));
        self.run.is_continued = is_continued && !is_told_how_many;
        self.run.controllers = controllers;
        past
    }
}

/// When a pod that succeeded ended, by the best evidence there is; at least when it was created.
fn ended_at(pod: &TrackedPod) -> CompactTimestamp {
    let status = &pod.view.status;
    let containers =
        status.container_statuses.iter().filter_map(|one| one.state.terminated.as_ref()?.finished_at).max();
    let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
    CompactTimestamp::from(containers.or_else(|| ready?.last_transition_time)).max(pod.created())
}
