//! Groups in use are not removed: every PodGroup has a finalizer until its controller finds no live pod that uses it.

use api::gates::Gate;
use api::kinds;
use api::scheduling::PROTECTION_FINALIZER;
use serde_json::{Value, json};

use super::{Attributes, Operation, is_of_kind};
use crate::resources::object::ApiObject;
use crate::response::status::ApiResult;

/// Adds the protection finalizer to a new PodGroup.
// Upstream: composites get no finalizer, so they get none here.
pub(super) fn add_protection_finalizer(attributes: &Attributes<'_>, group: &mut ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    let applies = attributes.operation == Operation::Create
        && is_of_kind(call, kinds::POD_GROUP)
        && call.state.gates.enabled(Gate::GenericWorkload);
    if !applies || group.finalizers().any(|finalizer| finalizer == PROTECTION_FINALIZER) {
        return Ok(());
    }
    let finalizers = group.metadata_mut().entry("finalizers").or_insert_with(|| json!([]));
    match finalizers {
        Value::Array(finalizer) => finalizer.push(PROTECTION_FINALIZER.into()),
        // Null means none; decoding reports any other type.
        Value::Null => *finalizers = json!([PROTECTION_FINALIZER]),
        _ => {}
    }
    Ok(())
}
