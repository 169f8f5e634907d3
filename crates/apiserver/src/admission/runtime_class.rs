//! Runtime classes: how a node runs a pod. None are kept here, so a pod that names one names none that there is.

use super::{Attributes, Operation, is};
use crate::object::Object;
use crate::status::{Answer, Status};

/// Refuses a new pod that asks for a runtime class.
pub(super) fn of_pod(attributes: &Attributes<'_>, pod: &mut Object) -> Answer<()> {
    let call = attributes.call;
    if attributes.operation != Operation::Create || !is(call, "", "pods") {
        return Ok(());
    }
    match pod.document()["spec"]["runtimeClassName"].as_str() {
        None => Ok(()),
        Some(class) => {
            let why = format!("pod rejected: RuntimeClass \"{class}\" not found");
            Err(Status::forbidden(call.resource, pod.name(), &why))
        }
    }
}
