//! Validation of nodes: taints, amounts, and fields that are immutable once set.

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use serde_json::Value;

use super::placement::{effect_problem, one_label_value, repeated};
use super::resources;
use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{self, names, non_empty, to_json, violations};

/// Validates a new node.
pub fn validate_create(node: &Node, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta(&node.metadata, false, &Path::new("metadata"));
    errors.extend(taints_problems(node));
    errors.extend(amounts_problems(node));
    errors
}

/// Validates a change of a node or of its status.
pub fn validate_update(new: &Node, old: &Node, _gates: &Gates) -> ErrorList {
    let none = NodeSpec::default();
    let [new_spec, old_spec] = [new, old].map(|node| node.spec.as_ref().unwrap_or(&none));
    let path = Path::new("spec");
    let mut errors = metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(amounts_problems(new));
    errors.extend(pod_cidrs_problem(new_spec, old_spec, &path.child("podCIDRs")));
    errors.extend(provider_problem(new_spec, old_spec, &path.child("providerID")));
    // Taints are validated only when they change, so that a node stored with invalid ones can still update its status.
    if new_spec.taints != old_spec.taints {
        errors.extend(taints_problems(new));
    }
    errors
}

/// Validates a write to a node's status.
pub fn validate_status_update(new: &Node, old: &Node, gates: &Gates) -> ErrorList {
    validate_update(new, old, gates)
}

/// The pod CIDRs are immutable once set.
fn pod_cidrs_problem(new: &NodeSpec, old: &NodeSpec, path: &Path) -> Option<Error> {
    let were_set = old.pod_cidrs.iter().flatten().next().is_some();
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    (were_set && new.pod_cidrs != old.pod_cidrs).then(|| Error::forbidden(path, detail))
}

/// The provider id is immutable once set.
fn provider_problem(new: &NodeSpec, old: &NodeSpec, path: &Path) -> Option<Error> {
    let (before, after) = (non_empty(&old.provider_id)?, non_empty(&new.provider_id));
    let change = if after.is_some() { "modified" } else { "cleared" };
    // The API prints no value here.
    (after != Some(before)).then(|| Error::invalid(path, Value::Null, format!("field cannot be {change} once set")))
}

/// Taints are unique by key and effect.
fn taints_problems(node: &Node) -> ErrorList {
    let path = Path::new("spec").child("taints");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let repeats = repeated(taints.iter().map(|taint| (&taint.effect, &taint.key)));
    let problems = |(index, (taint, repeats)): (usize, (&Taint, bool))| {
        let at = path.index(index);
        taint_problems(taint, &at).into_iter().chain(repeats.then(|| {
            let detail = "taints must be unique by key and effect pair".to_owned();
            Error { detail, ..Error::duplicate(&at, to_json(taint)) }
        }))
    };
    taints.iter().zip(repeats).enumerate().flat_map(problems).collect()
}

fn taint_problems(taint: &Taint, path: &Path) -> ErrorList {
    let value = taint.value.as_deref().unwrap_or("");
    let effect_path = path.child("effect");
    let effect = match taint.effect.as_str() {
        "" => Some(Error::required(&effect_path, "")),
        effect => effect_problem(effect, &effect_path),
    };
    let mut errors = violations(names::qualified_name, &taint.key, &path.child("key"));
    errors.extend(violations(one_label_value, value, &path.child("value")));
    errors.extend(effect);
    errors
}

fn amounts_problems(node: &Node) -> impl Iterator<Item = Error> {
    let lists =
        node.status.iter().flat_map(|status| [("capacity", &status.capacity), ("allocatable", &status.allocatable)]);
    lists.flat_map(|(field, amounts)| {
        let path = Path::new("status").child(field);
        let amounts = amounts.iter().flatten();
        amounts.flat_map(move |(name, amount)| resources::amount_problems(name, amount, &path.child(name)))
    })
}
