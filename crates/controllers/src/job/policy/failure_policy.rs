//! The rules of `spec.podFailurePolicy` applied to a failed pod (KEP-3329).

use api::views::{ContainerStatusView, PodView};
use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
};

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicyAction {
    /// The failure counts, as it would without the rule.
    Count,
    /// The failure does not count.
    Ignore,
    /// The pod's index fails.
    FailIndex,
    /// The Job fails.
    FailJob,
}

impl FailurePolicyAction {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            FailurePolicyAction::Count => "Count",
            FailurePolicyAction::Ignore => "Ignore",
            FailurePolicyAction::FailIndex => "FailIndex",
            FailurePolicyAction::FailJob => "FailJob",
        }
    }

    /// The action of a rule. A rule with an unknown action is skipped, as the API requires.
    fn of(rule: &PodFailurePolicyRule) -> Option<FailurePolicyAction> {
        let known = [
            FailurePolicyAction::Count,
            FailurePolicyAction::Ignore,
            FailurePolicyAction::FailIndex,
            FailurePolicyAction::FailJob,
        ];
        known.into_iter().find(|action| action.name() == rule.action)
    }
}

/// The rule that decides about a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRule {
    /// Its action.
    pub action: FailurePolicyAction,
    /// Why it applies; the API shows this text for `FailJob`.
    pub message: String,
}

/// The first rule that applies to a failed pod, if any does.
pub fn first_match(policy: &PodFailurePolicy, pod: &PodView) -> Option<MatchedRule> {
    let matched = |(position, rule): (usize, &PodFailurePolicyRule)| {
        let action = FailurePolicyAction::of(rule)?;
        let cause = exit_code_that_matches(rule.on_exit_codes.as_ref(), pod)
            .or_else(|| condition_that_matches(rule.on_pod_conditions.as_deref().unwrap_or_default(), pod))?;
        Some(MatchedRule { action, message: format!("{cause} matching {} rule at index {position}", action.name()) })
    };
    policy.rules.iter().enumerate().find_map(matched)
}

/// Only failed containers count: exit code 0 matches no rule, not even `NotIn`.
fn exit_code_that_matches(codes: Option<&PodFailurePolicyOnExitCodesRequirement>, pod: &PodView) -> Option<String> {
    let codes = codes?;
    let failed = |container: &ContainerStatusView| {
        let code = container.state.terminated.as_ref()?.exit_code;
        let is_named = codes.container_name.as_ref().is_none_or(|name| *name == container.name);
        let has_code = match codes.operator.as_str() {
            "In" => codes.values.contains(&code),
            "NotIn" => !codes.values.contains(&code),
            _ => false,
        };
        (code != 0 && is_named && has_code).then(|| {
            let pod = pod.metadata.key();
            format!("Container {} for pod {pod} failed with exit code {code}", container.name)
        })
    };
    pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses).find_map(failed)
}

fn condition_that_matches(patterns: &[PodFailurePolicyOnPodConditionsPattern], pod: &PodView) -> Option<String> {
    let is_present = |pattern: &&PodFailurePolicyOnPodConditionsPattern| {
        // The API sets the default. A pattern without a status has the same meaning.
        let status = pattern.status.as_deref().unwrap_or("True");
        pod.status.conditions.iter().any(|condition| condition.kind == pattern.type_ && condition.status == status)
    };
    let pattern = patterns.iter().find(is_present)?;
    Some(format!("Pod {} has condition {}", pod.metadata.key(), pattern.type_))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;
    use crate::job::tests::{PodBuilder, pod};

    /// The action and the message; empty if no rule applies.
    fn match_text(rules: &Value, pod: PodBuilder) -> String {
        let policy: PodFailurePolicy = serde_json::from_value(json!({ "rules": rules })).unwrap();
        first_match(&policy, &pod.0)
            .map_or(String::new(), |matched| format!("{:?}: {}", matched.action, matched.message))
    }

    // Shows: U-TestSyncJobWithJobPodFailurePolicy
    #[test]
    fn the_first_rule_that_applies_decides() {
        let codes = |action: &str, operator: &str, values: &[i32]| json!({ "action": action, "onExitCodes": { "operator": operator, "values": values } });
        let named = |name: &str| json!({ "action": "FailJob", "onExitCodes": { "containerName": name, "operator": "In", "values": [2] } });
        let disrupted = |action: &str, status: &str| json!({ "action": action, "onPodConditions": [{ "type": "DisruptionTarget", "status": status }] });
        let failed = |code: i32| pod("a").exited("main", code);
        for (case, rules, pod, want) in [
            ("no rules", json!([]), failed(2), ""),
            (
                "a code that is listed",
                json!([codes("FailJob", "In", &[1, 2])]),
                failed(2),
                "FailJob: Container main for pod ns/a failed with exit code 2 matching FailJob rule at index 0",
            ),
            ("a code that is not listed", json!([codes("FailJob", "In", &[1])]), failed(2), ""),
            (
                "none of the codes",
                json!([codes("Ignore", "NotIn", &[1])]),
                failed(2),
                "Ignore: Container main for pod ns/a failed with exit code 2 matching Ignore rule at index 0",
            ),
            ("exit code 0 matches no rule", json!([codes("FailJob", "NotIn", &[1])]), failed(0), ""),
            (
                "a negative code",
                json!([codes("Count", "In", &[-1])]),
                failed(-1),
                "Count: Container main for pod ns/a failed with exit code -1 matching Count rule at index 0",
            ),
            ("an unknown operator does not apply", json!([codes("FailJob", "Between", &[1, 3])]), failed(2), ""),
            ("another container", json!([named("side")]), failed(2), ""),
            (
                "that container",
                json!([named("side")]),
                failed(1).exited("side", 2),
                "FailJob: Container side for pod ns/a failed with exit code 2 matching FailJob rule at index 0",
            ),
            (
                "an init container",
                json!([codes("FailIndex", "In", &[7])]),
                pod("a").init_exited("prepare", 7),
                "FailIndex: Container prepare for pod ns/a failed with exit code 7 matching FailIndex rule at index 0",
            ),
            (
                "a condition",
                json!([disrupted("FailJob", "True")]),
                failed(1).condition("DisruptionTarget", "True"),
                "FailJob: Pod ns/a has condition DisruptionTarget matching FailJob rule at index 0",
            ),
            (
                "a condition of another status",
                json!([disrupted("FailJob", "True")]),
                failed(1).condition("DisruptionTarget", "False"),
                "",
            ),
            (
                "the first of two",
                json!([disrupted("Ignore", "True"), codes("FailJob", "In", &[2])]),
                failed(2).condition("DisruptionTarget", "True"),
                "Ignore: Pod ns/a has condition DisruptionTarget matching Ignore rule at index 0",
            ),
            (
                "the second, if the first does not apply",
                json!([disrupted("Ignore", "True"), codes("FailJob", "In", &[2])]),
                failed(2),
                "FailJob: Container main for pod ns/a failed with exit code 2 matching FailJob rule at index 1",
            ),
            (
                "an unknown action is skipped",
                json!([codes("Explode", "In", &[2]), codes("Count", "In", &[2])]),
                failed(2),
                "Count: Container main for pod ns/a failed with exit code 2 matching Count rule at index 1",
            ),
        ] {
            assert_eq!(match_text(&rules, pod), want, "{case}");
        }
    }
}
