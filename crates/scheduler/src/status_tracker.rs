//! What the shell knows about each unit: how many of a group's pods are bound, what was last said, what is to be said.

use std::collections::{BTreeMap, BTreeSet};

use api::Timestamp;
use api::views::{Condition, ObjectKey, PodGroupView, PodView, quorum};
use runtime::CacheChange;
use scheduler_core::{NewRun, Unit};

use crate::conditions::{DEGRADED, INITIALLY_SCHEDULED};
use crate::degraded::{self, MemberCounts, MemberState};
use crate::publish::{PublishedRefusal, RefusalMessage};

/// Kept up to date from changes; everything in it can be rebuilt from the caches after a restart.
#[derive(Debug)]
pub(crate) struct StatusTracker {
    /// Whether pods are placed with their groups.
    by_groups: bool,
    groups: BTreeMap<ObjectKey, GroupStatus>,
    /// What was last said about units that are refused.
    published: BTreeMap<Unit, PublishedRefusal>,
    /// Units to look at in this turn.
    pub(crate) dirty: BTreeSet<Unit>,
    /// Gangs that have the pods they need and whose PodGroup does not say so. They come before all others, also while
    /// binds are many: a scheduler that takes over knows by the condition alone that a gang was whole.
    pub(crate) newly_scheduled: BTreeSet<ObjectKey>,
    /// Pods whose condition may have to be written, once there is room.
    pub(crate) dirty_pods: BTreeSet<ObjectKey>,
    /// Pods whose last bind was refused, and what the server said.
    bind_errors: BTreeMap<ObjectKey, String>,
    /// Members that came since the last turn.
    pub(crate) new_members: BTreeSet<ObjectKey>,
    /// Pods that came since the last turn and demand something that is not looked at.
    pub(crate) pods_with_unsupported_terms: BTreeSet<ObjectKey>,
    /// Of whose pods that was told, by the uid of their controller, or else their own.
    pub(crate) warned_terms: BTreeSet<String>,
    /// Groups of which it was told that a pod has another priority.
    pub(crate) warned_priority: BTreeSet<ObjectKey>,
    /// What to look at again, and when.
    reminders: BTreeSet<(Timestamp, ReminderSubject)>,
}

/// Where one group stands.
#[derive(Debug, Default)]
pub(crate) struct GroupStatus {
    /// Pods of the group that have a node, finished ones included.
    pub(crate) bound: usize,
    /// Whether the PodGroup says (or is being told) that it was initially scheduled.
    pub(crate) scheduled: bool,
    /// Whether a write of its condition is in flight.
    pub(crate) write_in_flight: bool,
    /// What the server said to the last bind of one of its pods that it refused, until it is scheduled.
    pub(crate) bind_error: Option<String>,
    /// How many of its pods stand where; those that succeeded in earlier runs are not counted.
    pub(crate) counts: MemberCounts,
    /// The uids of pods that succeeded in earlier runs and still exist, as the core says.
    past_uids: BTreeSet<String>,
    /// In the present run no more pods are waited for than exist.
    is_continued: bool,
    /// What was last said about whether they are enough.
    pub(crate) degraded: Option<degraded::PublishedCondition>,
    /// Since when they are too few.
    pub(crate) below_min_count_since: Option<Timestamp>,
    /// The counts that were last looked at, and since when they are so.
    pub(crate) observed_counts: Option<(MemberCounts, Timestamp)>,
    /// Of a gang.
    min_count: Option<usize>,
    /// How many pods it can have at once from now on, where that is known.
    expected_count: Option<usize>,
    /// Whether the PodGroup says that it was initially scheduled.
    observed_scheduled: bool,
    /// Whether the PodGroup exists.
    exists: bool,
}

impl GroupStatus {
    /// Whether the group is a gang that had its `minCount` and now has fewer pods.
    pub(crate) fn is_below_min_count(&self) -> bool {
        self.scheduled && self.quorum().is_some_and(|quorum| self.counts.are_below(quorum))
    }

    /// How many members a gang needs, those that succeeded included.
    pub(crate) fn quorum(&self) -> Option<usize> {
        let MemberCounts { waiting, bound, succeeded } = self.counts;
        let quorum = quorum(self.min_count?, self.expected_count, succeeded);
        Some(if self.is_continued { quorum.min(waiting + bound + succeeded).max(1) } else { quorum })
    }

    /// Whether this is a gang with the pods it needs whose PodGroup does not say so. Nothing depends on how soon a Basic
    /// group says it: its pods are never released.
    fn is_newly_scheduled(&self) -> bool {
        self.exists && !self.scheduled && self.quorum().is_some_and(|quorum| self.bound >= quorum)
    }

    /// Whether a change of its counts may be worth a word.
    fn affects_degraded(&self) -> bool {
        self.is_below_min_count()
            || self.below_min_count_since.is_some()
            || self.degraded.as_ref().is_some_and(|said| said.condition.status == "True")
    }
}

/// What an entry of the agenda is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReminderSubject {
    /// A unit's condition and events.
    Unit(Unit),
    /// One pod's condition.
    Pod(ObjectKey),
}

impl StatusTracker {
    /// Nothing is known yet. Where pods are not placed `by_groups`, each is a unit of its own.
    pub(crate) fn new(by_groups: bool) -> StatusTracker {
        StatusTracker {
            by_groups,
            groups: BTreeMap::new(),
            published: BTreeMap::new(),
            dirty: BTreeSet::new(),
            newly_scheduled: BTreeSet::new(),
            dirty_pods: BTreeSet::new(),
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

    /// Takes a change of a pod into account. True if the pod no longer waits for a node (bound or gone).
    pub(crate) fn note_pod(&mut self, change: &CacheChange<PodView>) -> bool {
        let was_bound = change.old.as_ref().is_some_and(|pod| pod.node_name().is_some());
        let is_bound = change.new.as_ref().is_some_and(|pod| pod.node_name().is_some());
        let pod = change.latest();
        let places = [change.old.as_deref().map(MemberState::of), change.new.as_deref().map(MemberState::of)];
        if (was_bound != is_bound || places[0] != places[1])
            && let Some(group) = self.group_of(pod)
        {
            let standing = self.groups.entry(group.clone()).or_default();
            standing.bound += usize::from(is_bound);
            standing.bound -= usize::from(was_bound);
            let is_past = standing.past_uids.contains(&pod.metadata.uid);
            let counted = |place: &MemberState| *place != MemberState::Succeeded || !is_past;
            places[0].into_iter().filter(counted).for_each(|place| standing.counts.count(place, false));
            places[1].into_iter().filter(counted).for_each(|place| standing.counts.count(place, true));
            if change.new.is_none() {
                standing.past_uids.remove(&pod.metadata.uid);
            }
            if (is_bound && !standing.scheduled) || standing.affects_degraded() {
                self.mark_group_dirty(group.clone());
            }
            if places[0].is_none() {
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

    /// The core has found that a group starts anew. It has seen all that was noted here, and nothing else.
    pub(crate) fn begin_run(&mut self, run: NewRun) {
        let NewRun { group, past_uids: past, is_continued } = run;
        let standing = self.group_status(&group);
        for uid in past {
            if standing.past_uids.insert(uid) {
                standing.counts.count(MemberState::Succeeded, false);
            }
        }
        standing.is_continued = is_continued;
        self.mark_group_dirty(group);
    }

    /// A pod of a refused unit came, went or changed.
    fn note_refused(&mut self, pod: &PodView, waits: bool) {
        let unit = self.unit_of(pod);
        if !self.published.contains_key(&unit) {
            return;
        }
        if waits {
            self.dirty_pods.insert(pod.metadata.key());
        } else {
            // It may have been the last one that waited.
            self.dirty.insert(unit);
        }
    }

    /// Takes a change of a PodGroup into account.
    pub(crate) fn note_group(&mut self, change: &CacheChange<PodGroupView>) {
        let key = change.latest().metadata.key();
        let standing = self.groups.entry(key.clone()).or_default();
        match &change.new {
            Some(group) => {
                standing.exists = true;
                standing.min_count = group.min_count().map(|count| usize::try_from(count).unwrap_or(0).max(1));
                standing.expected_count = group.expected_count().and_then(Result::ok);
                standing.observed_scheduled = Condition::is_true(&group.status.conditions, INITIALLY_SCHEDULED);
                standing.scheduled |= standing.observed_scheduled;
                let is_degraded = Condition::is_true(&group.status.conditions, DEGRADED);
                if !standing.scheduled || standing.affects_degraded() || is_degraded {
                    self.mark_group_dirty(key);
                }
            }
            None => {
                let (bound, counts, writing) = (standing.bound, standing.counts, standing.write_in_flight);
                let (past, is_continued) = (std::mem::take(&mut standing.past_uids), standing.is_continued);
                *standing = GroupStatus {
                    bound,
                    counts,
                    write_in_flight: writing,
                    past_uids: past,
                    is_continued,
                    ..GroupStatus::default()
                };
                self.warned_priority.remove(&key);
                self.forget(&Unit::Group(key.clone()));
                self.drop_if_empty(&key);
            }
        }
    }

    /// The group is looked at in this turn.
    fn mark_group_dirty(&mut self, key: ObjectKey) {
        if self.groups.get(&key).is_some_and(GroupStatus::is_newly_scheduled) {
            self.newly_scheduled.insert(key);
        } else {
            self.dirty.insert(Unit::Group(key));
        }
    }

    fn drop_if_empty(&mut self, key: &ObjectKey) {
        let is_empty = |standing: &GroupStatus| {
            let has_pods =
                standing.bound > 0 || standing.counts != MemberCounts::default() || !standing.past_uids.is_empty();
            !has_pods && !standing.exists && !standing.write_in_flight
        };
        if self.groups.get(key).is_some_and(is_empty) {
            self.groups.remove(key);
        }
    }

    /// Where the group at `key` stands.
    pub(crate) fn group_status(&mut self, key: &ObjectKey) -> &mut GroupStatus {
        self.groups.entry(key.clone()).or_default()
    }

    /// A write of the condition of the group at `key` ended; `retry_at` if it failed and is worth another.
    pub(crate) fn group_condition_written(&mut self, key: ObjectKey, retry_at: Option<Timestamp>) {
        let standing = self.group_status(&key);
        standing.write_in_flight = false;
        let unit = Unit::Group(key.clone());
        match retry_at {
            Some(at) => {
                standing.scheduled = standing.observed_scheduled;
                standing.degraded = None;
                // What was meant is said again as soon as it may be, and is no more news than it was.
                if let Some(said) = self.published.get_mut(&unit) {
                    said.words.message.clear();
                    said.at = Timestamp::UNIX_EPOCH;
                }
                self.reminders.insert((at, ReminderSubject::Unit(unit)));
            }
            // Something may have happened while the write was on its way.
            None => self.mark_group_dirty(key.clone()),
        }
        self.drop_if_empty(&key);
    }

    /// The server refused a bind of `pod`, which is placed with `unit`.
    pub(crate) fn bind_failed(&mut self, pod: ObjectKey, unit: Option<Unit>, message: String) {
        if let Some(Unit::Group(group)) = unit {
            let standing = self.group_status(&group);
            standing.bind_error = (!standing.scheduled).then(|| format!("pod {}: {message}", pod.name));
            self.dirty.insert(Unit::Group(group));
        }
        self.dirty_pods.insert(pod.clone());
        self.bind_errors.insert(pod, message);
    }

    /// What the server said to the last bind of `pod`, if it refused it.
    pub(crate) fn bind_error(&self, pod: &ObjectKey) -> Option<&str> {
        self.bind_errors.get(pod).map(String::as_str)
    }

    /// What was last said about `unit`.
    pub(crate) fn published(&self, unit: &Unit) -> Option<&PublishedRefusal> {
        self.published.get(unit)
    }

    /// What was last said about `pod`: alone, or else with its group.
    pub(crate) fn published_for(&self, pod: &PodView) -> Option<&PublishedRefusal> {
        self.published(&Unit::Pod(pod.metadata.key())).or_else(|| self.published(&self.unit_of(pod)))
    }

    /// Whether the group of `pod` has a condition for why it is refused: one that was never scheduled, or a gang, which is
    /// called degraded then.
    pub(crate) fn shows_refusals(&self, pod: &PodView) -> bool {
        let standing = self.group_of(pod).and_then(|group| self.groups.get(&group));
        standing.is_some_and(|standing| !standing.scheduled || standing.min_count.is_some())
    }

    /// Remembers that `words` are being said about `unit`.
    pub(crate) fn publish(&mut self, unit: Unit, words: RefusalMessage, at: Timestamp) {
        self.published.insert(unit, PublishedRefusal { words, at });
    }

    /// `unit` is no longer refused.
    pub(crate) fn forget(&mut self, unit: &Unit) {
        self.published.remove(unit);
    }

    /// Looks at `topic` again at `at`.
    pub(crate) fn remind(&mut self, at: Timestamp, topic: ReminderSubject) {
        self.reminders.insert((at, topic));
    }

    /// When the next entry of the agenda is due.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.reminders.first().map(|(at, _)| *at)
    }

    /// Moves what is due from the agenda to this turn's lists.
    pub(crate) fn process_due(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.reminders.first()
            && *at <= now
            && let Some((_, topic)) = self.reminders.pop_first()
        {
            match topic {
                ReminderSubject::Unit(Unit::Group(group)) => self.mark_group_dirty(group),
                ReminderSubject::Unit(unit) => drop(self.dirty.insert(unit)),
                ReminderSubject::Pod(pod) => drop(self.dirty_pods.insert(pod)),
            }
        }
    }
}
