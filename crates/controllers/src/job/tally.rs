//! What the pods of a Job add up to.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::views::{JobView, PodPhase, PodView};

use super::indexes::Indexes;
use super::shape::{Mode, Shape, is_active, is_held, is_ready, is_terminating};

/// A Job's pods, sorted by what they mean for its counts.
///
/// The sums take in three places where an end can be at the moment: in the counts, in the list of uncounted uids, and
/// in a pod nobody has recorded yet. They are the same wherever a crash left each of them.
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
}

impl Tally {
    /// Adds up `pods`, which are all pods the Job controls.
    pub fn of(job: &JobView, shape: &Shape, pods: &[Arc<PodView>]) -> Tally {
        let recorded = recorded_uids(job);
        let unrecorded =
            |pod: &&Arc<PodView>| is_held(pod) && !recorded.contains(pod.metadata.uid.as_str()) && shape.counts(pod);
        let (mut new_succeeded, mut new_failed) = (0, 0);
        let mut completed = recorded_indexes(job, shape);
        for pod in pods.iter().filter(unrecorded) {
            if pod.status.phase == PodPhase::Succeeded {
                new_succeeded += 1;
                shape.index_of(pod).into_iter().for_each(|index| completed.insert(index));
            } else if shape.has_failed(pod) {
                new_failed += 1;
            }
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
                Mode::NonIndexed => job.status.succeeded + uncounted_succeeded + new_succeeded,
                Mode::Indexed { .. } => completed.len(),
            },
            failed: job.status.failed + uncounted_failed + new_failed,
            completed,
        }
    }
}

/// Uids that the Job's status names as ended and not yet counted.
pub fn recorded_uids(job: &JobView) -> BTreeSet<&str> {
    let uncounted = job.status.uncounted_terminated_pods.iter();
    uncounted.flat_map(|uids| uids.succeeded.iter().chain(&uids.failed)).map(String::as_str).collect()
}

/// Indexes that the Job's status names as succeeded; none unless the Job is Indexed.
pub fn recorded_indexes(job: &JobView, shape: &Shape) -> Indexes {
    match shape.mode {
        Mode::NonIndexed => Indexes::default(),
        Mode::Indexed { completions } => Indexes::parse(&job.status.completed_indexes, completions),
    }
}
