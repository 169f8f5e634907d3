//! What the pods of a Job add up to.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::views::{JobView, PodView};

use super::ends::End;
use super::indexes::Indexes;
use super::shape::{Mode, Shape, is_active, is_held, is_ready, is_terminating};

/// A Job's pods, sorted by what they mean for its counts.
///
/// The sums take in three places where an end can be at the moment: in the counts, in the list of uncounted uids, and
/// in a pod nobody has recorded yet. They are the same wherever a crash left each of them. They saturate: whoever may
/// write a status can write any numbers into it.
#[derive(Debug)]
pub struct Tally {
    /// Neither ended nor being deleted.
    pub active: Vec<Arc<PodView>>,
    /// Being deleted, not ended.
    pub terminating: Vec<Arc<PodView>>,
    /// How many active pods are ready.
    pub ready: i32,
    /// Pods (or indexes) that succeeded, recorded or not.
    pub succeeded: i32,
    /// Pods that failed, recorded or not.
    pub failed: i32,
    /// Indexes that succeeded, recorded or not; empty unless the Job is Indexed.
    pub completed: Indexes,
    /// Indexes that are given up, recorded or not; empty unless each index has its limit.
    pub given_up: Indexes,
    /// Why a single pod makes the whole Job fail, if one does.
    pub fails_job: Option<String>,
}

impl Tally {
    /// Adds up `pods`, which are all pods the Job controls.
    pub fn of(job: &JobView, shape: &Shape<'_>, pods: &[Arc<PodView>]) -> Tally {
        let recorded = recorded_uids(job);
        let held = || pods.iter().filter(|pod| is_held(pod) && shape.counts(pod));
        let unrecorded = held().filter(|pod| !recorded.contains(pod.metadata.uid.as_str()));
        let mut indexes = RecordedIndexes::of(job, shape);
        let (mut new_succeeded, mut new_failed) = (0, 0);
        let ends: Vec<_> = unrecorded.filter_map(|pod| Some((pod, shape.end(pod)?))).collect();
        for (pod, end) in succeeded_first(&ends) {
            new_succeeded += i32::from(end == End::Succeeded);
            new_failed += i32::from(end.counts_as_failure());
            indexes.note(shape, pod, end);
        }
        let uncounted = job.status.uncounted_terminated_pods.as_ref();
        let uncounted_succeeded = uncounted.map_or(0, |uids| uids.succeeded.len() as i32);
        let uncounted_failed = uncounted.map_or(0, |uids| uids.failed.len() as i32);
        let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        Tally {
            ready: active.iter().filter(|pod| is_ready(pod)).count() as i32,
            active,
            terminating: pods.iter().filter(|pod| is_terminating(pod)).cloned().collect(),
            succeeded: match shape.mode {
                Mode::NonIndexed => sum([job.status.succeeded, uncounted_succeeded, new_succeeded]),
                Mode::Indexed { .. } => indexes.completed.len(),
            },
            failed: sum([job.status.failed, uncounted_failed, new_failed]),
            completed: indexes.completed,
            given_up: indexes.given_up,
            fails_job: held().find_map(|pod| shape.fails_job(pod)),
        }
    }

    /// Whether nothing more is to be done about an index.
    pub fn is_settled(&self, index: i32) -> bool {
        self.completed.contains(index) || self.given_up.contains(index)
    }
}

fn sum(counts: [i32; 3]) -> i32 {
    counts.into_iter().fold(0, i32::saturating_add)
}

/// Uids that the Job's status names as ended and not yet counted.
pub fn recorded_uids(job: &JobView) -> BTreeSet<&str> {
    let uncounted = job.status.uncounted_terminated_pods.iter();
    uncounted.flat_map(|uids| uids.succeeded.iter().chain(&uids.failed)).map(String::as_str).collect()
}

/// The same ends with the successes first: an index that has succeeded cannot fail any more.
pub fn succeeded_first<'a>(
    ends: &[(&'a Arc<PodView>, End)],
) -> impl Iterator<Item = (&'a Arc<PodView>, End)> + use<'a> {
    let (succeeded, others): (Vec<_>, Vec<_>) = ends.iter().partition(|(_, end)| *end == End::Succeeded);
    succeeded.into_iter().chain(others)
}

/// Indexes that the Job's status names; none unless the Job is Indexed. No index is in both sets.
#[derive(Debug)]
pub struct RecordedIndexes {
    /// Those that succeeded.
    pub completed: Indexes,
    /// Those that are given up.
    pub given_up: Indexes,
}

impl RecordedIndexes {
    /// Reads the status. Indexes that the Job no longer has are left out.
    pub fn of(job: &JobView, shape: &Shape<'_>) -> RecordedIndexes {
        let read = |text: &str| match shape.mode {
            Mode::NonIndexed => Indexes::default(),
            Mode::Indexed { completions } => Indexes::parse(text, completions),
        };
        let given_up = job.status.failed_indexes.as_deref().filter(|_| shape.per_index.is_some());
        RecordedIndexes { completed: read(&job.status.completed_indexes), given_up: read(given_up.unwrap_or_default()) }
    }

    /// Takes an end in. What was said first about an index stands.
    pub fn note(&mut self, shape: &Shape<'_>, pod: &PodView, end: End) {
        let Some(index) = shape.index_of(pod).filter(|index| !self.contain(*index)) else { return };
        match end {
            End::Succeeded => self.completed.insert(index),
            End::FailedForGood => self.given_up.insert(index),
            End::Failed | End::Ignored | End::Disrupted | End::Stopped => {}
        }
    }

    /// Whether the index is in either set.
    pub fn contain(&self, index: i32) -> bool {
        self.completed.contains(index) || self.given_up.contains(index)
    }
}
