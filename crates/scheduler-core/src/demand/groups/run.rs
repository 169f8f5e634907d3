//! Runs of a group: which succeeded members count toward the current one.
//!
//! Pods created after all others of the group have ended are a new run and start as a whole. Members that succeeded
//! before do not count toward it. If the controller continues its work, for example by replacing a failed member, the
//! group does not wait for more pods than the controller creates.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ControllerRef, TrackedGroup};
use crate::cluster::compact_timestamp::CompactTimestamp;
use crate::demand::pods::{PodId, Pods, TrackedPod};

/// The current run of a group.
#[derive(Debug, Default)]
pub(crate) struct GroupRun {
    /// Whether, since its first pod arrived, the members of earlier runs were determined.
    is_resolved: bool,
    /// Members that succeeded in it and still exist. They were placed, so they count toward `minCount`.
    // Upstream: they do not count, so that the last pods of a Job that has to replace one of them wait forever.
    succeeded: BTreeSet<PodId>,
    /// The previous run had the same controller as the current pods, and the controller did not declare how many will
    /// come. All existing pods must start together, and no more are waited for.
    is_continued: bool,
    /// The controllers of pods that were placed in it, or in a run that it continues.
    controllers: BTreeSet<Arc<ControllerRef>>,
}

impl GroupRun {
    /// How many members succeeded in it and still exist.
    pub(crate) fn succeeded_count(&self) -> usize {
        self.succeeded.len()
    }

    pub(crate) fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// A pod of this controller is placed.
    pub(crate) fn add_controller(&mut self, controller: &Arc<ControllerRef>) {
        if !self.controllers.contains(controller) {
            self.controllers.insert(Arc::clone(controller));
        }
    }

    /// A pod arrived when no other was pending or placed, or a member that succeeded counts now.
    pub(crate) fn reset(&mut self) {
        self.is_resolved = false;
    }

    /// A member succeeded.
    pub(crate) fn add_succeeded(&mut self, pod: PodId) {
        self.succeeded.insert(pod);
    }

    #[cfg(test)]
    pub(crate) fn has_succeeded(&self, pod: PodId) -> bool {
        self.succeeded.contains(&pod)
    }

    /// A succeeded member is gone.
    pub(crate) fn forget(&mut self, pod: PodId) {
        self.succeeded.remove(&pod);
    }
}

impl TrackedGroup {
    /// Separates the members of earlier runs from those of the current one, once per run. Returns the members that no
    /// longer count.
    pub(crate) fn detect_new_run(&mut self, pods: &Pods) -> Vec<PodId> {
        let Some(spec) = self.spec.as_ref() else { return Vec::new() };
        let Some(min_count) = spec.min_count else { return Vec::new() };
        if std::mem::replace(&mut self.run.is_resolved, true) {
            return Vec::new();
        }
        let live = || self.pending.pods().chain(self.placed.pods()).map(|id| pods.get(id));
        let is_of_run = |pod: &TrackedPod| pod.owner.as_ref().is_some_and(|own| self.run.controllers.contains(own));
        // Pods of others continue nothing, also if nothing of the run is left.
        self.run.is_continued &= live().any(is_of_run);
        if self.run.succeeded.is_empty() {
            return Vec::new();
        }
        let Some(started) = live().map(TrackedPod::created).min() else { return Vec::new() };
        let controllers: BTreeSet<Arc<ControllerRef>> = live().filter_map(|pod| pod.owner.clone()).collect();
        let succeeded = self.run.succeeded.iter().map(|id| (*id, pods.get(*id)));
        let ended: Vec<_> = succeeded.filter(|(_, pod)| ended_at(pod) <= started).collect();
        // If the group's owner is none of these controllers, several controllers share the group.
        let is_shared = spec.owner.as_ref().is_some_and(|own| !controllers.iter().any(|one| **one == *own));
        let is_own = |pod: &TrackedPod| pod.owner.as_ref().is_some_and(|owner| controllers.contains(owner));
        let has_started = |one: &Arc<ControllerRef>| self.run.controllers.contains(one);
        let continues = controllers.iter().any(has_started) || ended.iter().any(|(_, pod)| is_own(pod));
        let is_complete = ended.len() >= min_count;
        if ended.is_empty() || (is_shared && !continues && !is_complete) {
            return Vec::new();
        }
        let declares_count = spec.is_ours && spec.expected_count.is_some();
        let is_continued = if is_complete { ended.iter().all(|(_, pod)| is_own(pod)) } else { continues };
        let past: Vec<PodId> = ended.into_iter().map(|(id, _)| id).collect();
        past.iter().for_each(|pod| self.run.forget(*pod));
        self.run.is_continued = is_continued && !declares_count;
        if !is_continued {
            self.run.controllers.clear();
        }
        self.run.controllers.extend(controllers);
        past
    }
}

/// When a succeeded pod ended, by the best evidence available; never before its creation.
fn ended_at(pod: &TrackedPod) -> CompactTimestamp {
    let status = &pod.view.status;
    let containers =
        status.container_statuses.iter().filter_map(|one| one.state.terminated.as_ref()?.finished_at).max();
    let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
    CompactTimestamp::from(containers.or_else(|| ready?.last_transition_time)).max(pod.created())
}
