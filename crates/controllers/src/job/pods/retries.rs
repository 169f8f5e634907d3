//! Indexes that failed and are retried, each with its own limit and back-off (KEP-3850).
//!
//! Each pod has an annotation with the number of earlier failures of its index. So the last failed pod of an index stays
//! until its replacement exists and has the count. All state is in the API.

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

/// What the next pod of an index takes over from the last one.
#[derive(Debug)]
struct IndexRetry {
    /// The pod to replace.
    uid: String,
    failures: IndexFailures,
    wait: Duration,
}

/// The indexes that wait for a replacement; empty unless the Job has limits per index.
#[derive(Debug, Default)]
pub struct IndexRetries(BTreeMap<i32, IndexRetry>);

impl IndexRetries {
    /// Uses the last failed pod of every index that is neither finished nor running.
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
            let latest = last.entry(index).or_insert((pod, end));
            if attempt_order(latest.0) < attempt_order(pod) {
                *latest = (pod, end);
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

    /// Whether this pod is still needed, because its replacement does not exist yet.
    pub fn needs_pod(&self, params: &JobParams<'_>, pod: &PodView) -> bool {
        let retry = params.index_of(pod).and_then(|index| self.0.get(&index));
        retry.is_some_and(|retry| retry.uid == pod.metadata.uid)
    }

    /// How often the index has failed, and the remaining back-off of its next pod.
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
        let failures = IndexFailures {
            counted: before.counted.saturating_add(i32::from(end.counts_as_failure())),
            ignored: before.ignored.saturating_add(i32::from(end == PodOutcome::Ignored)),
        };
        let attempts = u32::try_from(failures.counted.saturating_add(failures.ignored)).unwrap_or(0);
        // As for the Job as a whole, a disrupted or deleted pod causes no back-off.
        let waits = end != PodOutcome::Disrupted && failed_before_deletion(pod);
        let passed = Duration::try_from(now.duration_since(finished_at(pod))).unwrap_or(Duration::ZERO);
        let wait = if waits { backoff.delay(attempts).saturating_sub(passed) } else { Duration::ZERO };
        IndexRetry { uid: pod.metadata.uid.clone(), failures, wait }
    }
}

/// The more earlier failures, the later the pod was created; the name last, so that the order is total.
fn attempt_order(pod: &PodView) -> impl Ord + use<> {
    let before = annotation_count(pod, FAILURES_KEY).saturating_add(annotation_count(pod, IGNORED_FAILURES_KEY));
    (before, finished_at(pod), pod.metadata.name.clone())
}
