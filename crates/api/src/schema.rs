//! The structure of the served kinds, and the one walk that holds a document against it.
//!
//! The structure is that of Kubernetes (see `NOTICE`); `cargo xtask schema` makes the file anew.

mod table; // the file as tables for a fast walk
mod empty_values; // how fields are written that say nothing
mod walk; // a document held against the tables
mod patch_schema; // how patches merge into a document
mod descriptions; // our words for the fields of workload-aware scheduling

use std::fmt;

use serde_json::Value;

pub use descriptions::description;
pub use empty_values::EmptyValueEncoding;
pub use patch_schema::{ListMerge, PatchSchema};
pub use table::{FieldMarkers, FieldSchema, ListType, ObjectSchema, SchemaTable, ValueType, table};

/// What does not belong in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaFindings {
    /// Paths of fields that the kind does not have: `spec.template.spec.containers[0].imag`. Document order.
    pub unknown: Vec<String>,
    /// Values that the typed object could not hold. Document order.
    pub type_errors: Vec<TypeError>,
}

/// A value of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// Where.
    pub path: String,
    /// What belongs there: `integer`, `array`, …
    pub expected: &'static str,
    /// What stands there: `string "four"`.
    pub found: String,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.path, self.expected, self.found)
    }
}

/// The version of Kubernetes whose structure this is.
pub fn kubernetes_version() -> &'static str {
    &table::table().kubernetes_version
}

/// Whether the kind is one of those whose structure is known.
pub fn has_kind(group: &str, version: &str, kind: &str) -> bool {
    table::table().kind(group, version, kind).is_some()
}

/// Holds a document against the structure of its kind and tidies it on the way.
///
/// Afterwards the document is as the typed object would be written: it has no unknown field, a field that says nothing
/// stands there only if its [`Form`] has it so, and quantities and times are in canonical form (`cpu: 1000m` and `cpu: 1`
/// both become `cpu: "1"`). To do it again changes nothing. Values of the wrong type stay as they are.
/// A kind that is not known (see [`knows`]) is left alone.
pub fn check(group: &str, version: &str, kind: &str, document: &mut Value) -> SchemaFindings {
    match table::table().kind(group, version, kind) {
        Some(shape) => walk::check(shape, document),
        None => SchemaFindings::default(),
    }
}

/// Writes what documents of the kind have at their top even when they say nothing there, such as `status: {}`.
pub fn write_empty_fields(group: &str, version: &str, kind: &str, document: &mut Value) {
    if let Some(shape) = table::table().kind(group, version, kind) {
        walk::write_empty_fields(shape, document);
    }
}

/// The paths of fields that the kind does not have.
pub fn unknown_fields(group: &str, version: &str, kind: &str, document: &Value) -> Vec<String> {
    check(group, version, kind, &mut document.clone()).unknown
}

/// How strategic merge patches merge into documents of this kind. Every list of a kind that is not known is replaced.
pub fn patch_schema(group: &str, version: &str, kind: &str) -> PatchSchema {
    PatchSchema::of(table::table().kind(group, version, kind))
}
