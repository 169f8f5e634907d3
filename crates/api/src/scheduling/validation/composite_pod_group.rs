//! CompositePodGroups and their status. They exist in `v1alpha3` only.

use k8s_openapi::api::scheduling::v1alpha3::{CompositePodGroup, CompositePodGroupSpec};
use serde_json::Value;
use workloadbuilder::{format, rules};

use super::conditions;
use super::group::{self, GroupFields};
use super::pod_group::workload_ref;
use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{validate_object_meta, validate_object_meta_update};

/// Whether a document has a `workloadRef`. The typed form has an empty reference for none.
pub fn has_workload_ref(document: &Value) -> bool {
    document.pointer("/spec/workloadRef").is_some_and(Value::is_object)
}

/// Validates a new CompositePodGroup. `has_workload_ref` is the result of [`has_workload_ref`].
pub fn validate_create(group: &CompositePodGroup, has_workload_ref: bool, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta(&group.metadata, true, &Path::new("metadata"));
    errors.extend(validate_declarative(&group.spec, has_workload_ref, None, gates));
    errors
}

/// Validates a change of a CompositePodGroup. Its spec is immutable.
pub fn validate_update(
    new: &CompositePodGroup,
    has_workload_ref: bool,
    old: &CompositePodGroup,
    gates: &Gates,
) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(validate_declarative(&new.spec, has_workload_ref, Some(&old.spec), gates));
    errors
}

/// Validates a write to a CompositePodGroup's status.
pub fn validate_status_update(new: &CompositePodGroup, old: &CompositePodGroup, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    let conditions = new.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    errors.extend(conditions::validate(&Path::new("status").child("conditions"), conditions));
    errors.extend(validate_declarative(&new.spec, true, Some(&old.spec), gates));
    errors
}

fn validate_declarative(
    new: &CompositePodGroupSpec,
    has_workload_ref: bool,
    old: Option<&CompositePodGroupSpec>,
    gates: &Gates,
) -> ErrorList {
    let path = Path::new("spec");
    let (parent_path, reference_path) = (path.child("parentCompositePodGroupName"), path.child("workloadRef"));
    let mut errors = ErrorList::new();
    match old {
        None => {
            let parent = new.parent_composite_pod_group_name.iter();
            errors.extend(parent.flat_map(|name| rules::validate_format(&parent_path, name, format::subdomain)));
        }
        Some(old) => {
            let frozen = [
                (&parent_path, new.parent_composite_pod_group_name == old.parent_composite_pod_group_name),
                (&reference_path, new.workload_ref == old.workload_ref),
            ];
            errors.extend(frozen.iter().filter(|(_, kept)| !kept).map(|(path, _)| rules::immutable(path)));
        }
    }
    // Unlike a PodGroup, a composite always has a template.
    if !has_workload_ref {
        errors.push(Error::required(&reference_path, ""));
    } else if old.is_none() {
        let reference = &new.workload_ref;
        errors.extend(workload_ref(&reference_path, &reference.workload_name, &reference.template_name));
    }
    errors.extend(group::validate_declarative(
        &path,
        &GroupFields::from(new),
        old.map(GroupFields::from).as_ref(),
        gates,
    ));
    errors
}
