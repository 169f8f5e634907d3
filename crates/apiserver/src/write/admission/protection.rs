//! Groups that are in use stay: a finalizer holds every PodGroup until its controller sees that no live pod needs it.

use api::gates::Gate;
use api::scheduling::PROTECTION_FINALIZER;
use serde_json::{Value, json};

use super::{Attributes, Operation, is_resource};
use crate::resources::object::ApiObject;
use crate::response::status::ApiResult;

/// Gives a new PodGroup its finalizer.
// Upstream: composites get none, so neither do they here.
pub(super) fn add_protection_finalizer(attributes: &Attributes<'_>, group: &mut ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    let concerned = attributes.operation == Operation::Create
        && is_resource(call, "scheduling.k8s.io", "podgroups")
        && call.state.gates.enabled(Gate::GenericWorkload);
    if !concerned || group.finalizers().any(|held| held == PROTECTION_FINALIZER) {
        return Ok(());
    }
    let finalizers = group.metadata_mut().entry("finalizers").or_insert_with(|| json!([]));
    match finalizers {
        Value::Array(held) => held.push(PROTECTION_FINALIZER.into()),
        // Null means none; decoding reports any other type.
        Value::Null => *finalizers = json!([PROTECTION_FINALIZER]),
        _ => {}
    }
    Ok(())
}
