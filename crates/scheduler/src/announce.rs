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
use scheduler_core::{Advised, Placement, Unit};

use crate::answers::Answers;
use crate::book::{Book, Topic};
use crate::carry_out::Writes;
use crate::conditions::{self, POD_GROUP_NOT_READY, POD_SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE};
use crate::degraded;
use crate::say::{Due, Words, condition_for, due, is_news};

/// So many controllers are remembered as told that demands of their pods are not looked at; then all are forgotten.
const TOLD_DEMANDS_MAX: usize = 4096;

/// What announcing takes besides the book.
pub(crate) struct Announcer {
    pub(crate) pods: Cache<PodView>,
    pub(crate) pod_groups: Cache<PodGroupView>,
    /// For the pods of each `schedulerName` that are ours to place; Events come from the scheduler of that name.
    pub(crate) recorders: BTreeMap<String, Recorder>,
    /// For what no such pod tells the name of.
    pub(crate) recorder: Recorder,
    pub(crate) answers: Answers,
    /// The least time between two refusals of one unit that differ only in numbers.
    pub(crate) pause: Duration,
    /// Whether pods are placed without regard to what no plugin looks at; otherwise they are refused.
    pub(crate) ignores_terms: bool,
}

impl Announcer {
    /// Looks at every unit of this turn. Groups for whose condition there is no room stay for the next.
    pub(crate) fn units(&self, book: &mut Book, writes: &mut Writes, now: Timestamp) {
        while writes.has_room_for_first_condition()
            && let Some(key) = book.newly_scheduled.pop_first()
        {
            if !book.standing(&key).writing {
                self.group(&Unit::Group(key.clone()), &key, book, writes, now);
            }
        }
        while let Some(unit) = book.unsaid.pop_first() {
            match &unit {
                Unit::Pod(key) => self.pod_unit(&unit, key, book, now),
                // When the write in flight ends, the group is looked at again.
                Unit::Group(key) if book.standing(key).writing => {}
                // Units are in order and groups are their last kind: only groups are left.
                Unit::Group(_) if !writes.has_room_for_group_condition(now) => {
                    book.unsaid.insert(unit);
                    return;
                }
                Unit::Group(key) => self.group(&unit, key, book, writes, now),
            }
        }
    }

    fn pod_unit(&self, unit: &Unit, key: &ObjectKey, book: &mut Book, now: Timestamp) {
        let (Some(words), Some(pod)) = (self.refusal(unit), self.pods.get(key)) else { return };
        if self.is_due(unit, &words, book, now) {
            if is_news(&words, book.said(unit)) {
                self.failed(self.recorder_of(&pod), &ObjectRef::of(&*pod), &words.pod_message);
            }
            book.unsaid_pods.insert(key.clone());
            book.say(unit.clone(), words, now);
        }
    }

    fn group(&self, unit: &Unit, key: &ObjectKey, book: &mut Book, writes: &mut Writes, now: Timestamp) {
        let view = self.pod_groups.get(key);
        let refused = self.refusal(unit).and_then(|words| self.still_refused(unit, key, words, book));
        let why = refused.as_ref().map(|words| words.message.clone());
        let to_say = refused.filter(|words| self.is_due(unit, words, book, now));
        if let Some(view) = &view {
            let mut wanted = Vec::new();
            let standing = book.standing(key);
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
            wanted.extend(self.degraded(view, key, why.as_deref(), book, now));
            if !wanted.is_empty() {
                book.standing(key).writing = true;
                let body = conditions::patch(&view.metadata, &view.status.conditions, &wanted, now);
                writes.write_group_condition(key.clone(), body);
            }
        }
        let Some(words) = to_say else { return };
        if is_news(&words, book.said(unit)) {
            self.refused_group(key, view.as_deref(), &words, book);
        }
        book.say(unit.clone(), words, now);
    }

    /// Tells of a group that is refused for another reason than before: in Events, and on each of its pods.
    fn refused_group(&self, key: &ObjectKey, view: Option<&PodGroupView>, words: &Words, book: &mut Book) {
        let pods = self.waiting_pods(key);
        let recorder = self.recorder_of_group(&pods);
        match view {
            Some(view) => {
                self.failed(recorder, &ObjectRef::of(view), &words.message);
                // Whoever sent a Job looks there first.
                let job = view.metadata.controller().filter(|owner| owner.kind == "Job");
                if let Some(job) = job {
                    let message = format!("PodGroup {}: {}", key.name, words.message);
                    self.failed(recorder, &ObjectRef::to_owner(job, &key.namespace), &message);
                }
            }
            // Without a PodGroup the pods are the only place where anyone would look.
            None => pods.iter().for_each(|pod| self.failed(recorder, &ObjectRef::of(&**pod), &words.message)),
        }
        book.unsaid_pods.extend(pods.iter().map(|pod| pod.metadata.key()));
    }

    /// What is to be said now about whether the group still has its `minCount`, and why the rest of it is refused.
    fn degraded(
        &self,
        view: &PodGroupView,
        key: &ObjectKey,
        refused: Option<&str>,
        book: &mut Book,
        now: Timestamp,
    ) -> Option<Condition> {
        let standing = book.standing(key);
        standing.short_since = standing.is_short().then(|| standing.short_since.unwrap_or(now));
        let min_count = standing.quorum().filter(|_| standing.scheduled)?;
        let (held, said) = (&view.status.conditions, standing.degraded.as_ref());
        let wanted = degraded::condition(standing.counts, min_count, held, said, refused)?;
        let noticed = standing.noticed.filter(|(counts, _)| *counts == standing.counts);
        let (_, counts_since) = *standing.noticed.insert(noticed.unwrap_or((standing.counts, now)));
        let since = degraded::Since { short: standing.short_since.unwrap_or(now), counts: counts_since };
        match degraded::due(&wanted, held, said, since, now, self.pause) {
            Due::Never => None,
            Due::At(at) => {
                book.remind(at, Topic::Unit(Unit::Group(key.clone())));
                None
            }
            Due::Now => {
                let is_news = said.is_none_or(|said| said.condition.status != wanted.status);
                standing.degraded = Some(degraded::Said { condition: wanted.clone(), at: now });
                if is_news && wanted.status == "True" {
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
    pub(crate) fn newcomers(&self, book: &mut Book) {
        for key in std::mem::take(&mut book.newcomers) {
            let Some(pod) = self.pods.get(&key) else { continue };
            let Unit::Group(group) = book.unit_of(&pod) else { continue };
            let Some(view) = self.pod_groups.get(&group) else { continue };
            let (own, groups) = (pod.spec.priority.unwrap_or(0), view.spec.priority.unwrap_or(0));
            if own != groups && book.told_priority.insert(group) {
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
    pub(crate) fn bad_expected_count(&self, group: &PodGroupView) {
        if let Some(Err(text)) = group.expected_count() {
            let message = format!("annotation {}: {text:?} is not a whole number", PodGroupView::EXPECTED_COUNT);
            self.recorder.event(&ObjectRef::of(group), EventKind::Warning, "BadAnnotation", "Scheduling", &message);
        }
    }

    /// Tells of pods that demand something of their place which no plugin looks at yet: once for all pods of a controller.
    pub(crate) fn demands(&self, book: &mut Book) {
        for key in std::mem::take(&mut book.demanding).into_iter().filter(|_| self.ignores_terms) {
            let Some(pod) = self.pods.get(&key).filter(|pod| self.is_ours(pod)) else { continue };
            let owner = pod.metadata.controller().map_or(&pod.metadata.uid, |owner| &owner.uid).clone();
            if book.told_demands.len() == TOLD_DEMANDS_MAX {
                book.told_demands.clear();
            }
            if !book.told_demands.insert(owner) {
                continue;
            }
            let group = match book.unit_of(&pod) {
                Unit::Group(group) => self.pod_groups.get(&group),
                Unit::Pod(_) => None,
            };
            let about = group.map_or_else(|| ObjectRef::of(&*pod), |group| ObjectRef::of(&*group));
            let fields = pod.spec.unread().join(", ");
            let message = format!("pods are placed without regard to {fields}, which this scheduler does not know yet");
            tracing::warn!("pod {key}: {message}");
            self.recorder_of(&pod).event(&about, EventKind::Warning, "ConstraintsIgnored", "Scheduling", &message);
        }
    }

    /// Tells of a gang that was left half bound and is to start as a whole.
    pub(crate) fn released(&self, group: &ObjectKey, message: &str) {
        if let Some(view) = self.pod_groups.get(group) {
            let recorder = self.recorder_of_group(&self.members(group));
            recorder.event(&ObjectRef::of(&*view), EventKind::Warning, "GangReleased", "Scheduling", message);
        }
    }

    /// Tells of a pod that has to leave a node which was given too many.
    pub(crate) fn makes_way(&self, pod: &ObjectKey, message: &str) {
        if let Some(pod) = self.pods.get(pod) {
            let about = ObjectRef::of(&*pod);
            self.recorder_of(&pod).event(&about, EventKind::Warning, "OvercommitReleased", "Scheduling", message);
        }
    }

    /// Writes pod conditions while there is room.
    pub(crate) fn pods(&self, book: &mut Book, writes: &mut Writes, now: Timestamp) {
        while writes.has_room_for_pod_condition(now)
            && let Some(key) = book.unsaid_pods.pop_first()
        {
            let Some(pod) = self.pods.get(&key).filter(|pod| waits(pod) && !writes.is_binding(&key)) else { continue };
            if !self.is_ours(&pod) {
                continue;
            }
            let wanted = match (book.said_about(&pod), book.bind_error(&key)) {
                (Some(said), _) => match wanted_of_refused(&pod, &said.words, book.shows_refusals(&pod)) {
                    Some(wanted) => wanted,
                    None => continue,
                },
                (None, Some(error)) => conditions::fails(POD_SCHEDULED, SCHEDULER_ERROR, error),
                (None, None) => continue,
            };
            if !conditions::says(&pod.status.conditions, &wanted) {
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
    pub(crate) fn bind_ended(&self, placement: &Placement, error: Option<&kube::Error>, book: &mut Book) {
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
                self.failed(recorder, &about, &message);
                let unit = held.map(|held| book.unit_of(&held));
                book.bind_failed(pod.clone(), unit, message);
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

    fn failed(&self, recorder: &Recorder, about: &ObjectRef, message: &str) {
        recorder.event(about, EventKind::Warning, "FailedScheduling", "Scheduling", message);
    }

    /// Why the unit is refused. One for which ways out are just being looked for is not spoken of yet: they come next,
    /// and then all is said at once.
    fn refusal(&self, unit: &Unit) -> Option<Words> {
        let refusal = self.answers.get(unit).filter(|refusal| refusal.advised != Advised::Coming)?;
        Some(Words::of(&refusal))
    }

    /// Takes the refusal of a group back when none of its pods waits any more and either some are there (others bound
    /// them) or nothing at all is left of it.
    fn still_refused(&self, unit: &Unit, key: &ObjectKey, words: Words, book: &mut Book) -> Option<Words> {
        let members = self.members(key);
        let over = members.iter().all(|pod| !waits(pod)) && (!members.is_empty() || self.pod_groups.get(key).is_none());
        if over {
            self.answers.withdraw(unit);
            book.forget(unit);
        }
        (!over).then_some(words)
    }

    /// Whether `words` are to be said now; if later, the book is reminded.
    fn is_due(&self, unit: &Unit, words: &Words, book: &mut Book, now: Timestamp) -> bool {
        match due(words, book.said(unit), now, self.pause) {
            Due::Now => true,
            Due::Never => false,
            Due::At(at) => {
                book.remind(at, Topic::Unit(unit.clone()));
                false
            }
        }
    }

    /// The pods that name the group.
    pub(crate) fn members(&self, group: &ObjectKey) -> Vec<Arc<PodView>> {
        self.pods.by_index(&PodView::BY_GROUP, &group.to_string())
    }

    fn waiting_pods(&self, group: &ObjectKey) -> Vec<Arc<PodView>> {
        self.members(group).into_iter().filter(|pod| waits(pod)).collect()
    }
}

/// The condition of a pod that is refused, alone or with its group; `None` if it is to have none. `group_tells`: the group
/// has a condition that says more.
fn wanted_of_refused(pod: &PodView, words: &Words, group_tells: bool) -> Option<Condition> {
    let is_unschedulable = |one: &Condition| one.kind == POD_SCHEDULED && one.reason == UNSCHEDULABLE;
    let reason = match words.is_about_missing_parts() {
        false => UNSCHEDULABLE,
        true if pod.status.conditions.iter().any(is_unschedulable) => POD_GROUP_NOT_READY,
        true => return None,
    };
    let more = if group_tells && words.is_told_by_group { "; see its conditions" } else { "" };
    Some(conditions::fails(POD_SCHEDULED, reason, &format!("{}{more}", words.pod_message)))
}

/// Whether the pod still wants a node.
fn waits(pod: &PodView) -> bool {
    pod.node_name().is_none() && !pod.is_finished() && !pod.metadata.is_deleting()
}
