//! How long to wait before failed pods are replaced.

use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{PodPhase, PodView};
use runtime::Backoff;

/// How long the replacement of failed pods still has to wait; zero when nothing holds it back.
///
/// The wait doubles with each failure after the last success and runs from the latest failure.
// Upstream: keeps the failures in memory, forgets them on restart, and counts deleted pods too. The pods that failed
// are still there to be asked, so the same wait comes out before and after a restart. A pod that somebody deleted (a
// drain, a preemption) says nothing about the program in it, so its replacement does not wait.
pub fn remaining(pods: &[Arc<PodView>], backoff: Backoff, now: Timestamp) -> Duration {
    let ended = |phase: PodPhase| pods.iter().filter(move |pod| pod.status.phase == phase);
    let last_success = ended(PodPhase::Succeeded).map(|pod| finished_at(pod)).max();
    let failures = ended(PodPhase::Failed).filter(|pod| !pod.metadata.is_deleting()).map(|pod| finished_at(pod));
    let since: Vec<Timestamp> = failures.filter(|at| last_success.is_none_or(|success| *at > success)).collect();
    let Some(latest) = since.iter().max() else { return Duration::ZERO };
    let wait = backoff.delay(u32::try_from(since.len()).unwrap_or(u32::MAX));
    let passed = Duration::try_from(now.duration_since(*latest)).unwrap_or(Duration::ZERO);
    wait.saturating_sub(passed)
}

/// When the pod ended, by the best evidence there is: its containers, its readiness, its creation.
fn finished_at(pod: &PodView) -> Timestamp {
    let containers = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let ends: Option<Vec<_>> = containers.map(|status| status.state.terminated.as_ref()?.finished_at).collect();
    let not_ready = pod.status.conditions.iter().find(|held| held.kind == "Ready" && held.status == "False");
    ends.and_then(|ends| ends.into_iter().max())
        .or(not_ready.and_then(|condition| condition.last_transition_time))
        .or(pod.metadata.creation_timestamp)
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{at, pod};

    #[test]
    fn wait_doubles_with_each_failure_after_the_last_success() {
        let backoff = Backoff { initial: Duration::from_secs(10), max: Duration::from_secs(600) };
        for (case, pods, now, want) in [
            ("no failure", vec![pod("a").running()], 100, 0),
            ("first failure", vec![pod("a").failed_at(100)], 103, 7),
            ("second failure", vec![pod("a").failed_at(80), pod("b").failed_at(100)], 103, 17),
            ("failures before a success are forgiven", vec![pod("a").failed_at(80), pod("b").succeeded_at(90)], 91, 0),
            ("one after it counts", vec![pod("b").succeeded_at(90), pod("c").failed_at(100)], 100, 10),
            ("a deleted pod says nothing", vec![pod("a").failed_at(100).deleting()], 100, 0),
            ("the wait is over", vec![pod("a").failed_at(100)], 111, 0),
            ("never longer than the maximum", (0..9).map(|n| pod(&n.to_string()).failed_at(100)).collect(), 100, 600),
        ] {
            let pods: Vec<_> = pods.into_iter().map(|pod| pod.build()).collect();
            assert_eq!(remaining(&pods, backoff, at(now)), Duration::from_secs(want), "{case}");
        }
    }
}
