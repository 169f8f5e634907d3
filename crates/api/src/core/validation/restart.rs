//! Restarts of a container: its own policy, the rules for its exit code, and a resize.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use crate::field::{Error, ErrorList, Path};

const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const RESIZABLE_RESOURCES: [&str; 2] = ["cpu", "memory"];
const RESIZE_POLICIES: [&str; 2] = ["NotRequired", "RestartContainer"];

/// Validates the resize policy of a container.
pub fn validate_resize(container: &Container, pod_policy: &str, path: &Path) -> ErrorList {
    let path = path.child("resizePolicy");
    let mut used = BTreeSet::new();
    let mut errors = ErrorList::new();
    for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
        let (resource, restart) = (policy.resource_name.as_str(), policy.restart_policy.as_str());
        if !used.insert(resource) {
            errors.push(Error::duplicate(&path.index(index), resource));
        }
        for (value, supported) in [(resource, &RESIZABLE_RESOURCES), (restart, &RESIZE_POLICIES)] {
            if value.is_empty() {
                errors.push(Error::required(&path, ""));
            } else if !supported.contains(&value) {
                errors.push(Error::not_supported(&path, value, supported));
            }
        }
        if pod_policy == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(Error::invalid(&path, restart, detail));
        }
    }
    errors
}

/// Validates a container's own policy and rules. If an init container lacks the policy, only that is reported.
pub fn validate(container: &Container, is_init: bool, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    let policy_path = path.child("restartPolicy");
    match container.restart_policy.as_deref() {
        None if !rules.is_empty() => {
            errors.push(Error::required(&policy_path, "must specify restartPolicy when restart rules are used"));
            if is_init {
                return errors;
            }
        }
        Some(policy) if !POLICIES.contains(&policy) => {
            errors.push(Error::not_supported(&policy_path, policy, &POLICIES));
        }
        _ => {}
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > MAX_RULES {
        errors.push(Error::too_many(&path, rules.len(), MAX_RULES));
    }
    let rules = rules.iter().enumerate();
    errors.extend(rules.flat_map(|(index, rule)| rule_problems(rule, &path.index(index))));
    errors
}

fn rule_problems(rule: &ContainerRestartRule, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if !ACTIONS.contains(&&*rule.action) {
        errors.push(Error::not_supported(&path.child("action"), rule.action.as_str(), &ACTIONS));
    }
    let path = path.child("exitCodes");
    let Some(codes) = &rule.exit_codes else {
        errors.push(Error::required(&path, "must be specified"));
        return errors;
    };
    if !OPERATORS.contains(&&*codes.operator) {
        errors.push(Error::not_supported(&path.child("operator"), codes.operator.as_str(), &OPERATORS));
    }
    let count = codes.values.as_ref().map_or(0, Vec::len);
    if count > MAX_EXIT_CODES {
        errors.push(Error::too_many(&path.child("values"), count, MAX_EXIT_CODES));
    }
    errors
}
