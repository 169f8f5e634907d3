//! What the server, and nobody else, says in an object's metadata.

use api::clock::rfc3339;
use serde_json::Value;

use crate::object::Object;
use crate::server::Call;
use crate::status::{Answer, Status};

/// A name and its generated end together are a DNS label.
const GENERATED_BASE_BYTES_MAX: usize = 63 - 5;

/// Fields that no user sets and that are not kept.
// Upstream: keeps `managedFields`. Nothing here reads them before server-side apply is served.
const NOT_KEPT: [&str; 2] = ["managedFields", "selfLink"];

/// Settles that the object lives where the path says.
pub(crate) fn place(call: &Call<'_>, object: &mut Object) -> Answer<()> {
    for field in NOT_KEPT {
        object.metadata_mut().remove(field);
    }
    let namespace = object.namespace();
    if !call.resource.namespaced {
        if !namespace.is_empty() {
            return Err(Status::bad_request("namespace may not be set on a cluster-scoped object"));
        }
    } else if namespace.is_empty() {
        object.metadata_mut().insert("namespace".to_owned(), call.namespace().into());
    } else if namespace != call.namespace() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if call.info.name.is_some() && object.name() != call.name() {
        let text =
            format!("the name of the object ({}) does not match the name on the URL ({})", object.name(), call.name());
        return Err(Status::bad_request(text));
    }
    Ok(())
}

/// Whether the name was drawn by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Given,
    Generated,
}

/// Gives a new object its name, if it has none, its identity and its time.
pub(crate) fn stamp(call: &Call<'_>, object: &mut Object) -> Answer<Name> {
    if !matches!(object.text(&["metadata", "resourceVersion"]), "" | "0") {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let base = object.text(&["metadata", "generateName"]);
    let mut name = Name::Given;
    let mut drawn = None;
    if object.name().is_empty() && !base.is_empty() {
        let cut = (0..=base.len().min(GENERATED_BASE_BYTES_MAX)).rev().find(|&at| base.is_char_boundary(at));
        drawn = Some(format!("{}{}", &base[..cut.unwrap_or(0)], call.home.random.name_suffix()));
        name = Name::Generated;
    }
    let uid = call.home.random.uid();
    let now = rfc3339(call.home.clock.now());
    let generation = call.resource.counts_generation;
    let metadata = object.metadata_mut();
    if let Some(drawn) = drawn {
        metadata.insert("name".to_owned(), drawn.into());
    }
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    Ok(name)
}

/// Gives a changed object what every later version of it shares with the first.
pub(crate) fn carry_over(new: &mut Object, old: &Object) {
    for field in ["uid", "creationTimestamp", "deletionGracePeriodSeconds"] {
        if !new.metadata().contains_key(field) {
            new.take_meta_from(old, field);
        }
    }
    // Deletion cannot be taken back, and only a delete asks for it.
    new.take_meta_from(old, "deletionTimestamp");
    new.take_meta_from(old, "generation");
    if !old.is_deleting() {
        new.metadata_mut().remove("deletionGracePeriodSeconds");
    }
}

/// Counts a change, where the kind counts.
pub(crate) fn count_generation(object: &mut Object) {
    let generation = object.metadata().get("generation").and_then(Value::as_i64).unwrap_or(0);
    object.metadata_mut().insert("generation".to_owned(), (generation + 1).into());
}
