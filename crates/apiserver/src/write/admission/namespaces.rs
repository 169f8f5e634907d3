//! The life cycle of namespaces: nothing is created in a missing or terminating one, and some are never deleted.

use api::kinds;
use store::StoredObject;

use super::{Attributes, Operation, is_of_kind};
use crate::resources::object::ApiObject;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;

/// Namespaces of the system.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Refuses a create in a missing or terminating namespace.
pub(super) fn require_active_namespace(attributes: &Attributes<'_>, object: &mut ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    if attributes.operation != Operation::Create || !call.resource.namespaced {
        return Ok(());
    }
    let namespaces = call.state.resource_of(kinds::NAMESPACE).expect("namespaces are served");
    let name = call.namespace();
    match call.state.store.get(&namespaces.key("", name)) {
        None => Err(Status::not_found(namespaces, name)),
        Some(namespace) if namespace.meta.deleting => {
            Err(Status::namespace_terminating(call.resource, object.name(), name))
        }
        Some(_) => Ok(()),
    }
}

/// Refuses the delete of a namespace of the system.
pub(super) fn validate_delete(call: &Call<'_>, stored: &StoredObject) -> ApiResult<()> {
    let name = stored.key.name.as_str();
    if is_of_kind(call, kinds::NAMESPACE) && IMMORTAL.contains(&name) {
        return Err(Status::forbidden(call.resource, name, "this namespace may not be deleted"));
    }
    Ok(())
}
