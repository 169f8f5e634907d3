//! Status of each unit: how many pods of a group are bound, what was last published, and what is to be published.

use std::collections::{BTreeMap, BTreeSet};

use api::Timestamp;
use api::views::{Condition, ObjectKey, PodGroupView, PodView, quorum};
use runtime::CacheChange;
use scheduler_core::{NewRun, Unit};

use crate::announce::conditions::{DEGRADED, INITIALLY_SCHEDULED};
use crate::announce::degraded::{self, MemberCounts, MemberState};
use crate::announce::publish::{PublishedRefusal, RefusalMessage};
use crate::announce::publish_queue::{DirtyUnits, PublishQueue};

/// Updated from changes. All of it can be rebuilt from the caches after a restart.
#[derive(Debug)]
pub(crate) struct StatusTracker {
    /// Whether pods are placed with their groups.
    by_groups: bool,
    groups: BTreeMap<ObjectKey, GroupStatus>,
    /// What was last published about refused units.
    published: BTreeMap<Unit, PublishedRefusal>,
    /// Units to publish in this turn.
    pub(crate) dirty: DirtyUnits,
    /// Gangs that have the pods they need and whose PodGroup does not have the condition yet. They come before all others,
    /// also while many binds are in flight: a scheduler that takes over knows only from the condition that a gang was
    /// complete.
    pub(crate) newly_scheduled: PublishQueue<ObjectKey>,
    /// Pods whose condition may have to be written.
    pub(crate) dirty_pods: PublishQueue<ObjectKey>,
    /// Pods whose last bind failed, and the server's message.
    bind_errors: BTreeMap<ObjectKey, String>,
    /// Members that were created since the last turn.
    pub(crate) new_members: BTreeSet<ObjectKey>,
    /// Pods that were created since the last turn and have unsupported terms.
    pub(crate) pods_with_unsupported_terms: BTreeSet<ObjectKey>,
    /// Whose pods were warned of: uids of controllers, or of pods without one.
    pub(crate) warned_terms: BTreeSet<String>,
    /// Groups with a warning that a pod has another priority.
    pub(crate) warned_priority: BTreeSet<ObjectKey>,
    /// Subjects to check again, by time.
    reminders: BTreeSet<(Timestamp, ReminderSubject)>,
}

/// Status of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupStatus {
    /// Pods of the group with a node, including finished ones.
    pub(crate) bound: usize,
    /// Whether the PodGroup has the condition that it was initially scheduled, or a write of it is in flight.
    pub(crate) scheduled: bool,
    /// Whether a write of its condition is in flight.
    pub(crate) write_in_flight: bool,
    /// The server's message for the last failed bind of a member, until the group is scheduled.
    pub(crate) bind_error: Option<String>,
    /// Its pods by state. Those that succeeded in earlier runs are not counted.
    pub(crate) counts: MemberCounts,
    /// The uids of existing pods that succeeded in earlier runs, as reported by the core.
    past_uids: BTreeSet<String>,
    /// Whether the present run waits for no more pods than exist.
    is_continued: bool,
    /// The last published `Degraded` condition.
    pub(crate) degraded: Option<degraded::PublishedCondition>,
    /// Since when the gang has fewer pods than it needs.
    pub(crate) below_min_count_since: Option<Timestamp>,
    /// The last observed counts, and since when they are unchanged.
    pub(crate) observed_counts: Option<(MemberCounts, Timestamp)>,
    /// `None`: a Basic group.
    min_count: Option<usize>,
    /// How many pods it can have at once from now on, if known.
    expected_count: Option<usize>,
    /// Whether the cached PodGroup has the condition that it was initially scheduled.
    observed_scheduled: bool,
    /// Whether the PodGroup exists.
    exists: bool,
}

impl GroupStatus {
    /// Whether the group is a gang that had its `minCount` and now has fewer pods.
    pub(crate) fn is_below_min_count(&self) -> bool {
        self.scheduled && self.quorum().is_some_and(|quorum| self.counts.are_below(quorum))
    }

    /// How many members a gang needs, including those that succeeded.
    pub(crate) fn quorum(&self) -> Option<usize> {
        let MemberCounts { waiting, bound, succeeded } = self.counts;
        let quorum = quorum(self.min_count?, self.expected_count, succeeded);
        Some(if self.is_continued { quorum.min(waiting + bound + succeeded).max(1) } else { quorum })
    }

    /// Whether this is a gang with the pods it needs whose PodGroup does not have the condition. For a Basic group the time
    /// of the condition does not matter: its pods are never released.
    fn is_newly_scheduled(&self) -> bool {
        self.exists && !self.scheduled && self.quorum().is_some_and(|quorum| self.bound >= quorum)
    }

    /// Whether a change of its counts may change the `Degraded` condition.
    fn affects_degraded(&self) -> bool {
        self.is_below_min_count()
            || self.below_min_count_since.is_some()
            || self.degraded.as_ref().is_some_and(|published| published.condition.status == "True")
    }
}

/// The subject of a reminder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReminderSubject {
    /// A unit's condition and Events.
    Unit(Unit),
    /// A pod's condition.
    Pod(ObjectKey),
}

impl StatusTracker {
    /// An empty tracker. Without `by_groups` each pod is its own unit.
    pub(crate) fn new(by_groups: bool) -> StatusTracker {
        StatusTracker {
            by_groups,
            groups: BTreeMap::new(),
            published: BTreeMap::new(),
            dirty: DirtyUnits::default(),
            newly_scheduled: PublishQueue::default(),
            dirty_pods: PublishQueue::default(),
            bind_errors: BTreeMap::new(),
            new_members: BTreeSet::new(),
            pods_with_unsupported_terms: BTreeSet::new(),
            warned_terms: BTreeSet::new(),
            warned_priority: BTreeSet::new(),
            reminders: BTreeSet::new(),
        }
    }

    /// The unit `pod` is placed with.
    pub(crate) fn unit_of(&self, pod: &PodView) -> Unit {
        match self.group_of(pod) {
            Some(group) => Unit::Group(group),
            None => Unit::Pod(pod.metadata.key()),
        }
    }

    fn group_of(&self, pod: &PodView) -> Option<ObjectKey> {
        let group = pod.group_name().filter(|_| self.by_groups)?;
        Some(ObjectKey::new(pod.metadata.namespace.clone(), group))
    }

    /// Records a change of a pod. True if the pod no longer waits for a node (bound or gone).
    pub(crate) fn note_pod(&mut self, change: &CacheChange<PodView>) -> bool {
        let was_bound = change.old.as_ref().is_some_and(|pod| pod.node_name().is_some());
        let is_bound = change.new.as_ref().is_some_and(|pod| pod.node_name().is_some());
        let pod = change.latest();
        let states = [change.old.as_deref().map(MemberState::of), change.new.as_deref().map(MemberState::of)];
        if (was_bound != is_bound || states[0] != states[1])
            && let Some(group) = self.group_of(pod)
        {
            let status = self.groups.entry(group.clone()).or_default();
            status.bound += usize::from(is_bound);
            status.bound -= usize::from(was_bound);
            let is_past = status.past_uids.contains(&pod.metadata.uid);
            let counts = |state: &MemberState| *state != MemberState::Succeeded || !is_past;
            states[0].into_iter().filter(counts).for_each(|state| status.counts.count(state, false));
            states[1].into_iter().filter(counts).for_each(|state| status.counts.count(state, true));
            if change.new.is_none() {
                status.past_uids.remove(&pod.metadata.uid);
            }
            if (is_bound && !status.scheduled) || status.affects_degraded() {
                self.mark_group_dirty(group.clone());
            }
            if states[0].is_none() {
                self.new_members.insert(pod.metadata.key());
            }
            self.drop_if_empty(&group);
        }
        let waits = change.new.is_some() && !is_bound;
        if waits && change.old.is_none() && !pod.spec.unsupported_fields().is_empty() {
            self.pods_with_unsupported_terms.insert(pod.metadata.key());
        }
        if !waits && !self.bind_errors.is_empty() {
            self.bind_errors.remove(&pod.metadata.key());
        }
        if !self.published.is_empty() {
            self.note_refused(pod, waits);
        }
        !waits
    }

    /// A group starts a new run, as the core found. The core has observed exactly the changes that are recorded here.
    pub(crate) fn begin_run(&mut self, run: NewRun) {
        let NewRun { group, past_uids, is_continued } = run;
        let status = self.group_status(&group);
        for uid in past_uids {
            if status.past_uids.insert(uid) {
                status.counts.count(MemberState::Succeeded, false);
            }
        }
        status.is_continued = is_continued;
        self.mark_group_dirty(group);
    }

    /// A pod of a refused unit was created, changed or deleted.
    fn note_refused(&mut self, pod: &PodView, waits: bool) {
        let unit = self.unit_of(pod);
        if !self.published.contains_key(&unit) {
            return;
        }
        if waits {
            self.dirty_pods.insert(pod.metadata.key());
        } else {
            // It may have been the last pending one.
            self.dirty.insert(unit);
        }
    }

    /// Records a change of a PodGroup.
    pub(crate) fn note_group(&mut self, change: &CacheChange<PodGroupView>) {
        let key = change.latest().metadata.key();
        let status = self.groups.entry(key.clone()).or_default();
        match &change.new {
            Some(group) => {
                status.exists = true;
                status.min_count = group.min_count().map(|count| usize::try_from(count).unwrap_or(0).max(1));
                status.expected_count = group.expected_count().and_then(Result::ok);
                status.observed_scheduled = Condition::is_true(&group.status.conditions, INITIALLY_SCHEDULED);
                status.scheduled |= status.observed_scheduled;
                let is_degraded = Condition::is_true(&group.status.conditions, DEGRADED);
                if !status.scheduled || status.affects_degraded() || is_degraded {
                    self.mark_group_dirty(key);
                }
            }
            None => {
                let (bound, counts, write_in_flight) = (status.bound, status.counts, status.write_in_flight);
                let (past_uids, is_continued) = (std::mem::take(&mut status.past_uids), status.is_continued);
                *status =
                    GroupStatus { bound, counts, write_in_flight, past_uids, is_continued, ..GroupStatus::default() };
                self.warned_priority.remove(&key);
                self.forget(&Unit::Group(key.clone()));
                self.drop_if_empty(&key);
            }
        }
    }

    /// The group is published in this turn.
    fn mark_group_dirty(&mut self, key: ObjectKey) {
        if self.groups.get(&key).is_some_and(GroupStatus::is_newly_scheduled) {
            self.newly_scheduled.insert(key);
        } else {
            self.dirty.insert(Unit::Group(key));
        }
    }

    fn drop_if_empty(&mut self, key: &ObjectKey) {
        let is_empty = |status: &GroupStatus| {
            let has_pods = status.bound > 0 || status.counts != MemberCounts::default() || !status.past_uids.is_empty();
            !has_pods && !status.exists && !status.write_in_flight
        };
        if self.groups.get(key).is_some_and(is_empty) {
            self.groups.remove(key);
        }
    }

    /// The status of the group at `key`.
    pub(crate) fn group_status(&mut self, key: &ObjectKey) -> &mut GroupStatus {
        self.groups.entry(key.clone()).or_default()
    }

    /// A write of the conditions of the group at `key` ended. `retry_at`: it failed and is retried then.
    pub(crate) fn group_condition_written(&mut self, key: ObjectKey, retry_at: Option<Timestamp>) {
        let status = self.group_status(&key);
        status.write_in_flight = false;
        let unit = Unit::Group(key.clone());
        match retry_at {
            Some(at) => {
                status.scheduled = status.observed_scheduled;
                status.degraded = None;
                // The message is published again as soon as possible. Its cause stays, so it makes no second Event.
                if let Some(published) = self.published.get_mut(&unit) {
                    published.message.message.clear();
                    published.at = Timestamp::UNIX_EPOCH;
                }
                self.reminders.insert((at, ReminderSubject::Unit(unit)));
            }
            // Something may have changed while the write was in flight.
            None => self.mark_group_dirty(key.clone()),
        }
        self.drop_if_empty(&key);
    }

    /// A bind of `pod`, which is placed with `unit`, failed.
    pub(crate) fn bind_failed(&mut self, pod: ObjectKey, unit: Option<Unit>, message: String) {
        if let Some(Unit::Group(group)) = unit {
            let status = self.group_status(&group);
            status.bind_error = (!status.scheduled).then(|| format!("pod {}: {message}", pod.name));
            self.dirty.insert(Unit::Group(group));
        }
        self.dirty_pods.insert(pod.clone());
        self.bind_errors.insert(pod, message);
    }

    /// The server's message for the last bind of `pod`, if it failed.
    pub(crate) fn bind_error(&self, pod: &ObjectKey) -> Option<&str> {
        self.bind_errors.get(pod).map(String::as_str)
    }

    /// What was last published about `unit`.
    pub(crate) fn published(&self, unit: &Unit) -> Option<&PublishedRefusal> {
        self.published.get(unit)
    }

    /// What was last published about `pod`: alone, or else with its group.
    pub(crate) fn published_for(&self, pod: &PodView) -> Option<&PublishedRefusal> {
        self.published(&Unit::Pod(pod.metadata.key())).or_else(|| self.published(&self.unit_of(pod)))
    }

    /// Whether the group of `pod` has a condition with its refusal: a group that was never scheduled, or a gang, which is
    /// `Degraded` then.
    pub(crate) fn shows_refusals(&self, pod: &PodView) -> bool {
        let status = self.group_of(pod).and_then(|group| self.groups.get(&group));
        status.is_some_and(|status| !status.scheduled || status.min_count.is_some())
    }

    /// Records that `message` is published about `unit`.
    pub(crate) fn publish(&mut self, unit: Unit, message: RefusalMessage, at: Timestamp) {
        self.published.insert(unit, PublishedRefusal { message, at });
    }

    /// `unit` is no longer refused.
    pub(crate) fn forget(&mut self, unit: &Unit) {
        self.published.remove(unit);
    }

    /// Marks `subject` dirty at `at`.
    pub(crate) fn remind(&mut self, at: Timestamp, subject: ReminderSubject) {
        self.reminders.insert((at, subject));
    }

    /// When the next reminder is due.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.reminders.first().map(|(at, _)| *at)
    }

    /// Marks the subjects of due reminders dirty.
    pub(crate) fn process_due(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.reminders.first()
            && *at <= now
            && let Some((_, subject)) = self.reminders.pop_first()
        {
            match subject {
                ReminderSubject::Unit(Unit::Group(group)) => self.mark_group_dirty(group),
                ReminderSubject::Unit(unit) => self.dirty.insert(unit),
                ReminderSubject::Pod(pod) => self.dirty_pods.insert(pod),
            }
        }
    }
}
