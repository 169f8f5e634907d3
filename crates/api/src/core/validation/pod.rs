//! A pod when it is created, changed, and reported on.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Toleration};
use serde_json::Value;

use super::between;
use super::pod_spec::{SpecOf, validate_pod_spec};
use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{self, immutable, json_of, names, push_all};

/// What a user may change in the spec of a pod, as the refusal of everything else lists it.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
     set to 1 if it was previously negative)";

/// What is wrong with a pod to be created.
pub fn validate_create(pod: &Pod, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta(&pod.metadata, true, &Path::new("metadata"));
    let path = Path::new("spec");
    let spec = spec_of(pod);
    errors.extend(validate_pod_spec(&spec, SpecOf::Pod, &path));
    if has_any(&spec.ephemeral_containers) {
        errors.push(Error::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if has_any(&spec.scheduling_gates) && spec.node_name.as_ref().is_some_and(|name| !name.is_empty()) {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(Error::forbidden(&path.child("nodeName"), detail));
    }
    errors
}

/// What is wrong with a user's change of a pod. A bind is not such a change.
pub fn validate_update(new: &Pod, old: &Pod, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    let path = Path::new("spec");
    let (new, old) = (spec_of(new), spec_of(old));
    errors.extend(validate_pod_spec(&new, SpecOf::Pod, &path));
    let init = |spec: &PodSpec| spec.init_containers.as_ref().map_or(0, Vec::len);
    for (field, same) in
        [("containers", new.containers.len() == old.containers.len()), ("initContainers", init(&new) == init(&old))]
    {
        if !same {
            // Nothing more can be compared item by item.
            errors.push(Error::forbidden(&path.child(field), "pod updates may not add or remove containers"));
            return errors;
        }
    }
    validate_deadline_change(&new, &old, &path.child("activeDeadlineSeconds"), &mut errors);
    validate_toleration_change(&new, &old, &path.child("tolerations"), &mut errors);
    validate_gate_change(&new, &old, &path.child("schedulingGates"), &mut errors);
    if is_gated(&old) {
        validate_node_selector_change(&new, &old, &path.child("nodeSelector"), &mut errors);
    }
    validate_rest_is_unchanged(&new, &old, &path, &mut errors);
    errors
}

/// What is wrong with a report of a pod's status.
pub fn validate_status_update(new: &Pod, old: &Pod, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    let path = Path::new("status");
    let (new_spec, old_spec) = (spec_of(new), spec_of(old));
    if new_spec.node_name != old_spec.node_name {
        errors.push(Error::forbidden(&path.child("nodeName"), "may not be changed directly"));
    }
    let (new, old) = (new.status.clone().unwrap_or_default(), old.status.clone().unwrap_or_default());
    let nominated = new.nominated_node_name.as_deref().unwrap_or("");
    if new.nominated_node_name != old.nominated_node_name && !nominated.is_empty() {
        let path = path.child("nominatedNodeName");
        push_all(names::dns_subdomain(nominated), nominated, &path, &mut errors);
        if old_spec.node_name.as_ref().is_some_and(|node| !node.is_empty()) {
            errors.push(Error::forbidden(&path, "may not be set on pods that are already bound to a node"));
        }
    }
    errors.extend(immutable(&new.qos_class, &old.qos_class, &path.child("qosClass")));
    errors
}

fn spec_of(pod: &Pod) -> Cow<'_, PodSpec> {
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

/// A deadline may be set once and then only come nearer.
fn validate_deadline_change(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    match (new.active_deadline_seconds, old.active_deadline_seconds) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.push(Error::invalid(path, new, between(0, i64::from(i32::MAX))));
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

/// Tolerations may be added; those there may change only their seconds.
fn validate_toleration_change(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let new = new.tolerations.as_deref().unwrap_or_default();
    let kept = |old: &Toleration| {
        new.iter().any(|new| Toleration { toleration_seconds: old.toleration_seconds, ..new.clone() } == *old)
    };
    if !old.tolerations.iter().flatten().all(kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(Error::forbidden(path, detail));
    }
}

/// Gates may be lifted, never put up again.
fn validate_gate_change(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let old = old.scheduling_gates.as_deref().unwrap_or_default();
    for (index, gate) in new.scheduling_gates.iter().flatten().enumerate() {
        if !old.contains(gate) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name);
            errors.push(Error::forbidden(&path.index(index).child("name"), detail));
        }
    }
}

/// While a pod is gated, whoever gates it may narrow where it goes.
fn validate_node_selector_change(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let now = new.node_selector.clone().unwrap_or_default();
    if old.node_selector.iter().flatten().any(|(key, value)| now.get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(Error::invalid(path, json_of(&now), detail));
    }
}

/// Takes the allowed changes back and asks whether anything else differs.
fn validate_rest_is_unchanged(new: &PodSpec, old: &PodSpec, path: &Path, errors: &mut ErrorList) {
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
    }
    if old.termination_grace_period_seconds.is_some_and(i64::is_negative)
        && new.termination_grace_period_seconds == Some(1)
    {
        rest.termination_grace_period_seconds = old.termination_grace_period_seconds;
    }
    if rest != *old {
        // Upstream: a diff of the two specs in Go's notation follows. Ours names the fields.
        let detail =
            format!("pod updates may not change fields other than {CHANGEABLE}\nchanged: {}", changed(&rest, old));
        errors.push(Error::forbidden(path, detail));
    }
}

fn copy_images(new: &mut [Container], old: &[Container]) {
    for (new, old) in new.iter_mut().zip(old) {
        new.image.clone_from(&old.image);
    }
}

/// The fields right below the spec that differ.
fn changed(new: &PodSpec, old: &PodSpec) -> String {
    let (new, old) = (json_of(new), json_of(old));
    let keys = |value: &Value| value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
    let mut names: Vec<String> = keys(&new);
    let old_names: Vec<String> = keys(&old);
    names.extend(old_names);
    names.sort_unstable();
    names.dedup();
    names.retain(|name| new.get(name) != old.get(name));
    names.iter().map(|name| format!("spec.{name}")).collect::<Vec<_>>().join(", ")
}
