//! Publishes results: conditions and Events, from the status tracker and the caches.
//!
//! Nothing here remembers a decision. It compares the refused and bound units with what was published, and publishes the
//! difference. So a restart, a lost write or a burst of decisions all end in the same conditions.

pub(crate) mod status_tracker; // per group: bound pods, and what was last published
pub(crate) mod publish_queue; // what is to be published, the oldest first
pub mod publish; // when a refusal or a success is written (pure)
pub mod degraded; // whether a gang still has its minCount (pure)
pub mod conditions; // the bodies of those writes (pure)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, ObjectKey, PodGroupView, PodView, View};
use runtime::{Cache, EventKind, ObjectRef, Recorder, failure};
use scheduler_core::{Placement, RemedyStatus, Unit};

use crate::announce::conditions::{NOT_ATTEMPTED, POD_GROUP_NOT_READY, POD_SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE};
use crate::announce::publish::{PublishTime, RefusalMessage, condition_for, is_new_cause, publish_time};
use crate::announce::status_tracker::{ReminderSubject, StatusTracker};
use crate::execute::WriteQueue;
use crate::handle::SchedulerHandle;

/// Controllers that are remembered as warned of ignored terms. Beyond that, all are forgotten.
const MAX_WARNED_TERMS: usize = 4096;

/// Dependencies of publishing, besides the status tracker.
pub(crate) struct Announcer {
    pub(crate) pods: Cache<PodView>,
    pub(crate) pod_groups: Cache<PodGroupView>,
    /// One per `schedulerName` that we schedule; Events are reported by the scheduler of that name.
    pub(crate) recorders: BTreeMap<String, Recorder>,
    /// For Events without such a pod.
    pub(crate) recorder: Recorder,
    pub(crate) handle: SchedulerHandle,
    /// Minimum time between two published refusals of one unit that differ only in numbers.
    pub(crate) pause: Duration,
    /// Whether pods with unsupported terms are placed without regard to these; otherwise they are refused.
    pub(crate) ignores_terms: bool,
}

impl Announcer {
    /// Publishes every dirty unit, the one that has been dirty for longest first. Groups beyond the limit of condition writes
    /// stay dirty.
    pub(crate) fn publish_units(&self, tracker: &mut StatusTracker, writes: &mut WriteQueue, now: Timestamp) {
        while writes.can_write_first_condition()
            && let Some(key) = tracker.newly_scheduled.pop_first()
        {
            if !tracker.group_status(&key).write_in_flight {
                self.publish_group(&Unit::Group(key.clone()), &key, tracker, writes, now);
            }
        }
        while let Some(key) = tracker.dirty.pods.pop_first() {
            self.publish_pod_unit(&Unit::Pod(key.clone()), &key, tracker, now);
        }
        while writes.can_write_group_condition(now)
            && let Some(key) = tracker.dirty.groups.pop_first()
        {
            // With a write in flight, the group is marked dirty again when that ends.
            if !tracker.group_status(&key).write_in_flight {
                self.publish_group(&Unit::Group(key.clone()), &key, tracker, writes, now);
            }
        }
    }

    fn publish_pod_unit(&self, unit: &Unit, key: &ObjectKey, tracker: &mut StatusTracker, now: Timestamp) {
        let (Some(message), Some(pod)) = (self.refusal(unit), self.pods.get(key)) else { return };
        if self.is_due(unit, &message, tracker, now) {
            if is_new_cause(&message, tracker.published(unit)) {
                self.record_failed_scheduling(self.recorder_of(&pod), &ObjectRef::of(&*pod), &message.pod_message);
            }
            tracker.dirty_pods.insert(key.clone());
            tracker.publish(unit.clone(), message, now);
        }
    }

    fn publish_group(
        &self,
        unit: &Unit,
        key: &ObjectKey,
        tracker: &mut StatusTracker,
        writes: &mut WriteQueue,
        now: Timestamp,
    ) {
        let view = self.pod_groups.get(key);
        let refusal = self.refusal(unit).and_then(|refusal| self.still_refused(unit, key, refusal, tracker));
        let refusal_text = refusal.as_ref().map(|refusal| refusal.message.clone());
        let to_publish = refusal.filter(|refusal| self.is_due(unit, refusal, tracker, now));
        if let Some(view) = &view {
            let mut wanted = Vec::new();
            let status = tracker.group_status(key);
            if !status.scheduled
                && let Some(condition) = condition_for(
                    view,
                    status.bound,
                    status.counts.succeeded,
                    to_publish.as_ref(),
                    status.bind_error.as_deref(),
                )
            {
                status.scheduled = condition.status == "True";
                wanted.push(condition);
            }
            wanted.extend(self.degraded_condition(view, key, refusal_text.as_deref(), tracker, now));
            if !wanted.is_empty() {
                tracker.group_status(key).write_in_flight = true;
                let body = conditions::patch(&view.metadata, &view.status.conditions, &wanted, now);
                writes.write_group_condition(key.clone(), body);
            }
        }
        let Some(message) = to_publish else { return };
        if is_new_cause(&message, tracker.published(unit)) {
            self.report_refused_group(key, view.as_deref(), &message, tracker);
        }
        tracker.publish(unit.clone(), message, now);
    }

    /// Reports a group that is refused for a new reason: in Events, and on each of its pods.
    fn report_refused_group(
        &self,
        key: &ObjectKey,
        view: Option<&PodGroupView>,
        refusal: &RefusalMessage,
        tracker: &mut StatusTracker,
    ) {
        let pods = self.waiting_pods(key);
        let recorder = self.recorder_of_group(&pods);
        match view {
            Some(view) => {
                self.record_failed_scheduling(recorder, &ObjectRef::of(view), &refusal.message);
                // Users of a Job look at the Job first.
                let job = view.metadata.controller().filter(|owner| owner.kind == "Job");
                if let Some(job) = job {
                    let message = format!("PodGroup {}: {}", key.name, refusal.message);
                    self.record_failed_scheduling(recorder, &ObjectRef::to_owner(job, &key.namespace), &message);
                }
            }
            // Without a PodGroup, the pods are the only objects to report on.
            None => pods
                .iter()
                .for_each(|pod| self.record_failed_scheduling(recorder, &ObjectRef::of(&**pod), &refusal.message)),
        }
        tracker.dirty_pods.extend(pods.iter().map(|pod| pod.metadata.key()));
    }

    /// The `Degraded` condition to write now, if any. `refused`: why pending pods of the group are refused.
    fn degraded_condition(
        &self,
        view: &PodGroupView,
        key: &ObjectKey,
        refused: Option<&str>,
        tracker: &mut StatusTracker,
        now: Timestamp,
    ) -> Option<Condition> {
        let status = tracker.group_status(key);
        status.below_min_count_since = status.is_below_min_count().then(|| status.below_min_count_since.unwrap_or(now));
        let min_count = status.quorum().filter(|_| status.scheduled)?;
        let (current, published) = (&view.status.conditions, status.degraded.as_ref());
        let wanted = degraded::condition(status.counts, min_count, current, published, refused)?;
        let unchanged = status.observed_counts.filter(|(counts, _)| *counts == status.counts);
        let (_, counts_since) = *status.observed_counts.insert(unchanged.unwrap_or((status.counts, now)));
        let since =
            degraded::DegradedSince { short: status.below_min_count_since.unwrap_or(now), counts: counts_since };
        match degraded::publish_time(&wanted, current, published, since, now, self.pause) {
            PublishTime::Never => None,
            PublishTime::At(at) => {
                tracker.remind(at, ReminderSubject::Unit(Unit::Group(key.clone())));
                None
            }
            PublishTime::Now => {
                let status_changed = published.is_none_or(|published| published.condition.status != wanted.status);
                status.degraded = Some(degraded::PublishedCondition { condition: wanted.clone(), at: now });
                if status_changed && wanted.status == "True" {
                    let about = ObjectRef::of(view);
                    self.recorder_of_group(&self.members(key)).event(
                        &about,
                        EventKind::Warning,
                        conditions::DEGRADED,
                        "Scheduling",
                        &wanted.message,
                    );
                }
                Some(wanted)
            }
        }
    }

    /// Warns of new members whose priority differs from their group's: once per group, since mostly all differ.
    pub(crate) fn warn_priority_mismatch(&self, tracker: &mut StatusTracker) {
        for key in std::mem::take(&mut tracker.new_members) {
            let Some(pod) = self.pods.get(&key) else { continue };
            let Unit::Group(group) = tracker.unit_of(&pod) else { continue };
            let Some(view) = self.pod_groups.get(&group) else { continue };
            let (of_pod, of_group) = (pod.spec.priority.unwrap_or(0), view.spec.priority.unwrap_or(0));
            if of_pod != of_group && tracker.warned_priority.insert(group) {
                let message =
                    format!("pod {key} has priority {of_pod}; the group's priority {of_group} applies to all its pods");
                self.recorder_of(&pod).event(
                    &ObjectRef::of(&*view),
                    EventKind::Warning,
                    "PriorityDiffers",
                    "Scheduling",
                    &message,
                );
            }
        }
    }

    /// Warns of a PodGroup whose expected count is not a number. Such an annotation is ignored.
    pub(crate) fn warn_bad_expected_count(&self, group: &PodGroupView) {
        if let Some(Err(text)) = group.expected_count() {
            let message =
                format!("annotation {}: {text:?} is not a whole number", PodGroupView::EXPECTED_COUNT_ANNOTATION);
            self.recorder.event(&ObjectRef::of(group), EventKind::Warning, "BadAnnotation", "Scheduling", &message);
        }
    }

    /// Warns of pods that are placed without regard to unsupported terms: once for all pods of a controller.
    pub(crate) fn warn_ignored_terms(&self, tracker: &mut StatusTracker) {
        for key in std::mem::take(&mut tracker.pods_with_unsupported_terms).into_iter().filter(|_| self.ignores_terms) {
            let Some(pod) = self.pods.get(&key).filter(|pod| self.is_ours(pod)) else { continue };
            let owner = pod.metadata.controller().map_or(&pod.metadata.uid, |owner| &owner.uid).clone();
            if tracker.warned_terms.len() == MAX_WARNED_TERMS {
                tracker.warned_terms.clear();
            }
            if !tracker.warned_terms.insert(owner) {
                continue;
            }
            let group = match tracker.unit_of(&pod) {
                Unit::Group(group) => self.pod_groups.get(&group),
                Unit::Pod(_) => None,
            };
            let about = group.map_or_else(|| ObjectRef::of(&*pod), |group| ObjectRef::of(&*group));
            let fields = pod.spec.unsupported_fields().join(", ");
            let message = format!("pods are placed without regard to {fields}, which this scheduler does not support");
            tracing::warn!("pod {key}: {message}");
            self.recorder_of(&pod).event(&about, EventKind::Warning, "ConstraintsIgnored", "Scheduling", &message);
        }
    }

    /// Reports that the pods of a half-bound gang are released.
    pub(crate) fn gang_released(&self, group: &ObjectKey, message: &str) {
        if let Some(view) = self.pod_groups.get(group) {
            let recorder = self.recorder_of_group(&self.members(group));
            recorder.event(&ObjectRef::of(&*view), EventKind::Warning, "GangReleased", "Scheduling", message);
        }
    }

    /// Reports that a pod of an over-committed node is released.
    pub(crate) fn overcommit_released(&self, pod: &ObjectKey, message: &str) {
        if let Some(pod) = self.pods.get(pod) {
            let about = ObjectRef::of(&*pod);
            self.recorder_of(&pod).event(&about, EventKind::Warning, "OvercommitReleased", "Scheduling", message);
        }
    }

    /// Writes pod conditions, up to the limit of writes in flight.
    pub(crate) fn publish_pods(&self, tracker: &mut StatusTracker, writes: &mut WriteQueue, now: Timestamp) {
        while writes.can_write_pod_condition(now)
            && let Some(key) = tracker.dirty_pods.pop_first()
        {
            let Some(pod) = self.pods.get(&key).filter(|pod| is_pending(pod) && !writes.is_binding(&key)) else {
                continue;
            };
            if !self.is_ours(&pod) {
                continue;
            }
            let wanted = match (tracker.published_for(&pod), tracker.bind_error(&key)) {
                (Some(published), _) => {
                    match refused_pod_condition(&pod, &published.message, tracker.shows_refusals(&pod)) {
                        Some(wanted) => wanted,
                        None => continue,
                    }
                }
                (None, Some(error)) => conditions::false_condition(POD_SCHEDULED, SCHEDULER_ERROR, error),
                (None, None) => continue,
            };
            if !conditions::is_current(&pod.status.conditions, &wanted) {
                let body = conditions::patch(&pod.metadata, &pod.status.conditions, &[wanted], now);
                writes.write_pod_condition(key, body);
            }
        }
    }

    /// Whether we write the pod's condition. The refusal of a group does not apply to members that are gated or that
    /// another scheduler places.
    fn is_ours(&self, pod: &PodView) -> bool {
        pod.spec.scheduling_gates.is_empty() && self.recorders.contains_key(&*pod.spec.scheduler_name)
    }

    /// Reports a successful bind, or the error of a failed one.
    pub(crate) fn bind_ended(&self, placement: &Placement, error: Option<&kube::Error>, tracker: &mut StatusTracker) {
        let Placement { pod, uid, node } = placement;
        let about = ObjectRef {
            api_version: PodView::RESOURCE.api_version(),
            kind: PodView::RESOURCE.kind.to_owned(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: uid.clone(),
            ..ObjectRef::default()
        };
        let cached = self.pods.get(pod);
        let recorder = cached.as_deref().map_or(&self.recorder, |pod| self.recorder_of(pod));
        match error {
            None => {
                let message = format!("Successfully assigned {pod} to {node}");
                recorder.event(&about, EventKind::Normal, "Scheduled", "Binding", &message);
            }
            Some(error) => {
                let message = format!("binding rejected: {}", failure::message(error));
                self.record_failed_scheduling(recorder, &about, &message);
                let unit = cached.map(|pod| tracker.unit_of(&pod));
                tracker.bind_failed(pod.clone(), unit, message);
            }
        }
    }

    /// The recorder of the scheduler that places `pod`.
    fn recorder_of(&self, pod: &PodView) -> &Recorder {
        self.recorders.get(&*pod.spec.scheduler_name).unwrap_or(&self.recorder)
    }

    /// The recorder of the scheduler that places the `members` of a group.
    fn recorder_of_group(&self, members: &[Arc<PodView>]) -> &Recorder {
        let named = |pod: &Arc<PodView>| self.recorders.get(&*pod.spec.scheduler_name);
        members.iter().find_map(named).unwrap_or(&self.recorder)
    }

    fn record_failed_scheduling(&self, recorder: &Recorder, about: &ObjectRef, message: &str) {
        recorder.event(about, EventKind::Warning, "FailedScheduling", "Scheduling", message);
    }

    /// The refusal of a unit. While a search for remedies is pending there is none: both are published together.
    fn refusal(&self, unit: &Unit) -> Option<RefusalMessage> {
        let refusal = self.handle.get(unit).filter(|refusal| refusal.remedies != RemedyStatus::Pending)?;
        Some(RefusalMessage::of(&refusal))
    }

    /// Withdraws the refusal of a group if none of its pods is pending, and either some exist (another scheduler bound them)
    /// or the group is gone, too.
    fn still_refused(
        &self,
        unit: &Unit,
        key: &ObjectKey,
        refusal: RefusalMessage,
        tracker: &mut StatusTracker,
    ) -> Option<RefusalMessage> {
        let members = self.members(key);
        let is_over =
            members.iter().all(|pod| !is_pending(pod)) && (!members.is_empty() || self.pod_groups.get(key).is_none());
        if is_over {
            self.handle.remove_refusal(unit);
            tracker.forget(unit);
        }
        (!is_over).then_some(refusal)
    }

    /// Whether `message` is to be published now. If later, the tracker gets a reminder.
    fn is_due(&self, unit: &Unit, message: &RefusalMessage, tracker: &mut StatusTracker, now: Timestamp) -> bool {
        match publish_time(message, tracker.published(unit), now, self.pause) {
            PublishTime::Now => true,
            PublishTime::Never => false,
            PublishTime::At(at) => {
                tracker.remind(at, ReminderSubject::Unit(unit.clone()));
                false
            }
        }
    }

    /// The pods that name the group.
    pub(crate) fn members(&self, group: &ObjectKey) -> Vec<Arc<PodView>> {
        self.pods.by_index(&PodView::BY_GROUP, &group.to_string())
    }

    fn waiting_pods(&self, group: &ObjectKey) -> Vec<Arc<PodView>> {
        self.members(group).into_iter().filter(|pod| is_pending(pod)).collect()
    }
}

/// The condition of a pod that is refused, alone or with its group; `None` if it gets none. `group_has_condition`: the
/// group has a condition with details.
fn refused_pod_condition(pod: &PodView, refusal: &RefusalMessage, group_has_condition: bool) -> Option<Condition> {
    let is_unschedulable = |condition: &Condition| condition.kind == POD_SCHEDULED && condition.reason == UNSCHEDULABLE;
    let reason = match (refusal.is_unschedulable(), refusal.is_incomplete()) {
        (true, _) => UNSCHEDULABLE,
        (false, false) => NOT_ATTEMPTED,
        (false, true) if pod.status.conditions.iter().any(is_unschedulable) => POD_GROUP_NOT_READY,
        (false, true) => return None,
    };
    let reference = if group_has_condition && refusal.is_on_group { "; see its conditions" } else { "" };
    Some(conditions::false_condition(POD_SCHEDULED, reason, &format!("{}{reference}", refusal.pod_message)))
}

/// Whether the pod still needs a node.
fn is_pending(pod: &PodView) -> bool {
    pod.node_name().is_none() && !pod.is_finished() && !pod.metadata.is_deleting()
}
