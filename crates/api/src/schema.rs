//! The schema of the served kinds, and the walk that checks a document against it.
//!
//! The schema is that of Kubernetes (see `NOTICE`). `cargo xtask schema` generates the file.

mod table; // the file as tables
mod empty_values; // how empty fields are encoded
mod walk; // checks a document
mod patch_schema; // how patches merge into a document
mod descriptions; // our descriptions of the fields of workload-aware scheduling

use std::fmt;

use serde_json::Value;

pub use descriptions::description;
pub use empty_values::EmptyValueEncoding;
pub use patch_schema::{ListMerge, PatchSchema};
pub use table::{FieldMarkers, FieldSchema, ListType, ObjectSchema, SchemaTable, ValueType, table};

/// Violations of the schema in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaFindings {
    /// Paths of fields that the kind does not have: `spec.template.spec.containers[0].imag`. In document order.
    pub unknown: Vec<String>,
    /// Values that cannot be decoded to the typed object. In document order.
    pub type_errors: Vec<TypeError>,
}

/// A value of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// The field.
    pub path: String,
    /// The expected type: `integer`, `array`, …
    pub expected: &'static str,
    /// The actual value: `string "four"`.
    pub found: String,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.path, self.expected, self.found)
    }
}

/// The version of Kubernetes of the schema.
pub fn kubernetes_version() -> &'static str {
    &table::table().kubernetes_version
}

/// Whether the schema has the kind.
pub fn has_kind(group: &str, version: &str, kind: &str) -> bool {
    table::table().kind(group, version, kind).is_some()
}

/// Checks a document against the schema of its kind, and normalizes it.
///
/// Afterwards the document is what the typed object would serialize to: it has no unknown field, empty fields are
/// encoded as their [`EmptyValueEncoding`] defines, and quantities and times are
/// canonical (`cpu: 1000m` and `cpu: 1` both become `cpu: "1"`). It is idempotent. Values of the wrong type are not
/// changed. A document of an unknown kind (see [`has_kind`]) is not changed.
pub fn check(group: &str, version: &str, kind: &str, document: &mut Value) -> SchemaFindings {
    match table::table().kind(group, version, kind) {
        Some(shape) => walk::check(shape, document),
        None => SchemaFindings::default(),
    }
}

/// Adds the top-level fields that documents of the kind always have, such as `status: {}`.
pub fn write_empty_fields(group: &str, version: &str, kind: &str, document: &mut Value) {
    if let Some(shape) = table::table().kind(group, version, kind) {
        walk::write_empty_fields(shape, document);
    }
}

/// The paths of fields that the kind does not have.
pub fn unknown_fields(group: &str, version: &str, kind: &str, document: &Value) -> Vec<String> {
    check(group, version, kind, &mut document.clone()).unknown
}

/// How strategic merge patches merge into documents of this kind. For an unknown kind every list is replaced.
pub fn patch_schema(group: &str, version: &str, kind: &str) -> PatchSchema {
    PatchSchema::of(table::table().kind(group, version, kind))
}
