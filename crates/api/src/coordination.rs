//! Validation of Leases.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{validate_object_meta, validate_object_meta_update};

/// Drops the fields of coordinated leader election. No gate of ours enables it.
pub fn drop_coordinated_election_fields(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

/// Validates a new Lease.
pub fn validate_create(lease: &Lease) -> ErrorList {
    let mut errors = validate_object_meta(&lease.metadata, true, &Path::new("metadata"));
    errors.extend(validate_spec(lease.spec.as_ref()));
    errors
}

/// Validates a change of a Lease.
pub fn validate_update(new: &Lease, old: &Lease) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(validate_spec(new.spec.as_ref()));
    errors
}

fn validate_spec(spec: Option<&LeaseSpec>) -> ErrorList {
    let mut errors = ErrorList::default();
    let Some(spec) = spec else { return errors };
    let path = Path::new("spec");
    let mut at_least = |field: &str, value: Option<i32>, min: i32, detail: &str| {
        if let Some(value) = value.filter(|value| *value < min) {
            errors.push(Error::invalid(&path.child(field), value, detail));
        }
    };
    at_least("leaseDurationSeconds", spec.lease_duration_seconds, 1, "must be greater than 0");
    at_least("leaseTransitions", spec.lease_transitions, 0, "must be greater than or equal to 0");
    errors
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    #[test]
    fn duration_is_positive_and_transitions_are_not_negative() {
        for (case, spec, want) in [
            ("no fields", json!({}), vec![]),
            ("released", json!({"holderIdentity": "", "leaseDurationSeconds": 1}), vec![]),
            ("zero duration", json!({"leaseDurationSeconds": 0}), vec!["spec.leaseDurationSeconds"]),
            ("negative transitions", json!({"leaseTransitions": -1}), vec!["spec.leaseTransitions"]),
        ] {
            let metadata = json!({"name": "phalanx-scheduler", "namespace": "kube-system"});
            let lease: Lease = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
            let paths: Vec<String> = validate_create(&lease).iter().map(|error| error.path.to_string()).collect();
            assert_eq!(paths, want, "{case}");
        }
    }
}
