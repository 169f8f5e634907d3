//! The binding of a pod to a node.

use k8s_openapi::api::core::v1::{Binding, ObjectReference};

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, non_empty, violations};

const NODE: &str = "Node";

/// What is wrong with a binding. Whether pod and node are there is seen when it is carried out.
pub fn validate_create(binding: &Binding) -> ErrorList {
    let path = Path::new("target");
    let other_kind = non_node_kind(&binding.target);
    let kind = other_kind.map(|kind| Error::not_supported(&path.child("kind"), kind, &[NODE, "<empty>"]));
    kind.into_iter().chain(name_problems(&binding.target, &path.child("name"))).collect()
}

/// The kind of a target that is no node; a target that says no kind is one.
fn non_node_kind(target: &ObjectReference) -> Option<&str> {
    non_empty(&target.kind).filter(|kind| *kind != NODE)
}

/// How anything but a node is named is not known here.
fn name_problems(target: &ObjectReference, path: &Path) -> ErrorList {
    match (non_empty(&target.name), non_node_kind(target)) {
        (None, _) => vec![Error::required(path, "")],
        (Some(name), None) => violations(names::dns_subdomain, name, path),
        (Some(_), Some(_)) => ErrorList::new(),
    }
}
