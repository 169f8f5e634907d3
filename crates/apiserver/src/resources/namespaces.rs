//! Namespaces. One that is being deleted stays until what lives in it is gone; `spec.finalizers` holds it so long.

use api::core::{defaults, validation};
use serde_json::json;

use crate::object::Object;
use crate::resource::{Resource, Strategy, Subresource};
use crate::table;

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        defaults: |namespace, gates| defaults::set_namespace_defaults(namespace.document_mut(), gates),
        prepare_create: |namespace, _| {
            namespace.top_mut().insert("spec".to_owned(), json!({"finalizers": ["kubernetes"]}));
            namespace.top_mut().insert("status".to_owned(), json!({"phase": "Active"}));
        },
        prepare_update: |new, old, _| new.take_part_from(old, "spec"),
        validate_create: |new, gates| Ok(validation::namespace::validate_create(&new.typed()?, gates)),
        validate_update: |new, old, gates| {
            Ok(validation::namespace::validate_update(&new.typed()?, &old.typed()?, gates))
        },
        validate_status_update: |new, old, gates| {
            Ok(validation::namespace::validate_status_update(&new.typed()?, &old.typed()?, gates))
        },
        selectable: &["status.phase"],
        fields: |namespace| match namespace.text(&["status", "phase"]) {
            "" => Vec::new(),
            phase => vec![("status.phase", phase.to_owned())],
        },
        mark_deleting: |namespace| namespace.document_mut()["status"] = json!({"phase": "Terminating"}),
        held,
        table: table::namespaces::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "Q3oi5N2YM8M=",
        deletes_collections: false,
        short_names: &["ns"],
        namespaced: false,
        subresources: &[Subresource::Status],
        returns_deleted: true,
        ..super::plain(super::Names("", &["v1"], "namespaces", "namespace", "Namespace"), strategy)
    }
}

fn held(namespace: &Object) -> bool {
    namespace.document()["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}
