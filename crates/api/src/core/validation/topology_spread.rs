//! Topology spread constraints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, TopologySpreadConstraint};

use super::placement::duplicate_label_keys_problems;
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, violations};
use crate::selector::validate_label_selector;

const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: [&str; 2] = ["Honor", "Ignore"];

/// Validates all constraints of a pod.
pub fn validate<'a>(spec: &'a PodSpec, path: &Path) -> ErrorList {
    let all = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    let pair = |of: &'a TopologySpreadConstraint| (of.topology_key.as_str(), of.when_unsatisfiable.as_str());
    let last: BTreeMap<_, usize> =
        all.iter().enumerate().map(|(index, constraint)| (pair(constraint), index)).collect();
    let each = all.iter().enumerate();
    // Of two equal ones the error is about the first.
    each.flat_map(|(index, constraint)| problems(constraint, last[&pair(constraint)] > index, &path.index(index)))
        .collect()
}

fn problems(constraint: &TopologySpreadConstraint, is_repeated: bool, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if constraint.max_skew <= 0 {
        errors.push(Error::invalid(&path.child("maxSkew"), constraint.max_skew, "must be greater than zero"));
    }
    let (key, action) = (constraint.topology_key.as_str(), constraint.when_unsatisfiable.as_str());
    if key.is_empty() {
        errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
    }
    if !ACTIONS.contains(&action) {
        errors.push(Error::not_supported(&path.child("whenUnsatisfiable"), action, &ACTIONS));
    }
    if is_repeated {
        let path = path.child("{topologyKey, whenUnsatisfiable}");
        errors.push(Error::duplicate(&path, format!("{{{key}, {action}}}")));
    }
    if let Some(domains) = constraint.min_domains {
        let path = path.child("minDomains");
        if domains <= 0 {
            errors.push(Error::invalid(&path, domains, "must be greater than zero"));
        }
        if action != "DoNotSchedule" {
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.push(Error::invalid(&path, domains, detail));
        }
    }
    for (name, policy) in
        [("nodeAffinityPolicy", &constraint.node_affinity_policy), ("nodeTaintsPolicy", &constraint.node_taints_policy)]
    {
        let unknown = policy.as_deref().filter(|policy| !POLICIES.contains(policy));
        errors.extend(unknown.map(|policy| Error::not_supported(&path.child(name), policy, &POLICIES)));
    }
    errors.extend(label_keys_problems(constraint, path));
    if let Some(selector) = &constraint.label_selector {
        errors.extend(validate_label_selector(selector, &path.child("labelSelector")));
    }
    errors
}

fn label_keys_problems(constraint: &TopologySpreadConstraint, path: &Path) -> ErrorList {
    let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
    let path_of = path.child("matchLabelKeys");
    if constraint.label_selector.is_none() {
        let detail = "must not be specified when labelSelector is not set";
        return (!keys.is_empty()).then(|| Error::forbidden(&path_of, detail)).into_iter().collect();
    }
    let each = keys.iter().enumerate();
    let misspelt = each.flat_map(|(index, key)| violations(names::qualified_name, key, &path_of.index(index)));
    misspelt.chain(duplicate_label_keys_problems(keys, &constraint.label_selector, path)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::validate;
    use crate::field::Path;

    #[test]
    fn repeated_key_of_a_selector_is_reported_at_its_last_index() {
        let exists = json!({"key": "a", "operator": "Exists"});
        let labels = json!({"matchLabels": {"a": "b"}, "matchExpressions": [exists]});
        for (selector, keys, want) in [
            (json!({"matchExpressions": [exists]}), json!(["a"]), vec![]),
            (json!({"matchExpressions": [exists, exists]}), json!(["a", "a"]), vec!["s[0][1]"]),
            (labels, json!(["a", "b"]), vec!["s[0][0]"]),
        ] {
            let constraint = json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector, "matchLabelKeys": keys});
            let spec = json!({"containers": [], "topologySpreadConstraints": [constraint]});
            let errors = validate(&serde_json::from_value(spec).expect("a spec"), &Path::new("s"));
            assert_eq!(errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), want);
        }
    }
}
