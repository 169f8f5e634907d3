//! Creation and update of a pod.

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};
use serde_json::Value;

use super::pod_spec::{SpecParent, validate_pod_spec};
use super::{out_of_range_message, volumes};
use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{self, to_json};

/// The mutable fields of a pod's spec, in the words of the error about all others.
const MUTABLE_FIELDS: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
     set to 1 if it was previously negative)";

/// Validates a new pod.
pub fn validate_create(pod: &Pod, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta(&pod.metadata, true, &Path::new("metadata"));
    let path = Path::new("spec");
    let spec = spec_of(pod);
    errors.extend(validate_pod_spec(&spec, SpecParent::Pod, &path));
    errors.extend(volumes::validate_tokens(&spec, &path.child("volumes")));
    if has_any(&spec.ephemeral_containers) {
        errors.push(Error::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if has_any(&spec.scheduling_gates) && spec.node_name.as_ref().is_some_and(|name| !name.is_empty()) {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(Error::forbidden(&path.child("nodeName"), detail));
    }
    errors
}

/// Validates an update of a pod. A bind is not an update.
pub fn validate_update(new: &Pod, old: &Pod, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    // The name was validated at creation. The prefix may be set later.
    errors.extend(metadata::prefix_problems(&new.metadata, &Path::new("metadata")));
    let path = Path::new("spec");
    let (new, old) = (spec_of(new), spec_of(old));
    errors.extend(validate_pod_spec(&new, SpecParent::Pod, &path));
    errors.extend(volumes::validate_tokens(&new, &path.child("volumes")));
    let init = |spec: &PodSpec| spec.init_containers.as_ref().map_or(0, Vec::len);
    for (field, same) in
        [("containers", new.containers.len() == old.containers.len()), ("initContainers", init(&new) == init(&old))]
    {
        if !same {
            // The remaining checks compare containers one by one.
            errors.push(Error::forbidden(&path.child(field), "pod updates may not add or remove containers"));
            return errors;
        }
    }
    validate_deadline_change(&new, &old, &path.child("activeDeadlineSeconds"), &mut errors);
    validate_toleration_change(&new, &old, &path.child("tolerations"), &mut errors);
    validate_gate_change(&new, &old, &path.child("schedulingGates"), &mut errors);
    if is_gated(&old) {
        validate_node_selector_change(&new, &old, &path.child("nodeSelector"), &mut errors);
        errors.extend(node_terms_change_problems(&new, &old, &path.child("affinity").child("nodeAffinity")));
    }
    validate_other_fields_unchanged(&new, &old, &path, &mut errors);
    errors
}

pub(super) fn spec_of(pod: &Pod) -> Cow<'_, PodSpec> {
    match &pod.spec {
        Some(spec) => Cow::Borrowed(spec),
        None => Cow::Owned(PodSpec::default()),
    }
}

fn has_any<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

fn is_gated(spec: &PodSpec) -> bool {
    has_any(&spec.scheduling_gates)
}

/// A deadline can be set once and then only be reduced.
fn validate_deadline_change(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    match (new.active_deadline_seconds, old.active_deadline_seconds) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.push(Error::invalid(path, new, out_of_range_message(0, i64::from(i32::MAX))));
        }
        (Some(new), Some(old)) if new > old => {
            errors.push(Error::invalid(path, new, "must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(Error::invalid(path, Value::Null, detail));
        }
        _ => {}
    }
}

/// Tolerations can be added. Of existing ones only the seconds can change.
fn validate_toleration_change(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let but_seconds = |toleration: &Toleration| -> [Option<String>; 4] {
        let Toleration { effect, key, operator, toleration_seconds: _, value } = toleration;
        [effect, key, operator, value].map(Option::clone)
    };
    let new: BTreeSet<_> = new.tolerations.iter().flatten().map(but_seconds).collect();
    if !old.tolerations.iter().flatten().all(|old| new.contains(&but_seconds(old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(Error::forbidden(path, detail));
    }
}

/// Gates can be removed, not added.
fn validate_gate_change(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let old: BTreeSet<&str> = old.scheduling_gates.iter().flatten().map(|gate| gate.name.as_str()).collect();
    for (index, gate) in new.scheduling_gates.iter().flatten().enumerate() {
        if !old.contains(gate.name.as_str()) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name);
            errors.push(Error::forbidden(&path.index(index).child("name"), detail));
        }
    }
}

/// While a pod is gated, its node selector can be narrowed.
fn validate_node_selector_change(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let now = new.node_selector.clone().unwrap_or_default();
    if old.node_selector.iter().flatten().any(|(key, value)| now.get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(Error::invalid(path, to_json(&new.node_selector), detail));
    }
}

/// Each required node term of a gated pod can get more requirements at its end. Terms can be added only if there were
/// none, and none can be removed.
fn node_terms_change_problems(new: &PodSpec, old: &PodSpec, path: &Path) -> ErrorList {
    let path = path.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
    let (new, old) = (required_node_terms(new), required_node_terms(old));
    let Some(were) = old.filter(|terms| !terms.is_empty()) else { return ErrorList::new() };
    let terms = new.unwrap_or_default();
    if terms.len() != were.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return vec![Error::invalid(&path, to_json(&new), detail)];
    }
    let only_adds = |(new, old): (&NodeSelectorTerm, &NodeSelectorTerm)| {
        let begins = |new: &Option<Vec<NodeSelectorRequirement>>, old: &Option<Vec<NodeSelectorRequirement>>| {
            new.as_deref().unwrap_or_default().starts_with(old.as_deref().unwrap_or_default())
        };
        begins(&new.match_expressions, &old.match_expressions) && begins(&new.match_fields, &old.match_fields)
    };
    let changed = terms.iter().zip(were).enumerate().filter(|(_, pair)| !only_adds(*pair));
    let detail = "only additions are allowed (no mutations or deletions)";
    changed.map(|(index, (term, _))| Error::invalid(&path.index(index), to_json(term), detail)).collect()
}

fn required_node_terms(spec: &PodSpec) -> Option<&[NodeSelectorTerm]> {
    let nodes = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    Some(&nodes.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms)
}

/// The new affinity with the old node affinity. An affinity that is then empty is unset.
fn with_node_affinity_of(old: &PodSpec, new: &PodSpec) -> Option<Affinity> {
    let node_affinity = old.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone());
    let had_one = new.affinity.as_ref().is_none_or(|affinity| affinity.node_affinity.is_some());
    let restored = Affinity { node_affinity, ..new.affinity.clone().unwrap_or_default() };
    if old.affinity.is_none() && had_one && restored == Affinity::default() { None } else { Some(restored) }
}

/// Reverts the allowed changes and checks that nothing else differs.
fn validate_other_fields_unchanged(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let mut rest = new.clone();
    copy_images(&mut rest.containers, &old.containers);
    if let (Some(new), Some(old)) = (&mut rest.init_containers, &old.init_containers) {
        copy_images(new, old);
    }
    rest.active_deadline_seconds = old.active_deadline_seconds;
    rest.tolerations.clone_from(&old.tolerations);
    rest.scheduling_gates.clone_from(&old.scheduling_gates);
    if is_gated(old) {
        rest.node_selector.clone_from(&old.node_selector);
        rest.affinity = with_node_affinity_of(old, new);
    }
    if old.termination_grace_period_seconds.is_some_and(i64::is_negative)
        && new.termination_grace_period_seconds == Some(1)
    {
        rest.termination_grace_period_seconds = old.termination_grace_period_seconds;
    }
    if rest != *old {
        // Upstream: a diff of the two specs in Go's notation follows. Ours names the fields.
        let detail =
            format!("pod updates may not change fields other than {MUTABLE_FIELDS}\nchanged: {}", changed(&rest, old));
        errors.push(Error::forbidden(path, detail));
    }
}

fn copy_images(new: &mut [Container], old: &[Container]) {
    for (new, old) in new.iter_mut().zip(old) {
        new.image.clone_from(&old.image);
    }
}

/// The top-level fields of the spec that differ.
fn changed(new: &PodSpec, old: &PodSpec) -> String {
    let (new, old) = (to_json(new), to_json(old));
    let keys = |value: &Value| value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
    let mut names: Vec<String> = keys(&new);
    let old_names: Vec<String> = keys(&old);
    names.extend(old_names);
    names.sort_unstable();
    names.dedup();
    names.retain(|name| new.get(name) != old.get(name));
    names.iter().map(|name| format!("spec.{name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::validate_update;
    use crate::core::defaults::set_pod_defaults;
    use crate::gates::Gates;

    fn pod(spec: Value, status: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": status});
        pod["spec"]["containers"] = json!([{"name": "main", "image": "x"}]);
        set_pod_defaults(&mut pod, &Gates::default());
        serde_json::from_value(pod).expect("a pod")
    }

    fn required_node_affinity(expressions: Value) -> Value {
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    }

    #[test]
    fn node_affinity_of_a_gated_pod_can_only_be_narrowed() {
        let (zone, disk) = (json!({"key": "zone", "operator": "Exists"}), json!({"key": "disk", "operator": "Exists"}));
        let one = required_node_affinity(json!([zone]));
        let mut preferring = one.clone();
        preferring["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"weight": 1, "preference": {"matchExpressions": [disk]}}]);
        let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        let (changed, removed) = (vec![format!("{terms}[0]")], vec![terms.to_owned()]);
        for (case, old, new, want) in [
            ("one more", one.clone(), required_node_affinity(json!([zone, disk])), vec![]),
            ("one more in front", one.clone(), required_node_affinity(json!([disk, zone])), changed.clone()),
            ("another", one.clone(), required_node_affinity(json!([disk])), changed),
            ("none", one.clone(), Value::Null, removed),
            ("a preference", one.clone(), preferring, vec![]),
            ("the first", Value::Null, one, vec![]),
            ("empty affinity", Value::Null, json!({}), vec!["spec".to_owned()]),
        ] {
            let gated =
                |affinity: Value| pod(json!({"schedulingGates": [{"name": "a/b"}], "affinity": affinity}), json!({}));
            let errors = validate_update(&gated(new), &gated(old), &Gates::default());
            let paths: Vec<String> = errors.iter().map(|error| error.path.to_string()).collect();
            assert_eq!(paths, want, "{case}");
        }
    }
}
