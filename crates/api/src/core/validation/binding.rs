//! The binding of a pod to a node.

use k8s_openapi::api::core::v1::{Binding, ObjectReference};

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, non_empty, violations};

const NODE: &str = "Node";

/// Validates a binding. Whether pod and node exist is checked when it is executed.
pub fn validate_create(binding: &Binding) -> ErrorList {
    let path = Path::new("target");
    let other_kind = non_node_kind(&binding.target);
    let kind = other_kind.map(|kind| Error::not_supported(&path.child("kind"), kind, &[NODE, "<empty>"]));
    kind.into_iter().chain(name_problems(&binding.target, &path.child("name"))).collect()
}

/// The kind of a target that is not a node. A target without a kind is a node.
fn non_node_kind(target: &ObjectReference) -> Option<&str> {
    non_empty(&target.kind).filter(|kind| *kind != NODE)
}

/// The rule for names of other kinds is not known here.
fn name_problems(target: &ObjectReference, path: &Path) -> ErrorList {
    match (non_empty(&target.name), non_node_kind(target)) {
        (None, _) => vec![Error::required(path, "")],
        (Some(name), None) => violations(names::dns_subdomain, name, path),
        (Some(_), Some(_)) => ErrorList::new(),
    }
}
