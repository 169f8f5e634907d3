//! Validation of priority classes.

use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::MAX_USER_PRIORITY;
use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{immutable, validate_object_meta, validate_object_meta_update};

/// Prefix of names that are reserved for the system.
const SYSTEM_PREFIX: &str = "system-";
/// The system's classes and their values.
pub const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Validates a new priority class.
pub fn validate_create(class: &PriorityClass, _gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta(&class.metadata, false, &Path::new("metadata"));
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let value = class.value.unwrap_or(0);
    if name.starts_with(SYSTEM_PREFIX) {
        if let Some(problem) = system_class_mismatch(name, value, class.global_default == Some(true)) {
            let detail = format!(
                "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"
            );
            errors.push(Error::forbidden(&Path::new("metadata").child("name"), detail));
        }
    } else if value > MAX_USER_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        errors.push(Error::forbidden(&Path::new("value"), detail));
    }
    let path = Path::new("preemptionPolicy");
    match class.preemption_policy.as_deref() {
        None | Some("PreemptLowerPriority" | "Never") => {}
        Some("") => errors.push(Error::required(&path, "")),
        Some(other) => errors.push(Error::not_supported(&path, other, &["PreemptLowerPriority", "Never"])),
    }
    errors
}

/// Validates a change of a priority class. The value is immutable, because pods may have been scheduled by it.
pub fn validate_update(new: &PriorityClass, old: &PriorityClass, _gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    if new.value.unwrap_or(0) != old.value.unwrap_or(0) {
        errors.push(Error::forbidden(&Path::new("value"), "may not be changed in an update."));
    }
    errors.extend(immutable(&new.preemption_policy, &old.preemption_policy, &Path::new("preemptionPolicy")));
    errors
}

fn system_class_mismatch(name: &str, value: i32, global_default: bool) -> Option<String> {
    match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, known)) if *known != value => {
            Some(format!("value of {name} PriorityClass must be {known}, but got {value}"))
        }
        Some(_) if global_default => Some(format!("globalDefault of {name} PriorityClass must be false, but got true")),
        Some(_) => None,
    }
}
