//! Namespaces. A deleted one is kept by `spec.finalizers` until it is empty.

use api::core::{defaults, validation};
use api::kinds;
use serde_json::{Value, json};

use crate::read::table;
use crate::resources::object::ApiObject;
use crate::resources::resource::{Resource, Strategy, Subresource};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        defaults: |namespace, gates| defaults::set_namespace_defaults(namespace.document_mut(), gates),
        prepare_create: |namespace, _| {
            add_spec_finalizer(namespace);
            namespace.top_mut().insert("status".to_owned(), json!({"phase": "Active"}));
        },
        prepare_update: |new, old, _| new.copy_field_from(old, "spec"),
        validate_create: |new, gates| Ok(validation::namespace::validate_create(&new.typed()?, gates)),
        validate_update: |new, old, gates| {
            Ok(validation::namespace::validate_update(&new.typed()?, &old.typed()?, gates))
        },
        validate_status_update: |new, old, gates| {
            Ok(validation::namespace::validate_status_update(&new.typed()?, &old.typed()?, gates))
        },
        validate_finalize: |new, old, gates| {
            Ok(validation::namespace::validate_finalize(&new.typed()?, &old.typed()?, gates))
        },
        selectable: &["status.phase"],
        fields: |namespace| match namespace.text(&["status", "phase"]) {
            "" => Vec::new(),
            phase => vec![("status.phase", phase.to_owned())],
        },
        mark_deleting,
        has_spec_finalizers,
        table: table::namespaces::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "Q3oi5N2YM8M=",
        deletes_collections: false,
        subresources: &[Subresource::Status, Subresource::Finalize],
        returns_deleted: true,
        ..super::base_resource(kinds::NAMESPACE, strategy)
    }
}

/// A new namespace always has the finalizer of the namespace controller.
fn add_spec_finalizer(namespace: &mut ApiObject) {
    const KUBERNETES: &str = "kubernetes";
    if !namespace.document()["spec"].is_object() {
        namespace.top_mut().insert("spec".to_owned(), json!({}));
    }
    let finalizers = &mut namespace.document_mut()["spec"]["finalizers"];
    match finalizers {
        Value::Array(finalizers) if finalizers.iter().any(|finalizer| finalizer == KUBERNETES) => {}
        Value::Array(finalizers) => finalizers.push(KUBERNETES.into()),
        _ => *finalizers = json!([KUBERNETES]),
    }
}

/// Conditions of an earlier attempt are kept. Namespaces have no grace period.
fn mark_deleting(namespace: &mut ApiObject) {
    namespace.metadata_mut().remove("deletionGracePeriodSeconds");
    if !namespace.document()["status"].is_object() {
        namespace.top_mut().insert("status".to_owned(), json!({}));
    }
    namespace.document_mut()["status"]["phase"] = "Terminating".into();
}

fn has_spec_finalizers(namespace: &ApiObject) -> bool {
    namespace.document()["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}
