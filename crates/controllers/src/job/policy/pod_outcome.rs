//! What the end of a pod counts as, and when it was.

use api::Timestamp;
use api::views::{Condition, PodPhase, PodView};
use jiff::SignedDuration;

use super::failure_policy::{FailurePolicyAction, MatchedRule, first_match};
use crate::job::job_params::{FAILURES_KEY, JobParams};

/// What the end of a pod counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodOutcome {
    /// It succeeded.
    Succeeded,
    /// It failed, which counts.
    Failed,
    /// It failed, which counts, and its index is not retried.
    FailedIndex,
    /// It failed, which does not count because of a rule of the Job.
    Ignored,
    /// It was preempted, evicted or released. That does not count as a failure of the program.
    Disrupted,
    /// It was deleted because the Job had succeeded without it. It does not count.
    Stopped,
}

impl PodOutcome {
    /// Whether it counts toward the limits and in `status.failed`.
    pub fn counts_as_failure(self) -> bool {
        matches!(self, PodOutcome::Failed | PodOutcome::FailedIndex)
    }
}

impl JobParams<'_> {
    /// What the pod's end counts as; `None` while it has not ended.
    pub fn pod_outcome(&self, pod: &PodView) -> Option<PodOutcome> {
        if pod.status.phase == PodPhase::Succeeded {
            return Some(PodOutcome::Succeeded);
        }
        if !self.has_failed(pod) {
            return None;
        }
        match self.failure_policy_action(pod) {
            Some(FailurePolicyAction::Ignore) => return Some(PodOutcome::Ignored),
            Some(FailurePolicyAction::FailIndex) if self.per_index_limits.is_some() => {
                return Some(PodOutcome::FailedIndex);
            }
            // Upstream: every failure counts unless a rule of the Job ignores it. Pods that the scheduler or a drain deletes
            // would use up the limits of Jobs whose program did not fail. Pods that the kubelet evicts count here too.
            None if !self.counts_disruptions && is_disrupted(pod) => return Some(PodOutcome::Disrupted),
            _ => {}
        }
        let is_limit_reached =
            self.per_index_limits.is_some_and(|limit| annotation_count(pod, FAILURES_KEY) >= limit.backoff_limit);
        Some(if is_limit_reached { PodOutcome::FailedIndex } else { PodOutcome::Failed })
    }

    /// Why the Job fails because of this pod, if it does.
    pub fn job_failure(&self, pod: &PodView) -> Option<String> {
        self.matched_rule(pod)
            .filter(|matched| matched.action == FailurePolicyAction::FailJob)
            .map(|matched| matched.message)
    }

    /// The action of the Job's rule for this pod, if one applies.
    pub fn failure_policy_action(&self, pod: &PodView) -> Option<FailurePolicyAction> {
        self.matched_rule(pod).map(|matched| matched.action)
    }

    /// The rule that applies to this pod. Rules apply to failed pods: one that is only being deleted has no exit code.
    fn matched_rule(&self, pod: &PodView) -> Option<MatchedRule> {
        let policy = self.failure_policy.filter(|_| pod.status.phase == PodPhase::Failed)?;
        first_match(policy, pod)
    }
}

/// Reasons of the condition `DisruptionTarget` that are no failure of the program: preemption, release of a partially
/// bound gang, drain, a lost node, a NoExecute taint. `TerminationByKubelet` is not among them: a pod that exhausts the
/// node's memory would do so again and again.
const DISRUPTION_REASONS: [&str; 5] = [
    "PreemptionByScheduler",
    PodView::RELEASED_BY_SCHEDULER,
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "DeletionByTaintManager",
];

/// Whether the pod was disrupted for one of `DISRUPTION_REASONS`.
pub fn is_disrupted(pod: &PodView) -> bool {
    let is_target = |condition: &Condition| condition.kind == "DisruptionTarget" && condition.status == "True";
    let is_disruption =
        |condition: &Condition| is_target(condition) && DISRUPTION_REASONS.contains(&condition.reason.as_str());
    pod.status.conditions.iter().any(is_disruption)
}

/// The number in an annotation of ours; 0 where there is none.
pub fn annotation_count(pod: &PodView, key: &str) -> i32 {
    pod.metadata.annotations.get(key).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// When the pod ended, from the first of these that is known: its containers, its readiness, its deletion, its creation.
pub fn finished_at(pod: &PodView) -> Timestamp {
    let containers = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let ends: Option<Vec<_>> = containers.map(|status| status.state.terminated.as_ref()?.finished_at).collect();
    let not_ready = pod.status.conditions.iter().find(|it| it.kind == "Ready" && it.status == "False");
    ends.and_then(|ends| ends.into_iter().max())
        .or(not_ready.and_then(|condition| condition.last_transition_time))
        .or(deletion_requested_at(pod))
        .or(pod.metadata.creation_timestamp)
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Whether the pod failed before its deletion was requested. A deleted pod ends because of the deletion.
pub fn failed_before_deletion(pod: &PodView) -> bool {
    let ended_first = || deletion_requested_at(pod).is_none_or(|requested| finished_at(pod) < requested);
    pod.status.phase == PodPhase::Failed && ended_first()
}

/// The API has the time when the pod must be gone, not when the deletion was requested.
fn deletion_requested_at(pod: &PodView) -> Option<Timestamp> {
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0).into());
    pod.metadata.deletion_timestamp?.checked_sub(grace).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{at, pod};

    #[test]
    fn the_end_of_a_pod_comes_from_its_containers_then_readiness_deletion_and_creation() {
        let not_ready = |second| pod("a").created(10).condition_at("Ready", "False", second);
        for (case, pod, want) in [
            ("its only container", pod("a").created(10).failed_at(30), 30),
            ("the last of its containers", pod("a").failed_at(30).terminated("side", 1, 40), 40),
            ("an init container that ended after them", pod("a").failed_at(30).init_exited_at("log", 1, 45), 45),
            ("no container has an end", not_ready(25), 25),
            ("one container still runs", not_ready(25).terminated("main", 1, 20).still_running("side"), 25),
            ("containers count more than readiness", not_ready(25).failed_at(30), 30),
            ("deleted with a grace period", pod("a").created(10).deleted_at(90, 30), 60),
            ("only its creation is known", pod("a").created(10), 10),
        ] {
            assert_eq!(finished_at(&pod.0), at(want), "{case}");
        }
    }

    #[test]
    fn a_pod_that_failed_before_it_was_deleted_failed_by_itself() {
        for (case, pod, want) in [
            ("failed", pod("a").failed_at(30), true),
            ("failed, then deleted", pod("a").failed_at(30).deleted_at(90, 30), true),
            ("deleted, then failed", pod("a").failed_at(70).deleted_at(90, 30), false),
            ("deleted, still running", pod("a").running().deleted_at(90, 30), false),
            ("running", pod("a").running(), false),
        ] {
            assert_eq!(failed_before_deletion(&pod.0), want, "{case}");
        }
    }
}
