//! The sums over the pods of a Job.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::views::{JobView, PodView};

use super::indexes::Indexes;
use crate::job::job_params::{CompletionMode, JobParams, has_tracking_finalizer, is_active, is_ready, is_terminating};
use crate::job::policy::pod_outcome::PodOutcome;

/// A Job's pods by state, and their sums.
///
/// An end is in one of three places: in the counts, in the list of uncounted uids, or in a pod that is not recorded
/// yet. The sums are the same wherever a crash left it. They saturate: a client that can write a status can write any
/// numbers.
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
    pub completed_indexes: Indexes,
    /// Indexes that failed, recorded or not; empty unless the Job has limits per index.
    pub failed_indexes: Indexes,
    /// Why a single pod fails the whole Job, if one does.
    pub job_failure: Option<String>,
}

impl Tally {
    /// Adds up `pods`, which are all pods the Job controls.
    pub fn of(job: &JobView, params: &JobParams<'_>, pods: &[Arc<PodView>]) -> Tally {
        let recorded = recorded_uids(job);
        let tracked = || pods.iter().filter(|pod| has_tracking_finalizer(pod) && params.is_countable(pod));
        let unrecorded = tracked().filter(|pod| !recorded.contains(pod.metadata.uid.as_str()));
        let mut indexes = RecordedIndexes::of(job, params);
        let (mut new_succeeded, mut new_failed) = (0, 0);
        let ends: Vec<_> = unrecorded.filter_map(|pod| Some((pod, params.pod_outcome(pod)?))).collect();
        for (pod, end) in succeeded_first(&ends) {
            new_succeeded += i32::from(end == PodOutcome::Succeeded);
            new_failed += i32::from(end.counts_as_failure());
            indexes.record(params, pod, end);
        }
        let uncounted = job.status.uncounted_terminated_pods.as_ref();
        let uncounted_succeeded = uncounted.map_or(0, |uids| uids.succeeded.len() as i32);
        let uncounted_failed = uncounted.map_or(0, |uids| uids.failed.len() as i32);
        let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        Tally {
            ready: active.iter().filter(|pod| is_ready(pod)).count() as i32,
            active,
            terminating: pods.iter().filter(|pod| is_terminating(pod)).cloned().collect(),
            succeeded: match params.completion_mode {
                CompletionMode::NonIndexed => sum([job.status.succeeded, uncounted_succeeded, new_succeeded]),
                CompletionMode::Indexed { .. } => indexes.completed.len(),
            },
            failed: sum([job.status.failed, uncounted_failed, new_failed]),
            completed_indexes: indexes.completed,
            failed_indexes: indexes.failed,
            job_failure: tracked().find_map(|pod| params.job_failure(pod)),
        }
    }

    /// Whether an index has succeeded or failed.
    pub fn is_index_finished(&self, index: i32) -> bool {
        self.completed_indexes.contains(index) || self.failed_indexes.contains(index)
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
    ends: &[(&'a Arc<PodView>, PodOutcome)],
) -> impl Iterator<Item = (&'a Arc<PodView>, PodOutcome)> + use<'a> {
    let (succeeded, others): (Vec<_>, Vec<_>) = ends.iter().partition(|(_, end)| *end == PodOutcome::Succeeded);
    succeeded.into_iter().chain(others)
}

/// Indexes that the Job's status names; none unless the Job is Indexed. No index is in both sets.
#[derive(Debug)]
pub struct RecordedIndexes {
    /// Those that succeeded.
    pub completed: Indexes,
    /// Those that failed.
    pub failed: Indexes,
}

impl RecordedIndexes {
    /// Parses the status. Indexes that the Job no longer has are dropped.
    pub fn of(job: &JobView, params: &JobParams<'_>) -> RecordedIndexes {
        let parse = |text: &str| match params.completion_mode {
            CompletionMode::NonIndexed => Indexes::default(),
            CompletionMode::Indexed { completions } => Indexes::parse(text, completions),
        };
        let failed = job.status.failed_indexes.as_deref().filter(|_| params.per_index_limits.is_some());
        RecordedIndexes { completed: parse(&job.status.completed_indexes), failed: parse(failed.unwrap_or_default()) }
    }

    /// Records an end. The first record of an index is final.
    pub fn record(&mut self, params: &JobParams<'_>, pod: &PodView, end: PodOutcome) {
        let Some(index) = params.index_of(pod).filter(|index| !self.contain(*index)) else { return };
        match end {
            PodOutcome::Succeeded => self.completed.insert(index),
            PodOutcome::FailedIndex => self.failed.insert(index),
            PodOutcome::Failed | PodOutcome::Ignored | PodOutcome::Disrupted | PodOutcome::Stopped => {}
        }
    }

    /// Whether the index is in either set.
    pub fn contain(&self, index: i32) -> bool {
        self.completed.contains(index) || self.failed.contains(index)
    }
}
