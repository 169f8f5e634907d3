//! Scheduling fields of a pod: tolerations, affinity, gates, its group.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodSpec, Toleration,
    WeightedPodAffinityTerm,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use crate::metadata::names::{self, NameRule};
use crate::metadata::{non_empty, violations};
use crate::selector::validate_label_selector;

const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// For each operator of a toleration, the rule for its value, and the field of the error.
const TOLERATION_OPERATORS: [(&str, NameRule, &str); 5] = [
    ("", one_label_value, "operator"),
    ("Equal", one_label_value, "operator"),
    ("Exists", no_value, "operator"),
    ("Lt", canonical_integer, "value"),
    ("Gt", canonical_integer, "value"),
];

/// Rules for the requirements of a node selector.
struct RequirementRules {
    operators: &'static [OperatorRule],
    key: NameRule,
    /// The rule for the values of a key. An unknown key has none.
    value: fn(&str) -> Option<NameRule>,
}

/// Two operators, how many values they take, and the error for a different number of values.
type OperatorRule = ([&'static str; 2], fn(usize) -> bool, fn(&Path, &'static str) -> Error, &'static str);

/// Rules for labels of a node.
const NODE_LABEL_RULES: RequirementRules = RequirementRules {
    operators: &[
        (["In", "NotIn"], |count| count > 0, Error::required, "must be specified when `operator` is 'In' or 'NotIn'"),
        (
            ["Exists", "DoesNotExist"],
            |count| count == 0,
            Error::forbidden,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            ["Gt", "Lt"],
            |count| count == 1,
            Error::required,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
    ],
    key: names::qualified_name,
    value: |_| Some(names::label_value),
};

/// Rules for fields of a node. Only the name is supported, one name at a time.
const NODE_FIELD_RULES: RequirementRules = RequirementRules {
    operators: &[(
        ["In", "NotIn"],
        |count| count == 1,
        Error::required,
        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
    )],
    key: |key| if key == NODE_NAME { Vec::new() } else { vec!["not a valid field selector key".to_owned()] },
    value: |key| (key == NODE_NAME).then_some(names::dns_subdomain),
};

const NODE_NAME: &str = "metadata.name";

/// Validates tolerations.
pub fn validate_tolerations(spec: &PodSpec, path: &Path, errors: &mut ErrorList) {
    errors.extend(item_problems(&spec.tolerations, path, toleration_problems));
}

/// Validates node affinity, and inter-pod affinity and anti-affinity.
pub fn validate_affinity(affinity: &Affinity, path: &Path, errors: &mut ErrorList) {
    if let Some(nodes) = &affinity.node_affinity {
        errors.extend(node_affinity_problems(nodes, &path.child("nodeAffinity")));
    }
    if let Some(pods) = &affinity.pod_affinity {
        let required = &pods.required_during_scheduling_ignored_during_execution;
        let preferred = &pods.preferred_during_scheduling_ignored_during_execution;
        errors.extend(pod_terms_problems(required, preferred, &path.child("podAffinity")));
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let required = &pods.required_during_scheduling_ignored_during_execution;
        let preferred = &pods.preferred_during_scheduling_ignored_during_execution;
        errors.extend(pod_terms_problems(required, preferred, &path.child("podAntiAffinity")));
    }
}

/// Validates readiness gates.
pub fn validate_readiness_gates(spec: &PodSpec, path: &Path, errors: &mut ErrorList) {
    errors.extend(item_problems(&spec.readiness_gates, path, |gate, path| {
        violations(names::qualified_name, &gate.condition_type, &path.child("conditionType"))
    }));
}

/// Validates scheduling gates.
pub fn validate_scheduling_gates(spec: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let gates = || spec.scheduling_gates.iter().flatten().map(|gate| gate.name.as_str());
    errors.extend(gates().zip(repeated(gates())).enumerate().flat_map(|(index, (name, repeats))| {
        let path = path.index(index);
        let duplicate = repeats.then(|| Error::duplicate(&path, name));
        violations(names::qualified_name, name, &path).into_iter().chain(duplicate)
    }));
}

/// Validates the scheduling group. It need not exist: it may be created later (KEP-4671).
pub fn validate_scheduling_group(spec: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let Some(group) = &spec.scheduling_group else { return };
    let name_path = path.child("podGroupName");
    errors.extend(match &group.pod_group_name {
        Some(name) => violations(names::dns_subdomain, name, &name_path),
        None => vec![Error::invalid(&name_path, Value::Null, "must specify one of: `podGroupName`")],
    });
    let has_responders = spec.eviction_responders.iter().flatten().next().is_some();
    errors.extend(has_responders.then(|| Error::forbidden(path, "may not be set when evictionResponders is set")));
}

/// Validates the effect of a taint or toleration.
pub(super) fn effect_problem(effect: &str, path: &Path) -> Option<Error> {
    (!TAINT_EFFECTS.contains(&effect)).then(|| Error::not_supported(path, effect, &TAINT_EFFECTS))
}

/// The rule for label values, with all problems in one message.
pub(super) fn one_label_value(value: &str) -> Vec<String> {
    names::label_value(value).into_iter().reduce(|all, next| format!("{all};{next}")).into_iter().collect()
}

/// For each key, whether it occurred before.
pub(super) fn repeated<K: Ord>(keys: impl Iterator<Item = K>) -> impl Iterator<Item = bool> {
    let mut seen = BTreeSet::new();
    keys.map(move |key| !seen.insert(key))
}

/// The problems of each item of a list, with the item's path.
fn item_problems<'a, T: 'a>(
    list: impl IntoIterator<Item = &'a Vec<T>>,
    path: &Path,
    problems: impl Fn(&T, &Path) -> ErrorList,
) -> ErrorList {
    list.into_iter().flatten().enumerate().flat_map(|(index, item)| problems(item, &path.index(index))).collect()
}

fn toleration_problems(toleration: &Toleration, path: &Path) -> ErrorList {
    let effect = non_empty(&toleration.effect).and_then(|effect| effect_problem(effect, &path.child("effect")));
    key_problems(toleration, path)
        .into_iter()
        .chain(seconds_problem(toleration, &path.child("effect")))
        .chain(operator_and_value_problems(toleration, path))
        .chain(effect)
        .collect()
}

/// Only a toleration of everything has no key.
fn key_problems(toleration: &Toleration, path: &Path) -> ErrorList {
    match (non_empty(&toleration.key), non_empty(&toleration.operator)) {
        (Some(key), _) => violations(names::qualified_name, key, &path.child("key")),
        (None, Some("Exists")) => ErrorList::new(),
        (None, operator) => {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            vec![Error::invalid(&path.child("operator"), operator.unwrap_or(""), detail)]
        }
    }
}

/// `tolerationSeconds` is allowed only with the effect `NoExecute`.
fn seconds_problem(toleration: &Toleration, path: &Path) -> Option<Error> {
    let effect = non_empty(&toleration.effect).unwrap_or("");
    let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
    let evicts = effect == "NoExecute";
    (toleration.toleration_seconds.is_some() && !evicts).then(|| Error::invalid(path, effect, detail))
}

fn operator_and_value_problems(toleration: &Toleration, path: &Path) -> ErrorList {
    let operator = non_empty(&toleration.operator).unwrap_or("");
    let value = non_empty(&toleration.value).unwrap_or("");
    match TOLERATION_OPERATORS.iter().find(|(name, ..)| *name == operator) {
        Some((_, rule, blamed)) => violations(rule, value, &path.child(blamed)),
        None => vec![Error::not_supported(&path.child("operator"), operator, &["Equal", "Exists"])],
    }
}

fn no_value(value: &str) -> Vec<String> {
    let detail = "value must be empty when `operator` is 'Exists'";
    if value.is_empty() { Vec::new() } else { vec![detail.to_owned()] }
}

/// An integer in canonical format: no plus sign, no leading zeros.
fn canonical_integer(value: &str) -> Vec<String> {
    let is_canonical = value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
    if is_canonical { Vec::new() } else { vec!["must be a valid decimal integer in canonical form".to_owned()] }
}

fn node_affinity_problems(affinity: &NodeAffinity, path: &Path) -> ErrorList {
    let selector = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    let required = selector.map(|selector| {
        let path = path.child(REQUIRED).child("nodeSelectorTerms");
        let terms = &selector.node_selector_terms;
        let none = terms.is_empty().then(|| Error::required(&path, "must have at least one node selector term"));
        none.into_iter().chain(item_problems([terms], &path, node_term_problems)).collect::<ErrorList>()
    });
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    let mut errors = required.unwrap_or_default();
    errors.extend(item_problems(preferred, &path.child(PREFERRED), |preferred, path| {
        preference_problems(
            preferred.weight,
            path,
            node_term_problems(&preferred.preference, &path.child("preference")),
        )
    }));
    errors
}

fn pod_terms_problems(
    required: &Option<Vec<PodAffinityTerm>>,
    preferred: &Option<Vec<WeightedPodAffinityTerm>>,
    path: &Path,
) -> ErrorList {
    let mut errors = item_problems(required, &path.child(REQUIRED), pod_term_problems);
    errors.extend(item_problems(preferred, &path.child(PREFERRED), |preferred, path| {
        let term = pod_term_problems(&preferred.pod_affinity_term, &path.child("podAffinityTerm"));
        preference_problems(preferred.weight, path, term)
    }));
    errors
}

/// The problems of a preference: of its weight, then of its term.
fn preference_problems(weight: i32, path: &Path, term: ErrorList) -> ErrorList {
    let in_range = (1..=100).contains(&weight);
    let problem = (!in_range).then(|| Error::invalid(&path.child("weight"), weight, "must be in the range 1-100"));
    problem.into_iter().chain(term).collect()
}

fn pod_term_problems(term: &PodAffinityTerm, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (name, selector) in [("labelSelector", &term.label_selector), ("namespaceSelector", &term.namespace_selector)] {
        errors.extend(selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child(name))));
    }
    // The errors have the path of the list, not of the item.
    let namespaces = term.namespaces.iter().flatten();
    errors.extend(namespaces.flat_map(|name| violations(names::dns_label, name, &path.child("namespace"))));
    errors.extend(label_keys_problems(term, path));
    let path = path.child("topologyKey");
    if term.topology_key.is_empty() {
        errors.push(Error::required(&path, "can not be empty"));
    }
    errors.extend(violations(names::qualified_name, &term.topology_key, &path));
    errors
}

/// Keys that the selector has twice. The value of a new pod has been merged into it, so each key may occur there once.
/// The error has the path of the term, not of the list, and the index of the key's last occurrence.
pub(super) fn duplicate_label_keys_problems(
    keys: &[String],
    selector: &Option<LabelSelector>,
    path: &Path,
) -> ErrorList {
    let Some(selector) = selector else { return ErrorList::new() };
    let labels = selector.match_labels.iter().flatten().map(|(label, _)| label);
    let mut times: BTreeMap<&String, usize> = BTreeMap::new();
    for key in labels.chain(selector.match_expressions.iter().flatten().map(|requirement| &requirement.key)) {
        *times.entry(key).or_default() += 1;
    }
    let last: BTreeMap<&String, usize> = keys.iter().enumerate().map(|(index, key)| (key, index)).collect();
    let detail = "exists in both matchLabelKeys and labelSelector";
    keys.iter()
        .enumerate()
        .filter(|(index, key)| last[key] == *index && times.get(key).is_some_and(|times| *times > 1))
        .map(|(index, key)| Error::invalid(&path.index(index), key.as_str(), detail))
        .collect()
}

fn label_keys_problems(term: &PodAffinityTerm, path: &Path) -> ErrorList {
    let lists = [("matchLabelKeys", &term.match_label_keys), ("mismatchLabelKeys", &term.mismatch_label_keys)];
    let mut errors = ErrorList::new();
    for (name, keys) in lists {
        let path = path.child(name);
        if term.label_selector.is_none() && keys.iter().flatten().next().is_some() {
            errors.push(Error::forbidden(&path, "must not be specified when labelSelector is not set"));
            continue;
        }
        errors.extend(item_problems(keys, &path, |key, path| violations(names::qualified_name, key, path)));
    }
    let keys = term.match_label_keys.as_deref().unwrap_or_default();
    errors.extend(duplicate_label_keys_problems(keys, &term.label_selector, path));
    let mismatch_keys: BTreeSet<&String> = term.mismatch_label_keys.iter().flatten().collect();
    errors.extend(item_problems(&term.match_label_keys, &path.child("matchLabelKeys"), |key, path| {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        let in_both = mismatch_keys.contains(key).then(|| Error::invalid(path, key.as_str(), detail));
        in_both.into_iter().collect()
    }));
    errors
}

fn node_term_problems(term: &NodeSelectorTerm, path: &Path) -> ErrorList {
    [
        ("matchExpressions", &term.match_expressions, NODE_LABEL_RULES),
        ("matchFields", &term.match_fields, NODE_FIELD_RULES),
    ]
    .into_iter()
    .flat_map(|(field, requirements, vocabulary)| {
        item_problems(requirements, &path.child(field), |requirement, path| {
            requirement_problems(requirement, &vocabulary, path)
        })
    })
    .collect()
}

fn requirement_problems(
    requirement: &NodeSelectorRequirement,
    vocabulary: &RequirementRules,
    path: &Path,
) -> ErrorList {
    let key = violations(vocabulary.key, &requirement.key, &path.child("key"));
    let values = (vocabulary.value)(&requirement.key).map(|rule| {
        item_problems(&requirement.values, &path.child("values"), |value, path| violations(rule, value, path))
    });
    operator_problem(requirement, vocabulary.operators, path)
        .into_iter()
        .chain(key)
        .chain(values.into_iter().flatten())
        .collect()
}

fn operator_problem(requirement: &NodeSelectorRequirement, operators: &[OperatorRule], path: &Path) -> Option<Error> {
    let operator = requirement.operator.as_str();
    let Some((_, takes, error, detail)) = operators.iter().find(|(names, ..)| names.contains(&operator)) else {
        return Some(Error::invalid(&path.child("operator"), operator, "not a valid selector operator"));
    };
    let values_count = requirement.values.iter().flatten().count();
    (!takes(values_count)).then(|| error(&path.child("values"), detail))
}
