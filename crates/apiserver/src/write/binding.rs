//! `pods/NAME/binding`: sets the node of a pod, once.

use std::collections::BTreeMap;

use api::clock::rfc3339;
use api::core::validation::binding as validation;
use bytes::Bytes;
use http::Response;
use k8s_openapi::api::core::v1::Binding;
use serde_json::{Map, Value, json};
use store::{Op, Precondition};

use crate::resources::object::ApiObject;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;
use crate::write;
use crate::write::capacity::CapacityReservation;

/// Binds the pod in the path. Only the fields of a binding are validated. The rest of the pod was validated when it was
/// created.
pub(crate) async fn bind(call: &Call<'_>, body: &Bytes) -> ApiResult<Response<Body>> {
    let binding: Binding = serde_json::from_slice(body).map_err(|error| {
        Status::bad_request(format!("Binding in version \"v1\" cannot be handled as a Binding: {error}"))
    })?;
    validate(call, &binding)?;
    let key = call.key();
    for _ in 0..write::MAX_ATTEMPTS {
        let stored = call.state.store.get(&key).ok_or_else(|| Status::not_found(call.resource, call.name()))?;
        let mut pod = ApiObject::from_stored(&stored);
        if let Some(cause) = refusal(&binding, &pod) {
            return Err(Status::subresource_conflict(call.resource, "binding", call.name(), &cause));
        }
        let reservation = reserve_capacity(call, &pod, binding.target.name.as_deref().unwrap_or_default())?;
        if call.info.options.dry_run {
            reservation.into_iter().for_each(|reservation| reservation.finish(false));
            return Ok(Status::created().into_response());
        }
        assign(&mut pod, &binding, rfc3339(call.state.clock.now()));
        let committed = write::commit(call, &pod, Precondition::At(stored.revision), Op::Put).await;
        let bound = matches!(committed, Ok(Ok(_)));
        reservation.into_iter().for_each(|reservation| reservation.finish(bound));
        if committed?.is_ok() {
            return Ok(Status::created().into_response());
        }
    }
    Err(Status::modified(call.resource, call.name()))
}

/// Reserves the pod's requests on the node until the bind is committed, so that no two binds use the same capacity.
// Upstream: a bind checks nothing, and two schedulers (or a scheduler and a user) overcommit a node without an error.
fn reserve_capacity<'a>(call: &Call<'a>, pod: &ApiObject, node: &str) -> ApiResult<Option<CapacityReservation<'a>>> {
    let Some(capacity) = &call.state.capacity else { return Ok(None) };
    let reservation = capacity.reserve(pod, node);
    reservation.map(Some).map_err(|short| {
        Status::subresource_conflict(call.resource, "binding", call.name(), &format!("node {node}: {short}"))
    })
}

fn validate(call: &Call<'_>, binding: &Binding) -> ApiResult<()> {
    let name = binding.metadata.name.as_deref().unwrap_or_default();
    let errors = validation::validate_create(binding);
    if !errors.is_empty() {
        return Err(Status::invalid_named("Binding", name, &errors));
    }
    if !name.is_empty() && name != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    Ok(())
}

/// Why this pod cannot be bound; `None` when it can.
fn refusal(binding: &Binding, pod: &ApiObject) -> Option<String> {
    let name = pod.name();
    let wanted = binding.metadata.uid.as_deref().unwrap_or_default();
    let node = pod.text(&["spec", "nodeName"]);
    if !wanted.is_empty() && wanted != pod.uid() {
        return Some(format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {}", pod.uid()));
    }
    if pod.is_deleting() {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !node.is_empty() {
        return Some(format!("pod {name} is already assigned to node \"{node}\""));
    }
    if pod.document()["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Some(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    None
}

fn assign(pod: &mut ApiObject, binding: &Binding, now: String) {
    merge(pod.metadata_mut(), "annotations", &binding.metadata.annotations);
    merge(pod.metadata_mut(), "labels", &binding.metadata.labels);
    let document = pod.document_mut();
    document["spec"]["nodeName"] = binding.target.name.as_deref().into();
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    if !document["status"].is_object() {
        document["status"] = json!({});
    }
    let conditions = &mut document["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().expect("set to an array above");
    match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
        Some(condition) => *condition = scheduled,
        None => conditions.push(scheduled),
    }
}

fn merge(metadata: &mut Map<String, Value>, field: &str, entries: &Option<BTreeMap<String, String>>) {
    let Some(entries) = entries else { return };
    let existing = metadata.entry(field).or_insert_with(|| json!({}));
    for (key, value) in entries {
        existing[key] = value.as_str().into();
    }
}
