//! Failure, success and pod replacement policies.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
    SuccessPolicyRule,
};
use workloadbuilder::rules::at_least;

use crate::batch::indexes;
use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::metadata::{names, to_json};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_INDEXES_BYTES: usize = 65_536;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

pub(super) fn replacement(spec: &JobSpec, path: &Path) -> Option<Error> {
    let policy = spec.pod_replacement_policy.as_deref()?;
    let supported: &[&str] =
        if spec.pod_failure_policy.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    (!supported.contains(&policy)).then(|| Error::not_supported(&path.child("podReplacementPolicy"), policy, supported))
}

pub(super) fn failure(spec: &JobSpec, path: &Path) -> ErrorList {
    let Some(policy) = &spec.pod_failure_policy else { return ErrorList::new() };
    let path = path.child("podFailurePolicy").child("rules");
    let mut errors = ErrorList::new();
    if policy.rules.len() > MAX_RULES {
        errors.push(Error::too_many(&path, policy.rules.len(), MAX_RULES));
    }
    let containers = container_names(spec);
    for (i, rule) in policy.rules.iter().enumerate() {
        errors.extend(failure_rule(rule, spec, &containers, &path.index(i)));
    }
    errors
}

fn failure_rule(rule: &PodFailurePolicyRule, spec: &JobSpec, containers: &BTreeSet<&str>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let action_path = path.child("action");
    match rule.action.as_str() {
        "" => errors.push(Error::required(&action_path, valid_values(&ACTIONS))),
        "FailIndex" if spec.backoff_limit_per_index.is_none() => {
            errors.push(Error::invalid(&action_path, "FailIndex", "requires the backoffLimitPerIndex to be set"));
        }
        action if ACTIONS.contains(&action) => {}
        action => errors.push(Error::not_supported(&action_path, action, &ACTIONS)),
    }
    if let Some(codes) = &rule.on_exit_codes {
        errors.extend(exit_codes(codes, containers, &path.child("onExitCodes")));
    }
    let conditions = rule.on_pod_conditions.as_deref().unwrap_or_default();
    errors.extend(pod_conditions(conditions, &path.child("onPodConditions")));
    match (rule.on_exit_codes.is_some(), !conditions.is_empty()) {
        (true, true) => {
            errors.push(without_value(path, "specifying both OnExitCodes and OnPodConditions is not supported"));
        }
        (false, false) => {
            errors.push(without_value(path, "specifying one of OnExitCodes and OnPodConditions is required"));
        }
        _ => {}
    }
    errors
}

fn exit_codes(codes: &PodFailurePolicyOnExitCodesRequirement, containers: &BTreeSet<&str>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let operators = ["In", "NotIn"];
    match codes.operator.as_str() {
        "" => errors.push(Error::required(&path.child("operator"), valid_values(&operators))),
        operator if operators.contains(&operator) => {}
        operator => errors.push(Error::not_supported(&path.child("operator"), operator, &operators)),
    }
    if let Some(name) = &codes.container_name
        && !containers.contains(name.as_str())
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(Error::invalid(&path.child("containerName"), name.as_str(), detail));
    }
    let path = path.child("values");
    if codes.values.is_empty() {
        errors.push(Error::invalid(&path, to_json(&codes.values), "at least one value is required"));
    } else if codes.values.len() > MAX_EXIT_CODES {
        errors.push(Error::too_many(&path, codes.values.len(), MAX_EXIT_CODES));
    }
    let mut seen = BTreeSet::new();
    for (i, value) in codes.values.iter().enumerate() {
        if codes.operator == "In" && *value == 0 {
            errors.push(Error::invalid(&path.index(i), 0, "must not be 0 for the In operator"));
        }
        if !seen.insert(value) {
            errors.push(Error::duplicate(&path.index(i), *value));
        }
    }
    if !codes.values.is_sorted() {
        errors.push(Error::invalid(&path, to_json(&codes.values), "must be ordered"));
    }
    errors
}

fn container_names(spec: &JobSpec) -> BTreeSet<&str> {
    let pod = spec.template.spec.iter();
    pod.flat_map(|pod| pod.containers.iter().chain(pod.init_containers.iter().flatten()))
        .map(|container| container.name.as_str())
        .collect()
}

fn pod_conditions(patterns: &[PodFailurePolicyOnPodConditionsPattern], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if patterns.len() > MAX_RULES {
        errors.push(Error::too_many(path, patterns.len(), MAX_RULES));
    }
    for (i, pattern) in patterns.iter().enumerate() {
        let path = path.index(i);
        let problems = names::qualified_name(&pattern.type_).into_iter();
        errors.extend(problems.map(|what| Error::invalid(&path.child("type"), pattern.type_.as_str(), what)));
        let statuses = ["False", "True", "Unknown"];
        match pattern.status.as_deref().unwrap_or_default() {
            "" => errors.push(Error::required(&path.child("status"), valid_values(&statuses))),
            status if statuses.contains(&status) => {}
            status => errors.push(Error::not_supported(&path.child("status"), status, &statuses)),
        }
    }
    errors
}

pub(super) fn success(spec: &JobSpec, path: &Path) -> ErrorList {
    let Some(policy) = &spec.success_policy else { return ErrorList::new() };
    let path = path.child("successPolicy");
    if spec.completion_mode.as_deref() != Some("Indexed") {
        return vec![Error::invalid(&path, to_json(policy), "requires indexed completion mode")];
    }
    let path = path.child("rules");
    let mut errors = ErrorList::new();
    if policy.rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(Error::required(&path, detail));
    }
    if policy.rules.len() > MAX_RULES {
        errors.push(Error::too_many(&path, policy.rules.len(), MAX_RULES));
    }
    for (i, rule) in policy.rules.iter().enumerate() {
        errors.extend(success_rule(rule, spec.completions, &path.index(i)));
    }
    errors
}

fn success_rule(rule: &SuccessPolicyRule, completions: Option<i32>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if rule.succeeded_count.is_none() && rule.succeeded_indexes.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(Error::required(path, detail));
    }
    let mut listed = None;
    if let Some(text) = &rule.succeeded_indexes {
        let path = path.child("succeededIndexes");
        if text.len() > MAX_INDEXES_BYTES {
            errors.push(Error::too_long(&path, MAX_INDEXES_BYTES));
        }
        match indexes::parse(text, completions.unwrap_or(i32::MAX)) {
            Ok(runs) => listed = Some(indexes::count(&runs)),
            Err(problem) => {
                // A list that cannot be parsed counts as empty.
                listed = Some(0);
                let detail = format!("error parsing succeededIndexes: {problem}");
                errors.push(Error::invalid(&path, text.as_str(), detail));
            }
        }
    }
    if let Some(count) = rule.succeeded_count {
        let path = path.child("succeededCount");
        errors.extend(at_least(&path, count, 0));
        if let Some(completions) = completions.filter(|completions| count > *completions) {
            let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.push(Error::invalid(&path, count, detail));
        }
        if let Some(listed) = listed.filter(|listed| count > *listed) {
            let detail = format!(
                "must be less than or equal to {listed} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.push(Error::invalid(&path, count, detail));
        }
    }
    errors
}

fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

/// An error without a value, which would be too large to print.
fn without_value(path: &Path, detail: &str) -> Error {
    Error { kind: ErrorKind::Invalid, path: path.clone(), value: None, detail: detail.to_owned() }
}
