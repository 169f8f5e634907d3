//! Events: many, small and short-lived, so judged lightly.

use api::core::{defaults, validation};

use crate::object::Object;
use crate::resource::{Resource, Strategy};
use crate::table;

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        defaults: |event, gates| defaults::set_event_defaults(event.document_mut(), gates),
        validate_create: |new, gates| Ok(validation::event::validate_create(&new.typed()?, gates)),
        validate_update: |new, old, gates| Ok(validation::event::validate_update(&new.typed()?, &old.typed()?, gates)),
        selectable: SELECTABLE,
        fields,
        table: table::events::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "r2yiGXH7wu8=",
        short_names: &["ev"],
        expires: true,
        ..super::plain(super::Names("", &["v1"], "events", "event", "Event"), strategy)
    }
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

fn fields(event: &Object) -> Vec<(&'static str, String)> {
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
