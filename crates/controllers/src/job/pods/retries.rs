//! Indexes that failed and are tried again, each with a limit and a wait of its own (KEP-3850).
//!
//! How often an index failed is kept on its pods: each pod bears the count of the failures before it. So the last failed
//! pod of an index is held until its replacement is there to carry the count on; a restart finds everything again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::PodView;
use runtime::Backoff;

use crate::job::job_params::{FAILURES_KEY, IGNORED_FAILURES_KEY, JobParams, has_tracking_finalizer};
use crate::job::policy::pod_outcome::{PodOutcome, annotation_count, failed_before_deletion, finished_at};
use crate::job::status::tally::Tally;

/// How often an index has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexFailures {
    /// Failures that count toward the limit of the index.
    pub counted: i32,
    /// Failures that a rule ignores.
    pub ignored: i32,
}

/// What the next pod of an index has to know of the last one.
#[derive(Debug)]
struct IndexRetry {
    /// The pod that is to be replaced.
    uid: String,
    failures: IndexFailures,
    wait: Duration,
}

/// The indexes that wait for a replacement; empty unless the Job limits the failures of each index.
#[derive(Debug, Default)]
pub struct IndexRetries(BTreeMap<i32, IndexRetry>);

impl IndexRetries {
    /// Looks at the last failed pod of every index that is neither done, given up nor running.
    pub fn of(
        params: &JobParams<'_>,
        tally: &Tally,
        pods: &[Arc<PodView>],
        backoff: Backoff,
        now: Timestamp,
    ) -> IndexRetries {
        if params.per_index_limits.is_none() {
            return IndexRetries::default();
        }
        let mut last: BTreeMap<i32, (&Arc<PodView>, PodOutcome)> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| has_tracking_finalizer(pod)) {
            let (Some(index), Some(end)) = (params.index_of(pod), params.pod_outcome(pod)) else { continue };
            if end == PodOutcome::Succeeded || tally.is_index_finished(index) {
                continue;
            }
            let held = last.entry(index).or_insert((pod, end));
            if attempt_order(held.0) < attempt_order(pod) {
                *held = (pod, end);
            }
        }
        for running in tally.active.iter().filter_map(|pod| params.index_of(pod)) {
            last.remove(&running);
        }
        let retry = |(index, (pod, end)): (i32, (&Arc<PodView>, PodOutcome))| {
            (index, IndexRetry::after(pod, end, backoff, now))
        };
        IndexRetries(last.into_iter().map(retry).collect())
    }

    /// Whether this pod is still needed, because its replacement is not there yet.
    pub fn needs_pod(&self, params: &JobParams<'_>, pod: &PodView) -> bool {
        let retry = params.index_of(pod).and_then(|index| self.0.get(&index));
        retry.is_some_and(|retry| retry.uid == pod.metadata.uid)
    }

    /// How often the index has failed, and how long its next pod still has to wait.
    pub fn next_attempt(&self, index: i32) -> (IndexFailures, Duration) {
        self.0.get(&index).map_or_else(Default::default, |retry| (retry.failures, retry.wait))
    }
}

impl IndexRetry {
    fn after(pod: &PodView, end: PodOutcome, backoff: Backoff, now: Timestamp) -> IndexRetry {
        let before = IndexFailures {
            counted: annotation_count(pod, FAILURES_KEY),
            ignored: annotation_count(pod, IGNORED_FAILURES_KEY),
        };
        let tries = IndexFailures {
            counted: before.counted.saturating_add(i32::from(end.counts_as_failure())),
            ignored: before.ignored.saturating_add(i32::from(end == PodOutcome::Ignored)),
        };
        let failures = u32::try_from(tries.counted.saturating_add(tries.ignored)).unwrap_or(0);
        // As for the Job as a whole: a pod that others ended says nothing about the next one.
        let waits = end != PodOutcome::Disrupted && failed_before_deletion(pod);
        let passed = Duration::try_from(now.duration_since(finished_at(pod))).unwrap_or(Duration::ZERO);
        let wait = if waits { backoff.delay(failures).saturating_sub(passed) } else { Duration::ZERO };
        IndexRetry { uid: pod.metadata.uid.clone(), failures: tries, wait }
    }
}

/// The more failures before it, the later the pod was made; the name last, so that the order is total.
fn attempt_order(pod: &PodView) -> impl Ord + use<> {
    let before = annotation_count(pod, FAILURES_KEY).saturating_add(annotation_count(pod, IGNORED_FAILURES_KEY));
    (before, finished_at(pod), pod.metadata.name.clone())
}
