//! How long to wait before failed pods are replaced.

use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{PodPhase, PodView};
use runtime::Backoff;

use crate::job::job_params::JobParams;
use crate::job::observe::CountedPods;
use crate::job::policy::pod_outcome::{PodOutcome, failed_before_deletion, finished_at};

/// The remaining back-off before failed pods are replaced. A Job with limits per index has a back-off per index instead
/// (`retries`).
///
/// The wait doubles with each failure after the last success and runs from the latest failure.
// Upstream: keeps the failures in memory, loses them on restart, and counts deleted pods too. Here the failed pods are
// read, so the wait is the same after a restart. A pod that was deleted (by a drain or a preemption) is no failure of the
// program, so its replacement does not wait.
pub fn remaining_backoff(
    params: &JobParams<'_>,
    pods: &[Arc<PodView>],
    counted_pods: CountedPods,
    backoff: Backoff,
    now: Timestamp,
) -> Duration {
    if params.per_index_limits.is_some() {
        return Duration::ZERO;
    }
    let succeeded = pods.iter().filter(|pod| pod.status.phase == PodPhase::Succeeded);
    let last_success = succeeded.map(|pod| finished_at(pod)).chain(counted_pods.last_finished_at).max();
    let failed =
        pods.iter().filter(|pod| failed_before_deletion(pod) && params.pod_outcome(pod) != Some(PodOutcome::Disrupted));
    let failures = failed.map(|pod| finished_at(pod));
    let since: Vec<Timestamp> = failures.filter(|at| last_success.is_none_or(|success| *at > success)).collect();
    let Some(latest) = since.iter().max() else { return Duration::ZERO };
    let wait = backoff.delay(u32::try_from(since.len()).unwrap_or(u32::MAX));
    let passed = Duration::try_from(now.duration_since(*latest)).unwrap_or(Duration::ZERO);
    wait.saturating_sub(passed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::Config;
    use crate::job::tests::{at, job, pod};

    // Shows: U-TestJobPodsCreatedWithExponentialBackoff
    #[test]
    fn wait_doubles_with_each_failure_after_the_last_success() {
        let backoff = Backoff { initial: Duration::from_secs(10), max: Duration::from_secs(600) };
        for (case, pods, now, want) in [
            ("no failure", vec![pod("a").running()], 100, 0),
            ("first failure", vec![pod("a").failed_at(100)], 103, 7),
            ("second failure", vec![pod("a").failed_at(80), pod("b").failed_at(100)], 103, 17),
            ("failures before a success do not count", vec![pod("a").failed_at(80), pod("b").succeeded_at(90)], 91, 0),
            ("one after it counts", vec![pod("b").succeeded_at(90), pod("c").failed_at(100)], 100, 10),
            ("one at the same moment does not", vec![pod("b").succeeded_at(90), pod("c").failed_at(90)], 90, 0),
            ("a deleted pod does not count", vec![pod("a").failed_at(100).deleted_at(130, 30)], 101, 0),
            ("unless it failed before", vec![pod("a").failed_at(100).deleted_at(135, 30)], 101, 9),
            ("nor does a disrupted one", vec![pod("a").failed_at(100).disrupted("DeletionByPodGC")], 101, 0),
            ("the wait is over", vec![pod("a").failed_at(100)], 111, 0),
            ("never longer than the maximum", (0..9).map(|n| pod(&n.to_string()).failed_at(100)).collect(), 100, 600),
        ] {
            let job = job(json!({})).0;
            let params = JobParams::of(&job, &Config::default()).expect("a known mode");
            let pods: Vec<_> = pods.into_iter().map(|pod| pod.build()).collect();
            let waits = |counted| remaining_backoff(&params, &pods, counted, backoff, at(now));
            assert_eq!(waits(CountedPods::default()), Duration::from_secs(want), "{case}");
            let success_just_now = CountedPods { count: 1, last_finished_at: Some(at(now)) };
            assert_eq!(waits(success_just_now), Duration::ZERO, "{case}, and a counted pod succeeded since");
        }
    }
}
