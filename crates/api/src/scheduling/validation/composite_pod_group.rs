//! CompositePodGroups and their status. They exist in `v1alpha3` only.

use k8s_openapi::api::scheduling::v1alpha3::{CompositePodGroup, CompositePodGroupSpec};
use serde_json::Value;
use workloadbuilder::{format, rules};

use super::conditions;
use super::group::{self, Group};
use super::pod_group::workload_ref;
use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{validate_object_meta, validate_object_meta_update};

/// Whether a document says where the group comes from. The typed form cannot tell an empty reference from none.
pub fn refers(document: &Value) -> bool {
    document.pointer("/spec/workloadRef").is_some_and(Value::is_object)
}

/// What is wrong with a new CompositePodGroup; `refers` as [`refers`] says.
pub fn validate_create(group: &CompositePodGroup, refers: bool, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta(&group.metadata, true, &Path::new("metadata"));
    errors.extend(declared(&group.spec, refers, None, gates));
    errors
}

/// What is wrong with a change of a CompositePodGroup: nothing in its spec may change.
pub fn validate_update(new: &CompositePodGroup, refers: bool, old: &CompositePodGroup, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(declared(&new.spec, refers, Some(&old.spec), gates));
    errors
}

/// What is wrong with a change of a CompositePodGroup's status.
pub fn validate_status_update(new: &CompositePodGroup, old: &CompositePodGroup, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    let conditions = new.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    errors.extend(conditions::validate(&Path::new("status").child("conditions"), conditions));
    errors.extend(declared(&new.spec, true, Some(&old.spec), gates));
    errors
}

fn declared(
    new: &CompositePodGroupSpec,
    refers: bool,
    old: Option<&CompositePodGroupSpec>,
    gates: &Gates,
) -> ErrorList {
    let path = Path::new("spec");
    let (parent_path, reference_path) = (path.child("parentCompositePodGroupName"), path.child("workloadRef"));
    let mut errors = ErrorList::new();
    match old {
        None => {
            let parent = new.parent_composite_pod_group_name.iter();
            errors.extend(parent.flat_map(|name| rules::written_as(&parent_path, name, format::subdomain)));
        }
        Some(old) => {
            let frozen = [
                (&parent_path, new.parent_composite_pod_group_name == old.parent_composite_pod_group_name),
                (&reference_path, new.workload_ref == old.workload_ref),
            ];
            errors.extend(frozen.iter().filter(|(_, kept)| !kept).map(|(path, _)| rules::immutable(path)));
        }
    }
    // Unlike a group of pods, a composite always comes from a template.
    if !refers {
        errors.push(Error::required(&reference_path, ""));
    } else if old.is_none() {
        let reference = &new.workload_ref;
        errors.extend(workload_ref(&reference_path, &reference.workload_name, &reference.template_name));
    }
    errors.extend(group::declared(&path, &Group::from(new), old.map(Group::from).as_ref(), gates));
    errors
}
