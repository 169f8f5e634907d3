//! All pods of all simulated nodes, ordered by the time of their next step. Pure; [`crate::run`] waits and writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::views::{NodeView, ObjectKey, PodView};
use api::{Revision, Timestamp};
use runtime::{Backoff, CacheChange};

use crate::cluster::SIMULATED_LABEL;
use crate::pod_lifecycle::{self, KubeletAction, PodDefaults, PodRuntimeState};
use crate::status::{self, PodWrite};

/// Pods by the time of their next step. The same changes at the same times give the same tasks in the same order.
#[derive(Debug)]
pub(crate) struct DueQueue {
    /// Simulated nodes.
    nodes: BTreeSet<String>,
    /// Every bound pod with further steps, also on nodes that are not, or not yet known to be, simulated.
    pods: BTreeMap<ObjectKey, PodEntry>,
    /// Pods by due time, then by key.
    due: BTreeSet<(Timestamp, ObjectKey)>,
    backoff: Backoff,
    defaults: PodDefaults,
}

#[derive(Debug)]
struct PodEntry {
    pod: Arc<PodView>,
    state: PodRuntimeState,
    /// A write is in flight; no step is due until it ends.
    writing: bool,
    /// The revision of our last write; no step is due until the cache has it.
    written: Revision,
    /// Failed writes in a row.
    failures: u32,
    /// End of the backoff after a failed write.
    not_before: Timestamp,
    /// This pod's time in the queue's `due`.
    due: Option<Timestamp>,
}

/// One write to execute.
#[derive(Debug)]
pub(crate) struct KubeletTask {
    pub pod: Arc<PodView>,
    pub action: KubeletAction,
    pub write: PodWrite,
    pub begun: Timestamp,
}

/// Result of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    /// Written; the pod now has this revision (zero if the response has none).
    Written(Revision),
    /// The pod does not exist any more.
    Gone,
    /// The pod has changed since it was cached.
    Conflict,
    /// Another error; the write is retried.
    Failed,
}

impl DueQueue {
    /// An empty queue; failed writes are retried after `backoff`.
    pub fn new(backoff: Backoff, defaults: PodDefaults) -> DueQueue {
        DueQueue { nodes: BTreeSet::new(), pods: BTreeMap::new(), due: BTreeSet::new(), backoff, defaults }
    }

    /// Observes a change of a node. Only whether it is simulated matters.
    pub fn observe_node(&mut self, change: &CacheChange<NodeView>) {
        let name = &change.latest().metadata.name;
        let is_ours = change
            .new
            .as_ref()
            .is_some_and(|node| node.metadata.labels.get(SIMULATED_LABEL).is_some_and(|v| v == "true"));
        let changed = if is_ours { self.nodes.insert(name.clone()) } else { self.nodes.remove(name) };
        if changed {
            // Rare: a node is added or removed once, and mostly without pods.
            let on_node = self.pods.iter().filter(|(_, entry)| entry.pod.spec.node_name == *name);
            let keys: Vec<ObjectKey> = on_node.map(|(key, _)| key.clone()).collect();
            keys.iter().for_each(|key| self.reschedule(key));
        }
    }

    /// Observes a change of a pod at `now`.
    pub fn observe_pod(&mut self, change: &CacheChange<PodView>, now: Timestamp) {
        let key = change.latest().metadata.key();
        match change.new.as_ref().filter(|pod| needs_kubelet(pod)) {
            None => self.forget(&key),
            Some(pod) => {
                match self.pods.get_mut(&key) {
                    Some(entry) if entry.pod.metadata.uid == pod.metadata.uid => entry.pod = Arc::clone(pod),
                    // A new pod of the same name begins with its first step.
                    _ => {
                        self.forget(&key);
                        self.pods.insert(key.clone(), PodEntry::new(Arc::clone(pod), now));
                    }
                }
                self.reschedule(&key);
            }
        }
    }

    /// When the next task is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next task that is due at `now`. The pod has no other until this one is completed.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<KubeletTask> {
        while self.next_due().is_some_and(|at| at <= now) {
            let (_, key) = self.due.pop_first()?;
            let entry = self.pods.get_mut(&key).expect("only known pods are due");
            entry.due = None;
            let Some(step) = pod_lifecycle::next_step(&entry.pod, &entry.state, &self.defaults) else { continue };
            entry.writing = true;
            let write = status::write(&entry.pod, &step.action, &entry.state, now);
            return Some(KubeletTask { pod: Arc::clone(&entry.pod), action: step.action, write, begun: now });
        }
        None
    }

    /// Records the result of a task.
    pub(crate) fn complete(&mut self, task: &KubeletTask, outcome: TaskOutcome, now: Timestamp) {
        let key = task.pod.metadata.key();
        let Some(entry) = self.pods.get_mut(&key).filter(|entry| entry.pod.metadata.uid == task.pod.metadata.uid)
        else {
            return;
        };
        entry.writing = false;
        match outcome {
            TaskOutcome::Written(revision) => {
                entry.state.record(&task.action, task.begun);
                entry.written = revision;
                entry.failures = 0;
            }
            // The cache is behind and will show the deletion.
            TaskOutcome::Gone => entry.written = Revision(u64::MAX),
            TaskOutcome::Conflict if entry.pod.metadata.resource_version > task.pod.metadata.resource_version => {}
            TaskOutcome::Conflict | TaskOutcome::Failed => {
                entry.failures += 1;
                entry.not_before = now.checked_add(self.backoff.delay(entry.failures)).unwrap_or(Timestamp::MAX);
            }
        }
        self.reschedule(&key);
    }

    fn forget(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.pods.remove(key)
            && let Some(due) = entry.due
        {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// Updates the due time of a pod.
    fn reschedule(&mut self, key: &ObjectKey) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        let due = if self.nodes.contains(&entry.pod.spec.node_name) { entry.next_at(&self.defaults) } else { None };
        if due == entry.due {
            return;
        }
        if let Some(before) = std::mem::replace(&mut entry.due, due) {
            self.due.remove(&(before, key.clone()));
        }
        if let Some(due) = due {
            self.due.insert((due, key.clone()));
        }
    }
}

/// Whether the pod is bound and has further steps, now or later. A pod that has ended has only its removal, once its
/// deletion is requested.
fn needs_kubelet(pod: &PodView) -> bool {
    pod.node_name().is_some() && (pod.metadata.is_deleting() || !pod.is_finished())
}

impl PodEntry {
    fn new(pod: Arc<PodView>, now: Timestamp) -> PodEntry {
        PodEntry {
            pod,
            state: PodRuntimeState::first_seen_at(now),
            writing: false,
            written: Revision::ZERO,
            failures: 0,
            not_before: Timestamp::MIN,
            due: None,
        }
    }

    fn next_at(&self, defaults: &PodDefaults) -> Option<Timestamp> {
        if self.writing || self.pod.metadata.resource_version < self.written {
            return None;
        }
        pod_lifecycle::next_step(&self.pod, &self.state, defaults).map(|step| step.at.max(self.not_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::{bound, in_phase};
    use api::views::PodPhase;
    use std::time::Duration;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn due_queue() -> DueQueue {
        let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(30) };
        let mut queue = DueQueue::new(backoff, PodDefaults::default());
        queue.observe_node(&node("true"));
        queue
    }

    fn node(simulated: &str) -> CacheChange<NodeView> {
        let mut node = NodeView::default();
        node.metadata.name = "n".to_owned();
        node.metadata.labels.insert(SIMULATED_LABEL.to_owned(), simulated.to_owned());
        CacheChange { old: None, new: Some(Arc::new(node)) }
    }

    fn changed(pod: PodView) -> CacheChange<PodView> {
        CacheChange { old: None, new: Some(Arc::new(pod)) }
    }

    fn at_revision(mut pod: PodView, revision: u64) -> PodView {
        pod.metadata.resource_version = Revision(revision);
        pod
    }

    fn take_tasks(queue: &mut DueQueue, now: i64) -> Vec<KubeletTask> {
        std::iter::from_fn(|| queue.take(second(now))).collect()
    }

    #[test]
    fn pods_are_due_only_on_nodes_known_to_be_simulated() {
        let backoff = Backoff { initial: Duration::ZERO, max: Duration::ZERO };
        let mut queue = DueQueue::new(backoff, PodDefaults::default());
        queue.observe_pod(&changed(bound("Never")), second(1));
        queue.observe_node(&node("false"));
        assert_eq!(queue.next_due(), None);
        queue.observe_node(&node("true"));
        assert_eq!(queue.next_due(), Some(second(1)));
        queue.observe_node(&node("false"));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn the_next_step_waits_until_the_cache_has_the_last_one() {
        let mut queue = due_queue();
        queue.observe_pod(&changed(bound("Never")), second(1));
        let task = take_tasks(&mut queue, 1).remove(0);
        assert_eq!((&task.action, queue.next_due()), (&KubeletAction::Start, None));
        queue.complete(&task, TaskOutcome::Written(Revision(9)), second(1));
        queue.observe_pod(&changed(at_revision(bound("Never"), 8)), second(1));
        assert_eq!(queue.next_due(), None, "the pod without our write would start a second time");
        queue.observe_pod(&changed(at_revision(in_phase(bound("Never"), PodPhase::Running, 0), 9)), second(1));
        assert_eq!(queue.next_due(), Some(second(2)), "it runs for a second");
    }

    #[test]
    fn failed_writes_are_retried_later_and_conflicts_with_a_newer_pod_at_once() {
        let mut queue = due_queue();
        queue.observe_pod(&changed(bound("Never")), second(1));
        for (now, wait) in [(1, 1), (2, 2), (4, 4)] {
            let task = take_tasks(&mut queue, now).remove(0);
            queue.complete(&task, TaskOutcome::Failed, second(now));
            assert_eq!(queue.next_due(), Some(second(now + wait)));
        }
        let task = take_tasks(&mut queue, 8).remove(0);
        queue.observe_pod(&changed(at_revision(bound("Never"), 8)), second(8));
        queue.complete(&task, TaskOutcome::Conflict, second(8));
        let task = take_tasks(&mut queue, 8).remove(0);
        assert_eq!(task.pod.metadata.resource_version, Revision(8));
    }

    #[test]
    fn a_new_pod_of_the_same_name_is_not_taken_for_the_old_one() {
        let mut queue = due_queue();
        queue.observe_pod(&changed(bound("Never")), second(1));
        let old = take_tasks(&mut queue, 1).remove(0);
        let mut new = bound("Never");
        new.metadata.uid = "v".to_owned();
        queue.observe_pod(&changed(new), second(2));
        queue.complete(&old, TaskOutcome::Gone, second(2));
        assert_eq!(take_tasks(&mut queue, 2).remove(0).pod.metadata.uid, "v");
    }

    #[test]
    fn the_final_delete_is_sent_once_though_the_pod_has_finalizers() {
        let mut queue = due_queue();
        let mut pod = in_phase(bound("Never"), PodPhase::Succeeded, 0);
        pod.metadata.deletion_timestamp = Some(second(1));
        queue.observe_pod(&changed(pod.clone()), second(1));
        let task = take_tasks(&mut queue, 1).remove(0);
        assert_eq!(task.action, KubeletAction::Remove);
        queue.complete(&task, TaskOutcome::Written(Revision::ZERO), second(1));
        queue.observe_pod(&changed(at_revision(pod, 8)), second(2));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn pods_due_at_the_same_time_are_ordered_by_name() {
        let mut queue = due_queue();
        for name in ["c", "a", "b"] {
            let mut pod = bound("Never");
            pod.metadata.name = name.to_owned();
            queue.observe_pod(&changed(pod), second(1));
        }
        let names: Vec<String> = take_tasks(&mut queue, 1).iter().map(|task| task.pod.metadata.name.clone()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
