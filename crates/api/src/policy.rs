//! Validation of PodDisruptionBudgets.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{to_json, validate_object_meta, validate_object_meta_update};
use crate::scheduling::validation::conditions;
use crate::selector::validate_label_selector;

/// The condition of a budget for whether a pod may be evicted.
pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// Its reason while a pod may be evicted.
pub const SUFFICIENT_PODS: &str = "SufficientPods";
/// Its reason while no pod may be evicted.
pub const INSUFFICIENT_PODS: &str = "InsufficientPods";
/// Its reason while the number of expected pods is unknown.
pub const SYNC_FAILED: &str = "SyncFailed";

/// Policies for pods that are not ready.
const UNHEALTHY_POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];
const NEGATIVE: &str = "must be greater than or equal to 0";
const INVALID_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                          '93%', regex used for validation is '[0-9]+%')";

/// Removes the status of a new budget.
pub fn prepare_create(budget: &mut Value) {
    budget["status"] = json!({});
}

/// Validates a new budget.
pub fn validate_create(meta: &ObjectMeta, spec: &PodDisruptionBudgetSpec) -> ErrorList {
    let mut errors = validate_object_meta(meta, true, &Path::new("metadata"));
    errors.extend(spec_problems(spec));
    errors
}

/// Validates a change of a budget.
pub fn validate_update(new: &ObjectMeta, old: &ObjectMeta, spec: &PodDisruptionBudgetSpec) -> ErrorList {
    let mut errors = validate_object_meta_update(new, old, &Path::new("metadata"));
    errors.extend(spec_problems(spec));
    errors
}

/// Validates a write to a budget's status.
pub fn validate_status_update(new: &PodDisruptionBudget, old: &PodDisruptionBudget) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(new.status.iter().flat_map(status_problems));
    errors
}

/// The number of a percentage such as `40%`.
pub fn parse_percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty())?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().unwrap_or(i64::MAX))
}

fn spec_problems(spec: &PodDisruptionBudgetSpec) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = ErrorList::new();
    if spec.min_available.is_some() && spec.max_unavailable.is_some() {
        let detail = "minAvailable and maxUnavailable are mutually exclusive";
        errors.push(Error::invalid(&path, to_json(spec), detail));
    }
    for (field, amount) in [("minAvailable", &spec.min_available), ("maxUnavailable", &spec.max_unavailable)] {
        errors.extend(amount.as_ref().and_then(|amount| amount_problem(amount, &path.child(field))));
    }
    if let Some(selector) = &spec.selector {
        errors.extend(validate_label_selector(selector, &path.child("selector")));
    }
    let policy = spec.unhealthy_pod_eviction_policy.as_deref();
    if let Some(policy) = policy.filter(|policy| !UNHEALTHY_POLICIES.contains(policy)) {
        errors.push(Error::not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, &UNHEALTHY_POLICIES));
    }
    errors
}

/// A number of pods, or a percentage of at most 100.
fn amount_problem(amount: &IntOrString, path: &Path) -> Option<Error> {
    match amount {
        IntOrString::Int(count) => (*count < 0).then(|| Error::invalid(path, *count, NEGATIVE)),
        IntOrString::String(text) => match parse_percent(text) {
            None => Some(Error::invalid(path, text.as_str(), INVALID_PERCENT)),
            Some(share) => (share > 100).then(|| Error::invalid(path, text.as_str(), "must not be greater than 100%")),
        },
    }
}

fn status_problems(status: &PodDisruptionBudgetStatus) -> ErrorList {
    let path = Path::new("status");
    let counts = [
        ("disruptionsAllowed", status.disruptions_allowed),
        ("currentHealthy", status.current_healthy),
        ("desiredHealthy", status.desired_healthy),
        ("expectedPods", status.expected_pods),
    ];
    let conditions_of = status.conditions.as_deref().unwrap_or_default();
    let mut errors = conditions::validate(&path.child("conditions"), conditions_of);
    let set = counts.into_iter().filter_map(|(field, count)| Some((field, count?)));
    let negative = set.filter(|(_, count)| *count < 0);
    errors.extend(negative.map(|(field, count)| Error::invalid(&path.child(field), count, NEGATIVE)));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{validate_create, validate_status_update};
    use crate::field::ErrorList;

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn validate_new(spec: Value) -> ErrorList {
        let meta = serde_json::from_value(json!({"name": "b", "namespace": "n"})).expect("metadata");
        validate_create(&meta, &serde_json::from_value(spec).expect("a spec"))
    }

    #[test]
    fn budget_has_one_valid_amount() {
        for (case, spec, want) in [
            ("nothing", json!({}), vec![]),
            ("a number", json!({"minAvailable": 0}), vec![]),
            ("a percentage", json!({"maxUnavailable": "100%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}), vec![]),
            (
                "negative number",
                json!({"minAvailable": -1}),
                vec!["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                "percentage above 100",
                json!({"minAvailable": "101%"}),
                vec!["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
            ),
            (
                "both",
                json!({"minAvailable": 1, "maxUnavailable": 1}),
                vec![
                    "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable are mutually exclusive",
                ],
            ),
            (
                "unknown policy",
                json!({"unhealthyPodEvictionPolicy": "Never"}),
                vec![
                    "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
                ],
            ),
        ] {
            assert_eq!(texts(&validate_new(spec)), want, "{case}");
        }
        let errors = validate_new(json!({"minAvailable": "half"}));
        assert!(errors[0].detail.starts_with("a valid percent string"), "{errors:?}");
    }

    #[test]
    fn counts_of_a_status_are_not_negative() {
        let budget = |count: i32| -> Value {
            let status =
                json!({"currentHealthy": count, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
            json!({"metadata": {"name": "b", "namespace": "n"}, "status": status})
        };
        let [old, new] = [budget(0), budget(-1)].map(|budget| serde_json::from_value(budget).expect("a budget"));
        let want = "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0";
        assert_eq!(texts(&validate_status_update(&new, &old)), [want]);
    }
}
