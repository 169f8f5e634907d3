//! Validation of namespaces.

use k8s_openapi::api::core::v1::Namespace;

use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{self, STANDARD_FINALIZERS, names, push_violations};

/// Validates a new namespace.
pub fn validate_create(namespace: &Namespace, _gates: &Gates) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors = metadata::validate_object_meta_named(&namespace.metadata, false, names::dns_label, &path);
    let path = Path::new("spec").child("finalizers");
    for finalizer in finalizers(namespace) {
        errors.extend(finalizer_problems(finalizer, &path));
    }
    errors
}

fn finalizers(namespace: &Namespace) -> impl Iterator<Item = &String> {
    namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten())
}

/// A finalizer is the standard one or has a prefix.
fn finalizer_problems(finalizer: &str, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    push_violations(names::qualified_name(finalizer), finalizer, path, &mut errors);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Error::invalid(path, finalizer, detail));
    }
    errors
}

/// Validates a change of a namespace.
pub fn validate_update(new: &Namespace, old: &Namespace, _gates: &Gates) -> ErrorList {
    metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"))
}

/// Validates a change of a namespace's finalizers.
pub fn validate_finalize(new: &Namespace, old: &Namespace, gates: &Gates) -> ErrorList {
    let mut errors = validate_update(new, old, gates);
    let path = Path::new("spec").child("finalizers");
    for (index, finalizer) in finalizers(new).enumerate() {
        errors.extend(finalizer_problems(finalizer, &path.index(index)));
    }
    errors
}

/// Validates a write to a namespace's status: the phase must match the deletion timestamp.
pub fn validate_status_update(new: &Namespace, old: &Namespace, gates: &Gates) -> ErrorList {
    let mut errors = validate_update(new, old, gates);
    let phase = new.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("");
    // The API has this field with a capital letter in the path.
    let path = Path::new("status").child("Phase");
    match (phase, new.metadata.deletion_timestamp.is_some()) {
        ("Active", false) | ("Terminating", true) => {}
        (phase, false) => {
            errors.push(Error::invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty"));
        }
        (phase, true) => {
            errors.push(Error::invalid(&path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"));
        }
    }
    errors
}
