//! The status a budget should have, from its pods alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::policy::{DISRUPTION_ALLOWED, INSUFFICIENT_PODS, SUFFICIENT_PODS, SYNC_FAILED, parse_percent};
use api::selector::ParsedLabelSelector;
use api::views::{Condition, OwnerRef, PodDisruptionBudgetStatusView, PodDisruptionBudgetView, PodView};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How long the deletion of an evicted pod may take to be seen. Then the pod counts again.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether the budget selects the pod. No selector selects none, an empty one selects all pods of the namespace.
pub fn selects(budget: &PodDisruptionBudgetView, pod: &PodView) -> bool {
    let selector =
        budget.spec.selector.as_ref().and_then(|selector| ParsedLabelSelector::from_label_selector(selector).ok());
    budget.metadata.namespace == pod.metadata.namespace
        && selector.is_some_and(|selector| selector.matches(&pod.metadata.labels))
}

/// The status that the budget should have, and when to decide again even if nothing changes.
pub fn next_status(
    budget: &PodDisruptionBudgetView,
    pods: &[Arc<PodView>],
    now: Timestamp,
) -> (PodDisruptionBudgetStatusView, Option<Duration>) {
    let (expected, desired) = match expected_and_desired(budget, pods) {
        Ok(counts) => counts,
        Err(reason) => return (fail_safe_status(budget, reason), None),
    };
    let (disrupted_pods, recheck) = disrupted_pods(budget, pods, now);
    let is_healthy = |pod: &&Arc<PodView>| {
        !pod.metadata.is_deleting()
            && !disrupted_pods.contains_key(&pod.metadata.name)
            && Condition::is_true(&pod.status.conditions, "Ready")
    };
    let healthy = count(pods.iter().filter(is_healthy).count());
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let (status, reason) = if allowed > 0 { ("True", SUFFICIENT_PODS) } else { ("False", INSUFFICIENT_PODS) };
    let status = PodDisruptionBudgetStatusView {
        observed_generation: budget.metadata.generation,
        disrupted_pods,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        conditions: with_condition(budget, status, reason, String::new()),
    };
    (status, recheck)
}

/// How many pods there should be, and how many of them must be healthy.
fn expected_and_desired(budget: &PodDisruptionBudgetView, pods: &[Arc<PodView>]) -> Result<(i32, i32), String> {
    match (&budget.spec.max_unavailable, &budget.spec.min_available) {
        (Some(missing), _) => {
            let expected = scale(pods)?;
            Ok((expected, (expected - scaled_value(missing, expected)).max(0)))
        }
        (None, Some(share @ IntOrString::String(_))) => {
            let expected = scale(pods)?;
            Ok((expected, scaled_value(share, expected)))
        }
        (None, Some(IntOrString::Int(healthy))) => Ok((count(pods.len()), *healthy)),
        // Upstream: the same; a budget with neither field requires no healthy pod.
        (None, None) => Ok((count(pods.len()), 0)),
    }
}

/// The sum of the replicas of all controllers of the pods. A pod without a controller adds nothing. No kind that we serve
/// has the scale subresource: a Job needs fewer pods as it completes.
fn scale(pods: &[Arc<PodView>]) -> Result<i32, String> {
    let controllers: BTreeSet<String> =
        pods.iter().filter_map(|pod| pod.metadata.controller()).map(group_resource).collect();
    match controllers.first() {
        None => Ok(0),
        Some(resource) => Err(format!("{resource} does not implement the scale subresource")),
    }
}

/// `jobs.batch` for a Job, as in messages of Kubernetes. Other kinds get the usual plural.
fn group_resource(owner: &OwnerRef) -> String {
    let kind = owner.kind.to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    match owner.api_version.split_once('/') {
        Some((group, _)) => format!("{plural}.{group}"),
        None => plural,
    }
}

/// The number, or the percentage of `whole`, rounded up.
fn scaled_value(amount: &IntOrString, whole: i32) -> i32 {
    match amount {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let share = parse_percent(text).unwrap_or(0).min(100);
            count(usize::try_from((i64::from(whole) * share + 99) / 100).unwrap_or(0))
        }
    }
}

/// The pods with an accepted eviction whose deletion is still awaited, and when the first of them times out.
fn disrupted_pods(
    budget: &PodDisruptionBudgetView,
    pods: &[Arc<PodView>],
    now: Timestamp,
) -> (BTreeMap<String, Timestamp>, Option<Duration>) {
    let evicted = &budget.status.disrupted_pods;
    if evicted.is_empty() {
        return (BTreeMap::new(), None);
    }
    let not_deleting = pods.iter().filter(|pod| !pod.metadata.is_deleting()).map(|pod| pod.metadata.name.as_str());
    let not_deleting: BTreeSet<&str> = not_deleting.collect();
    let left = |since: Timestamp| {
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        DELETION_TIMEOUT.checked_sub(passed).filter(|left| !left.is_zero())
    };
    let awaited: BTreeMap<String, Timestamp> = evicted
        .iter()
        .filter(|(name, since)| not_deleting.contains(name.as_str()) && left(**since).is_some())
        .map(|(name, since)| (name.clone(), *since))
        .collect();
    let recheck = awaited.values().filter_map(|since| left(*since)).min();
    (awaited, recheck)
}

/// Why the number of expected pods of a budget with this status cannot be computed; `None` where it can.
pub fn sync_failure(status: &PodDisruptionBudgetStatusView) -> Option<&str> {
    let is_failure = |condition: &&Condition| condition.kind == DISRUPTION_ALLOWED && condition.reason == SYNC_FAILED;
    status.conditions.iter().find(is_failure).map(|condition| condition.message.as_str())
}

/// The previous status, but without allowed disruptions, for this reason.
fn fail_safe_status(budget: &PodDisruptionBudgetView, reason: String) -> PodDisruptionBudgetStatusView {
    PodDisruptionBudgetStatusView {
        observed_generation: budget.metadata.generation,
        disruptions_allowed: 0,
        conditions: with_condition(budget, "False", SYNC_FAILED, reason),
        ..budget.status.clone()
    }
}

/// The budget's conditions with ours. Its transition time changes only with its status.
fn with_condition(budget: &PodDisruptionBudgetView, status: &str, reason: &str, message: String) -> Vec<Condition> {
    let mut conditions = budget.status.conditions.clone();
    let before = conditions.iter().position(|condition| condition.kind == DISRUPTION_ALLOWED);
    let before = before.map(|at| conditions.remove(at));
    let since = before.filter(|before| before.status == status).and_then(|before| before.last_transition_time);
    conditions.push(Condition {
        kind: DISRUPTION_ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
    });
    conditions
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use api::views::View;
    use serde_json::{Value, json};

    use super::*;

    fn budget(spec: Value, status: Value) -> PodDisruptionBudgetView {
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": "a"}});
        let document =
            json!({"metadata": {"name": "b", "namespace": "n", "generation": 3}, "spec": spec, "status": status});
        PodDisruptionBudgetView::decode(document.to_string().as_bytes()).unwrap()
    }

    /// `a`: ready. `a?`: not ready. `a~`: being deleted. `a<Job`: managed by a Job.
    fn pod(text: &str) -> Arc<PodView> {
        let (head, owner) = text.split_once('<').unwrap_or((text, ""));
        let name = head.trim_end_matches(['?', '~']);
        let ready = if head.ends_with('?') { "False" } else { "True" };
        let mut metadata = json!({"name": name, "namespace": "n", "labels": {"app": "a"}});
        if head.ends_with('~') {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if !owner.is_empty() {
            metadata["ownerReferences"] =
                json!([{"apiVersion": "batch/v1", "kind": owner, "name": "x", "uid": "u", "controller": true}]);
        }
        let document = json!({"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Arc::new(PodView::decode(document.to_string().as_bytes()).unwrap())
    }

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    #[test]
    fn healthy_pods_beyond_the_desired_number_may_be_evicted() {
        for (case, spec, pods, want) in [
            // Healthy, desired, expected, allowed.
            ("one to spare", json!({"minAvailable": 2}), "a b c", (3, 2, 3, 1)),
            ("none to spare", json!({"minAvailable": 3}), "a b c", (3, 3, 3, 0)),
            ("one is not ready", json!({"minAvailable": 2}), "a b c?", (2, 2, 3, 0)),
            ("one is being deleted", json!({"minAvailable": 1}), "a b~", (1, 1, 2, 0)),
            ("pods of a Job", json!({"minAvailable": 1}), "a<Job b<Job", (2, 1, 2, 1)),
            ("no pods", json!({"minAvailable": 0}), "", (0, 0, 0, 0)),
            ("a percentage of pods without a controller", json!({"minAvailable": "50%"}), "a b", (2, 0, 0, 0)),
        ] {
            let pods: Vec<_> = pods.split_whitespace().map(pod).collect();
            let (status, recheck) = next_status(&budget(spec, json!({})), &pods, now());
            let got =
                (status.current_healthy, status.desired_healthy, status.expected_pods, status.disruptions_allowed);
            assert_eq!(got, want, "{case}");
            assert_eq!((status.observed_generation, recheck), (3, None), "{case}");
            let reason = if want.3 > 0 { SUFFICIENT_PODS } else { INSUFFICIENT_PODS };
            assert_eq!(status.conditions[0].reason, reason, "{case}");
        }
    }

    #[test]
    fn nothing_is_allowed_where_the_expected_pods_are_unknown() {
        for spec in [json!({"maxUnavailable": 1}), json!({"minAvailable": "50%"})] {
            let before = json!({"disruptionsAllowed": 4, "currentHealthy": 5});
            let (status, _) = next_status(&budget(spec, before), &[pod("a<Job")], now());
            assert_eq!((status.disruptions_allowed, status.current_healthy), (0, 5));
            let condition = &status.conditions[0];
            assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", SYNC_FAILED));
            assert_eq!(condition.message, "jobs.batch does not implement the scale subresource");
            assert_eq!(sync_failure(&status), Some(condition.message.as_str()));
        }
    }

    #[test]
    fn an_evicted_pod_counts_again_if_it_stays_for_two_minutes() {
        let evicted = json!({"disruptedPods": {
            "a": "2026-01-01T00:59:00Z", "b": "2026-01-01T00:57:59Z", "c": "2026-01-01T00:59:30Z", "gone": "2026-01-01T00:59:30Z",
        }});
        let pods = ["a", "b", "c~", "d"].map(pod);
        let (status, recheck) = next_status(&budget(json!({"minAvailable": 1}), evicted), &pods, now());
        assert_eq!(
            status.disrupted_pods.keys().collect::<Vec<_>>(),
            ["a"],
            "b timed out, c is being deleted, another is gone"
        );
        assert_eq!((status.current_healthy, status.disruptions_allowed), (2, 1), "b and d");
        assert_eq!(recheck, Some(Duration::from_secs(60)));
    }

    #[test]
    fn a_budget_is_about_the_pods_of_its_namespace_that_match_its_selector() {
        let mut budget = budget(json!({}), json!({}));
        assert!(selects(&budget, &pod("a")));
        budget.metadata.namespace = "other".to_owned();
        assert!(!selects(&budget, &pod("a")));
        budget.metadata.namespace = "n".to_owned();
        budget.spec.selector = Some(Default::default());
        assert!(selects(&budget, &pod("a")), "an empty selector selects all");
        budget.spec.selector = None;
        assert!(!selects(&budget, &pod("a")), "no selector selects none");
    }
}
