//! Events: numerous, small and short-lived, so validation is light. Two groups serve the same Events in two forms.

use api::conversion;
use api::core::{defaults, validation};
use api::kinds;

use crate::read::table;
use crate::resources::object::ApiObject;
use crate::resources::resource::{Resource, Strategy};

const STRATEGY: Strategy = Strategy {
    defaults: |event, gates| defaults::set_event_defaults(event.document_mut(), gates),
    validate_create: |new, gates| Ok(validation::event::validate_create(&new.typed()?, gates)),
    validate_update: |new, old, gates| Ok(validation::event::validate_update(&new.typed()?, &old.typed()?, gates)),
    selectable: SELECTABLE,
    fields,
    table: table::events::TABLE,
    ..Strategy::PLAIN
};

/// Events of the core group, in their stored form.
pub(super) fn resource() -> Resource {
    Resource { storage_version_hash: "r2yiGXH7wu8=", expires: true, ..super::base_resource(kinds::EVENT, STRATEGY) }
}

/// The same Events in `events.k8s.io`, where writes have stricter rules.
pub(super) fn resource_of_events_group() -> Resource {
    let strategy = Strategy {
        validate_create: |new, _| Ok(validation::event::validate_create_in_events_group(&new.typed()?)),
        validate_update: |new, old, _| {
            Ok(validation::event::validate_update_in_events_group(&new.typed()?, &old.typed()?))
        },
        selectable: SELECTABLE_IN_EVENTS_GROUP,
        stored_field_names: STORED_FIELD_NAMES,
        ..STRATEGY
    };
    Resource { api: kinds::EVENTS_GROUP_EVENT, conversions: conversion::EVENT_CONVERSIONS, strategy, ..resource() }
}

const SELECTABLE: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const SELECTABLE_IN_EVENTS_GROUP: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Fields that have another name in the core group.
const STORED_FIELD_NAMES: &[(&str, &str)] = &[
    ("regarding.kind", "involvedObject.kind"),
    ("regarding.namespace", "involvedObject.namespace"),
    ("regarding.name", "involvedObject.name"),
    ("regarding.uid", "involvedObject.uid"),
    ("regarding.apiVersion", "involvedObject.apiVersion"),
    ("regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("regarding.fieldPath", "involvedObject.fieldPath"),
    ("reportingController", "reportingComponent"),
];

fn fields(event: &ApiObject) -> Vec<(&'static str, String)> {
    let value = |field: &str| match field {
        "source" => match event.text(&["source", "component"]) {
            "" => event.text(&["reportingComponent"]),
            component => component,
        },
        _ => match field.split_once('.') {
            Some((object, field)) => event.text(&[object, field]),
            None => event.text(&[field]),
        },
    };
    SELECTABLE.iter().map(|&field| (field, value(field).to_owned())).filter(|(_, value)| !value.is_empty()).collect()
}
