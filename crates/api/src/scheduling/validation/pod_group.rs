//! PodGroups and their status.

use k8s_openapi::api::scheduling::v1beta1::{PodGroup, PodGroupResourceClaimStatus, PodGroupSpec};
use workloadbuilder::{format, rules};

use super::conditions;
use super::group::{self, GroupFields};
use crate::field::{Error, ErrorList, Path};
use crate::gates::{Gate, Gates};
use crate::metadata::{validate_object_meta, validate_object_meta_update};

/// Validates a new PodGroup.
pub fn validate_create(group: &PodGroup, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta(&group.metadata, true, &Path::new("metadata"));
    if group.spec.parent_composite_pod_group_name.is_some() && group.spec.workload_ref.is_none() {
        let path = Path::new("spec").child("workloadRef");
        errors.push(Error::required(&path, "must be set when parentCompositePodGroupName is set"));
    }
    errors.extend(validate_declarative(&group.spec, None, gates));
    errors
}

/// Validates a change of a PodGroup. Only the count of a gang is mutable.
pub fn validate_update(new: &PodGroup, old: &PodGroup, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(validate_declarative(&new.spec, Some(&old.spec), gates));
    errors
}

/// Validates a write to a PodGroup's status.
pub fn validate_status_update(new: &PodGroup, old: &PodGroup, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    let path = Path::new("status");
    let status = new.status.clone().unwrap_or_default();
    errors.extend(conditions::validate(&path.child("conditions"), status.conditions.as_deref().unwrap_or_default()));
    let claims_path = path.child("resourceClaimStatuses");
    let claims = status.resource_claim_statuses.as_deref().unwrap_or_default();
    errors.extend(validate_reported_claims(&claims_path, claims, &new.spec));
    let unchanged =
        old.status.as_ref().is_some_and(|old| old.resource_claim_statuses == status.resource_claim_statuses);
    if !unchanged {
        errors.extend(claim_statuses(&claims_path, claims));
    }
    errors.extend(validate_declarative(&new.spec, Some(&old.spec), gates));
    errors
}

fn validate_declarative(new: &PodGroupSpec, old: Option<&PodGroupSpec>, gates: &Gates) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = parent(&path.child("parentCompositePodGroupName"), new, old, gates);
    let reference_path = path.child("workloadRef");
    match (&new.workload_ref, old) {
        (new, Some(old)) if *new != old.workload_ref => errors.push(rules::immutable(&reference_path)),
        (Some(new), None) => errors.extend(workload_ref(&reference_path, &new.workload_name, &new.template_name)),
        _ => {}
    }
    errors.extend(group::validate_declarative(
        &path,
        &GroupFields::from(new),
        old.map(GroupFields::from).as_ref(),
        gates,
    ));
    errors
}

fn parent(path: &Path, new: &PodGroupSpec, old: Option<&PodGroupSpec>, gates: &Gates) -> ErrorList {
    let name = &new.parent_composite_pod_group_name;
    if old.is_some_and(|old| old.parent_composite_pod_group_name == *name) {
        return ErrorList::new();
    }
    let mut errors = ErrorList::new();
    if name.is_some() && !gates.enabled(Gate::CompositePodGroup) {
        errors.push(Error::forbidden(path, ""));
    }
    if old.is_some() {
        errors.push(rules::immutable(path));
    }
    if let Some(name) = name.as_ref().filter(|_| errors.is_empty()) {
        errors.extend(rules::validate_format(path, name, format::subdomain));
    }
    errors
}

/// The reference of a group to its Workload and template.
pub(super) fn workload_ref(path: &Path, workload: &str, template: &str) -> ErrorList {
    let mut errors = rules::validate_required(&path.child("workloadName"), workload, format::subdomain);
    errors.extend(rules::validate_required(&path.child("templateName"), template, format::label));
    errors
}

/// A claim in the status is a claim of the group.
fn validate_reported_claims(path: &Path, statuses: &[PodGroupResourceClaimStatus], spec: &PodGroupSpec) -> ErrorList {
    let known = |name: &str| spec.resource_claims.iter().flatten().any(|claim| claim.name == name);
    let unknown = statuses.iter().enumerate().filter(|(_, status)| !known(&status.name));
    unknown
        .map(|(i, status)| {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            Error::invalid(&path.index(i).child("name"), status.name.as_str(), detail)
        })
        .collect()
}

fn claim_statuses(path: &Path, statuses: &[PodGroupResourceClaimStatus]) -> ErrorList {
    if statuses.len() > rules::MAX_CLAIMS {
        return vec![Error::too_many(path, statuses.len(), rules::MAX_CLAIMS)];
    }
    let mut errors = rules::validate_unique_names(path, statuses, |status| &status.name);
    for (i, status) in statuses.iter().enumerate() {
        let path = path.index(i);
        let claim = status.resource_claim_name.iter();
        errors.extend(
            claim.flat_map(|name| rules::validate_format(&path.child("resourceClaimName"), name, format::subdomain)),
        );
    }
    errors
}
