//! The metadata that only the server sets.

use std::collections::BTreeSet;

use api::clock::rfc3339;
use serde_json::Value;

use crate::resources::object::ApiObject;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;
use crate::write::UpdateScope;

/// The longest base of a generated name: with its suffix it is still a DNS label.
const MAX_GENERATED_BASE_BYTES: usize = 63 - 5;

/// Fields that clients cannot set and that are not stored.
// Upstream: stores `managedFields`. Nothing here reads them before server-side apply is served.
const DROPPED_FIELDS: [&str; 2] = ["managedFields", "selfLink"];

/// Checks that namespace and name match the path.
pub(crate) fn match_request_path(call: &Call<'_>, object: &mut ApiObject) -> ApiResult<()> {
    for field in DROPPED_FIELDS {
        object.metadata_mut().remove(field);
    }
    let namespace = object.namespace();
    if !call.resource.namespaced {
        object.metadata_mut().remove("namespace");
    } else if namespace.is_empty() {
        object.metadata_mut().insert("namespace".to_owned(), call.namespace().into());
    } else if namespace != call.namespace() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if call.info.name.is_some() && object.name().is_empty() {
        let name = call.name();
        let text = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Status::bad_request(text));
    }
    if call.info.name.is_some() && object.name() != call.name() {
        let text =
            format!("the name of the object ({}) does not match the name on the URL ({})", object.name(), call.name());
        return Err(Status::bad_request(text));
    }
    Ok(())
}

/// Drops identical duplicate owner references, with a warning.
pub(crate) fn dedup_owner_references(object: &mut ApiObject, warnings: &mut Vec<String>) {
    let Some(owners) = object.metadata_mut().get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    // Equal values have equal texts, because fields are sorted by name.
    let mut known = BTreeSet::new();
    let mut reported = BTreeSet::new();
    let mut repeated: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let is_new = known.insert(owner.to_string());
        if let (false, Some(uid)) = (is_new, owner["uid"].as_str())
            && reported.insert(uid.to_owned())
        {
            repeated.push(uid.to_owned());
        }
        is_new
    });
    if !repeated.is_empty() {
        warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        ));
    }
}

/// Whether the server generated the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameSource {
    Given,
    Generated,
}

/// Sets the uid and creation time of a new object, and its name if it has none.
pub(crate) fn fill_system_fields(call: &Call<'_>, object: &mut ApiObject) -> ApiResult<NameSource> {
    // A value that cannot be parsed is ignored.
    if object.text(&["metadata", "resourceVersion"]).parse::<u64>().is_ok_and(|version| version != 0) {
        return Err(Status::version_on_create());
    }
    let base = object.text(&["metadata", "generateName"]);
    let mut name = NameSource::Given;
    let mut generated = None;
    if object.name().is_empty() && !base.is_empty() {
        let cut = (0..=base.len().min(MAX_GENERATED_BASE_BYTES)).rev().find(|&at| base.is_char_boundary(at));
        generated = Some(format!("{}{}", &base[..cut.unwrap_or(0)], call.state.random.name_suffix()));
        name = NameSource::Generated;
    }
    let uid = call.state.random.uid();
    let now = rfc3339(call.state.clock.now());
    let generation = call.resource.counts_generation;
    let metadata = object.metadata_mut();
    if let Some(generated) = generated {
        metadata.insert("name".to_owned(), generated.into());
    }
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    Ok(name)
}

/// Copies the fields that never change after creation.
pub(crate) fn keep_system_fields(new: &mut ApiObject, old: &ApiObject, scope: UpdateScope) {
    for field in ["creationTimestamp", "generation"] {
        new.copy_metadata_field_from(old, field);
    }
    // Deletion cannot be undone, and only a delete request starts it. An update of the whole object that changes these
    // fields is refused by the validation of metadata.
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if scope != UpdateScope::Whole || !new.metadata().contains_key(field) {
            new.copy_metadata_field_from(old, field);
        }
    }
}

/// Increments `metadata.generation`.
pub(crate) fn increment_generation(object: &mut ApiObject) {
    let generation = object.metadata().get("generation").and_then(Value::as_i64).unwrap_or(0);
    object.metadata_mut().insert("generation".to_owned(), (generation + 1).into());
}
