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

use super::ends::{End, annotated, failed_by_itself, finished_at};
use super::shape::{FAILURES_KEY, IGNORED_FAILURES_KEY, Shape, is_held};
use super::tally::Tally;

/// How often an index has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// Failures that count toward the limit of the index.
    pub failed: i32,
    /// Failures that a rule ignores.
    pub ignored: i32,
}

/// What the next pod of an index has to know of the last one.
#[derive(Debug)]
struct Retry {
    /// The pod that is to be replaced.
    uid: String,
    tries: Tries,
    wait: Duration,
}

/// The indexes that wait for a replacement; empty unless the Job limits the failures of each index.
#[derive(Debug, Default)]
pub struct Retries(BTreeMap<i32, Retry>);

impl Retries {
    /// Looks at the last failed pod of every index that is neither done, given up nor running.
    pub fn of(shape: &Shape<'_>, tally: &Tally, pods: &[Arc<PodView>], backoff: Backoff, now: Timestamp) -> Retries {
        if shape.per_index.is_none() {
            return Retries::default();
        }
        let mut last: BTreeMap<i32, (&Arc<PodView>, End)> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| is_held(pod)) {
            let (Some(index), Some(end)) = (shape.index_of(pod), shape.end(pod)) else { continue };
            if end == End::Succeeded || tally.is_settled(index) {
                continue;
            }
            let held = last.entry(index).or_insert((pod, end));
            if age(held.0) < age(pod) {
                *held = (pod, end);
            }
        }
        for running in tally.active.iter().filter_map(|pod| shape.index_of(pod)) {
            last.remove(&running);
        }
        let retry = |(index, (pod, end)): (i32, (&Arc<PodView>, End))| (index, Retry::after(pod, end, backoff, now));
        Retries(last.into_iter().map(retry).collect())
    }

    /// Whether this pod is still needed, because its replacement is not there yet.
    pub fn need(&self, shape: &Shape<'_>, pod: &PodView) -> bool {
        let retry = shape.index_of(pod).and_then(|index| self.0.get(&index));
        retry.is_some_and(|retry| retry.uid == pod.metadata.uid)
    }

    /// How often the index has failed, and how long its next pod still has to wait.
    pub fn before(&self, index: i32) -> (Tries, Duration) {
        self.0.get(&index).map_or_else(Default::default, |retry| (retry.tries, retry.wait))
    }
}

impl Retry {
    fn after(pod: &PodView, end: End, backoff: Backoff, now: Timestamp) -> Retry {
        let before = Tries { failed: annotated(pod, FAILURES_KEY), ignored: annotated(pod, IGNORED_FAILURES_KEY) };
        let tries = Tries {
            failed: before.failed.saturating_add(i32::from(end.counts_as_failure())),
            ignored: before.ignored.saturating_add(i32::from(end == End::Ignored)),
        };
        let failures = u32::try_from(tries.failed.saturating_add(tries.ignored)).unwrap_or(0);
        // As for the Job as a whole: a pod that others ended says nothing about the next one.
        let waits = end != End::Disrupted && failed_by_itself(pod);
        let passed = Duration::try_from(now.duration_since(finished_at(pod))).unwrap_or(Duration::ZERO);
        let wait = if waits { backoff.delay(failures).saturating_sub(passed) } else { Duration::ZERO };
        Retry { uid: pod.metadata.uid.clone(), tries, wait }
    }
}

/// The more failures before it, the later the pod was made; the name last, so that the order is total.
fn age(pod: &PodView) -> impl Ord + use<> {
    let before = annotated(pod, FAILURES_KEY).saturating_add(annotated(pod, IGNORED_FAILURES_KEY));
    (before, finished_at(pod), pod.metadata.name.clone())
}
