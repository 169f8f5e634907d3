//! Says what was decided: conditions and events, from the book and the caches as they are now.
//!
//! Nothing here remembers a decision: it looks at what is refused and what is bound, compares that with what was said,
//! and says the difference. So a restart, a lost write or a burst of decisions all end in the same conditions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, ObjectKey, PodGroupView, PodView, View};
use runtime::{Cache, EventKind, ObjectRef, Recorder, failure};
use scheduler_core::{Placement, RemedyStatus, Unit};

use crate::conditions::{self, POD_GROUP_NOT_READY, POD_SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE};
use crate::degraded;
use crate::execute::WriteQueue;
use crate::handle::SchedulerHandle;
use crate::publish::{PublishTime, RefusalMessage, condition_for, is_new_cause, publish_time};
use crate::status_tracker::{ReminderSubject, StatusTracker};

/// So many controllers are remembered as told that demands of their pods are not looked at; then all are forgotten.
const MAX_WARNED_TERMS: usize = 4096;

/// What announcing takes besides the book.
pub(crate) struct Announcer {
    pub(crate) pods: Cache<PodView>,
    pub(crate) pod_groups: Cache<PodGroupView>,
    /// For the pods of each `schedulerName` that are ours to place; Events come from the scheduler of that name.
    pub(crate) recorders: BTreeMap<String, Recorder>,
    /// For what no such pod tells the name of.
    pub(crate) recorder: Recorder,
    pub(crate) handle: SchedulerHandle,
    /// The least time between two refusals of one unit that differ only in numbers.
    pub(crate) pause: Duration,
    /// Whether pods are placed without regard to what no plugin looks at; otherwise they are refused.
    pub(crate) ignores_terms: bool,
}

impl Announcer {
    /// Looks at every unit of this turn. Groups for whose condition there is no room stay for the next.
    pub(crate) fn publish_units(&self, tracker: &mut StatusTracker, writes: &mut WriteQueue, now: Timestamp) {
        while writes.has_room_for_first_condition()
            && let Some(key) = tracker.newly_scheduled.pop_first()
        {
            if !tracker.group_status(&key).write_in_flight {
                self.publish_group(&Unit::Group(key.clone()), &key, tracker, writes, now);
            }
        }
        while let Some(unit) = tracker.dirty.pop_first() {
            match &unit {
                Unit::Pod(key) => self.publish_pod_unit(&unit, key, tracker, now),
                // When the write in flight ends, the group is looked at again.
                Unit::Group(key) if tracker.group_status(key).write_in_flight => {}
                // Units are in order and groups are their last kind: only groups are left.
                Unit::Group(_) if !writes.has_room_for_group_condition(now) => {
                    tracker.dirty.insert(unit);
                    return;
                }
                Unit::Group(key) => self.publish_group(&unit, key, tracker, writes, now),
            }
        }
    }

    fn publish_pod_unit(&self, unit: &Unit, key: &ObjectKey, tracker: &mut StatusTracker, now: Timestamp) {
        let (Some(words), Some(pod)) = (self.refusal(unit), self.pods.get(key)) else { return };
        if self.is_due(unit, &words, tracker, now) {
            if is_new_cause(&words, tracker.published(unit)) {
                self.record_failed_scheduling(self.recorder_of(&pod), &ObjectRef::of(&*pod), &words.pod_message);
            }
            tracker.dirty_pods.insert(key.clone());
            tracker.publish(unit.clone(), words, now);
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
        let refused = self.refusal(unit).and_then(|words| self.still_refused(unit, key, words, tracker));
        let why = refused.as_ref().map(|words| words.message.clone());
        let to_say = refused.filter(|words| self.is_due(unit, words, tracker, now));
        if let Some(view) = &view {
            let mut wanted = Vec::new();
            let standing = tracker.group_status(key);
            if !standing.scheduled
                && let Some(condition) = condition_for(
                    view,
                    standing.bound,
                    standing.counts.succeeded,
                    to_say.as_ref(),
                    standing.bind_error.as_deref(),
                )
            {
                standing.scheduled = condition.status == "True";
                wanted.push(condition);
            }
            wanted.extend(self.degraded_condition(view, key, why.as_deref(), tracker, now));
            if !wanted.is_empty() {
                tracker.group_status(key).write_in_flight = true;
                let body = conditions::patch(&view.metadata, &view.status.conditions, &wanted, now);
                writes.write_group_condition(key.clone(), body);
            }
        }
        let Some(words) = to_say else { return };
        if is_new_cause(&words, tracker.published(unit)) {
            self.report_refused_group(key, view.as_deref(), &words, tracker);
        }
        tracker.publish(unit.clone(), words, now);
    }

    /// Tells of a group that is refused for another reason than before: in Events, and on each of its pods.
    fn report_refused_group(
        &self,
        key: &ObjectKey,
        view: Option<&PodGroupView>,
        words: &RefusalMessage,
        tracker: &mut StatusTracker,
    ) {
        let pods = self.waiting_pods(key);
        let recorder = self.recorder_of_group(&pods);
        match view {
            Some(view) => {
                self.record_failed_scheduling(recorder, &ObjectRef::of(view), &words.message);
                // Whoever sent a Job looks there first.
                let job = view.metadata.controller().filter(|owner| owner.kind == "Job");
                if let Some(job) = job {
                    let message = format!("PodGroup {}: {}", key.name, words.message);
                    self.record_failed_scheduling(recorder, &ObjectRef::to_owner(job, &key.namespace), &message);
                }
            }
            // Without a PodGroup the pods are the only place where anyone would look.
            None => pods
                .iter()
                .for_each(|pod| self.record_failed_scheduling(recorder, &ObjectRef::of(&**pod), &words.message)),
        }
        tracker.dirty_pods.extend(pods.iter().map(|pod| pod.metadata.key()));
    }

    /// What is to be said now about whether the group still has its `minCount`, and why the rest of it is refused.
    fn degraded_condition(
        &self,
        view: &PodGroupView,
        key: &ObjectKey,
        refused: Option<&str>,
        tracker: &mut StatusTracker,
        now: Timestamp,
    ) -> Option<Condition> {
        let standing = tracker.group_status(key);
        standing.below_min_count_since =
            standing.is_below_min_count().then(|| standing.below_min_count_since.unwrap_or(now));
        let min_count = standing.quorum().filter(|_| standing.scheduled)?;
        let (held, said) = (&view.status.conditions, standing.degraded.as_ref());
        let wanted = degraded::condition(standing.counts, min_count, held, said, refused)?;
        let noticed = standing.observed_counts.filter(|(counts, _)| *counts == standing.counts);
        let (_, counts_since) = *standing.observed_counts.insert(noticed.unwrap_or((standing.counts, now)));
        let since =
            degraded::DegradedSince { short: standing.below_min_count_since.unwrap_or(now), counts: counts_since };
        match degraded::publish_time(&wanted, held, said, since, now, self.pause) {
            PublishTime::Never => None,
            PublishTime::At(at) => {
                tracker.remind(at, ReminderSubject::Unit(Unit::Group(key.clone())));
                None
            }
            PublishTime::Now => {
                let status_changed = said.is_none_or(|said| said.condition.status != wanted.status);
                standing.degraded = Some(degraded::PublishedCondition { condition: wanted.clone(), at: now });
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

    /// Tells of members that came with another priority than their group's: once a group, since mostly all have it.
    pub(crate) fn warn_priority_mismatch(&self, tracker: &mut StatusTracker) {
        for key in std::mem::take(&mut tracker.new_members) {
            let Some(pod) = self.pods.get(&key) else { continue };
            let Unit::Group(group) = tracker.unit_of(&pod) else { continue };
            let Some(view) = self.pod_groups.get(&group) else { continue };
            let (own, groups) = (pod.spec.priority.unwrap_or(0), view.spec.priority.unwrap_or(0));
            if own != groups && tracker.warned_priority.insert(group) {
                let message = format!("pod {key} has priority {own}; the group's, {groups}, counts for all its pods");
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

    /// Tells of a PodGroup whose expected count is no number, which counts as if it were not there.
    pub(crate) fn warn_bad_expected_count(&self, group: &PodGroupView) {
        if let Some(Err(text)) = group.expected_count() {
            let message =
                format!("annotation {}: {text:?} is not a whole number", PodGroupView::EXPECTED_COUNT_ANNOTATION);
            self.recorder.event(&ObjectRef::of(group), EventKind::Warning, "BadAnnotation", "Scheduling", &message);
        }
    }

    /// Tells of pods that demand something of their place which no plugin looks at yet: once for all pods of a controller.
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
            let message = format!("pods are placed without regard to {fields}, which this scheduler does not know yet");
            tracing::warn!("pod {key}: {message}");
            self.recorder_of(&pod).event(&about, EventKind::Warning, "ConstraintsIgnored", "Scheduling", &message);
        }
    }

    /// Tells of a gang that was left half bound and is to start as a whole.
    pub(crate) fn gang_released(&self, group: &ObjectKey, message: &str) {
        if let Some(view) = self.pod_groups.get(group) {
            let recorder = self.recorder_of_group(&self.members(group));
            recorder.event(&ObjectRef::of(&*view), EventKind::Warning, "GangReleased", "Scheduling", message);
        }
    }

    /// Tells of a pod that has to leave a node which was given too many.
    pub(crate) fn overcommit_released(&self, pod: &ObjectKey, message: &str) {
        if let Some(pod) = self.pods.get(pod) {
            let about = ObjectRef::of(&*pod);
            self.recorder_of(&pod).event(&about, EventKind::Warning, "OvercommitReleased", "Scheduling", message);
        }
    }

    /// Writes pod conditions while there is room.
    pub(crate) fn publish_pods(&self, tracker: &mut StatusTracker, writes: &mut WriteQueue, now: Timestamp) {
        while writes.has_room_for_pod_condition(now)
            && let Some(key) = tracker.dirty_pods.pop_first()
        {
            let Some(pod) = self.pods.get(&key).filter(|pod| is_pending(pod) && !writes.is_binding(&key)) else {
                continue;
            };
            if !self.is_ours(&pod) {
                continue;
            }
            let wanted = match (tracker.published_for(&pod), tracker.bind_error(&key)) {
                (Some(said), _) => match refused_pod_condition(&pod, &said.words, tracker.shows_refusals(&pod)) {
                    Some(wanted) => wanted,
                    None => continue,
                },
                (None, Some(error)) => conditions::false_condition(POD_SCHEDULED, SCHEDULER_ERROR, error),
                (None, None) => continue,
            };
            if !conditions::is_current(&pod.status.conditions, &wanted) {
                let body = conditions::patch(&pod.metadata, &pod.status.conditions, &[wanted], now);
                writes.write_pod_condition(key, body);
            }
        }
    }

    /// Whether the pod's condition is ours to write: what is said of a group is no news about members that are gated or that
    /// another scheduler places.
    fn is_ours(&self, pod: &PodView) -> bool {
        pod.spec.scheduling_gates.is_empty() && self.recorders.contains_key(&*pod.spec.scheduler_name)
    }

    /// Tells of a bind that was taken, or of the error that refused it.
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
        let held = self.pods.get(pod);
        let recorder = held.as_deref().map_or(&self.recorder, |held| self.recorder_of(held));
        match error {
            None => {
                let message = format!("Successfully assigned {pod} to {node}");
                recorder.event(&about, EventKind::Normal, "Scheduled", "Binding", &message);
            }
            Some(error) => {
                let message = format!("binding rejected: {}", failure::message(error));
                self.record_failed_scheduling(recorder, &about, &message);
                let unit = held.map(|held| tracker.unit_of(&held));
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

    /// Why the unit is refused. One for which ways out are just being looked for is not spoken of yet: they come next,
    /// and then all is said at once.
    fn refusal(&self, unit: &Unit) -> Option<RefusalMessage> {
        let refusal = self.handle.get(unit).filter(|refusal| refusal.remedies != RemedyStatus::Pending)?;
        Some(RefusalMessage::of(&refusal))
    }

    /// Takes the refusal of a group back when none of its pods waits any more and either some are there (others bound
    /// them) or nothing at all is left of it.
    fn still_refused(
        &self,
        unit: &Unit,
        key: &ObjectKey,
        words: RefusalMessage,
        tracker: &mut StatusTracker,
    ) -> Option<RefusalMessage> {
        let members = self.members(key);
        let over =
            members.iter().all(|pod| !is_pending(pod)) && (!members.is_empty() || self.pod_groups.get(key).is_none());
        if over {
            self.handle.remove_refusal(unit);
            tracker.forget(unit);
        }
        (!over).then_some(words)
    }

    /// Whether `words` are to be said now; if later, the book is reminded.
    fn is_due(&self, unit: &Unit, words: &RefusalMessage, tracker: &mut StatusTracker, now: Timestamp) -> bool {
        match publish_time(words, tracker.published(unit), now, self.pause) {
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

/// The condition of a pod that is refused, alone or with its group; `None` if it is to have none. `group_tells`: the group
/// has a condition that says more.
fn refused_pod_condition(pod: &PodView, words: &RefusalMessage, group_tells: bool) -> Option<Condition> {
    let is_unschedulable = |one: &Condition| one.kind == POD_SCHEDULED && one.reason == UNSCHEDULABLE;
    let reason = match words.is_incomplete() {
        false => UNSCHEDULABLE,
        true if pod.status.conditions.iter().any(is_unschedulable) => POD_GROUP_NOT_READY,
        true => return None,
    };
    let more = if group_tells && words.is_on_group { "; see its conditions" } else { "" };
    Some(conditions::false_condition(POD_SCHEDULED, reason, &format!("{}{more}", words.pod_message)))
}

/// Whether the pod still wants a node.
fn is_pending(pod: &PodView) -> bool {
    pod.node_name().is_none() && !pod.is_finished() && !pod.metadata.is_deleting()
}
