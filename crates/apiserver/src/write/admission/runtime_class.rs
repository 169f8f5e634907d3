//! Runtime classes: how a node runs a pod. They are not served here, so a reference to one is always a reference to a
//! missing one.

use api::kinds;

use super::{Attributes, Operation, is_of_kind};
use crate::resources::object::ApiObject;
use crate::response::status::{ApiResult, Status};

/// Refuses a new pod with a runtime class.
pub(super) fn reject_runtime_class(attributes: &Attributes<'_>, pod: &mut ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    if attributes.operation != Operation::Create || !is_of_kind(call, kinds::POD) {
        return Ok(());
    }
    match pod.document()["spec"]["runtimeClassName"].as_str() {
        None => Ok(()),
        Some(class) => {
            let cause = format!("pod rejected: RuntimeClass \"{class}\" not found");
            Err(Status::forbidden(call.resource, pod.name(), &cause))
        }
    }
}
