//! The schemas of one document: the served kinds, their lists, and everything that these refer to.

use std::collections::BTreeMap;

use api::schema::{FieldMarkers, FieldSchema, ObjectSchema, SchemaTable, ValueType, description, table};
use serde_json::{Map, Value, json};

use super::group_version_kind;
use crate::discovery::{ServedGroup, ServedVersion};
use crate::resources::resource::Subresource;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// The schemas by name.
pub(super) fn schemas(group: &ServedGroup<'_>, version: &ServedVersion<'_>) -> BTreeMap<String, Value> {
    let mut components = Components { table: table(), schemas: shared_schemas() };
    for resource in &version.resources {
        let name = components.kind(group, version, resource.kind);
        let list = json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": field_reference(&meta("ListMeta")),
                "items": {"type": "array", "items": reference(&name)},
            },
            "x-kubernetes-group-version-kind":
                [group_version_kind(group, version, &format!("{}List", resource.kind))],
        });
        components.schemas.insert(format!("{name}List"), list);
        if resource.has(Subresource::Binding) {
            components.kind(group, version, "Binding");
        }
        if resource.has(Subresource::Eviction) {
            let eviction = components.of_kind("policy", "v1", "Eviction");
            components.add_group_version_kinds(
                &eviction,
                vec![json!({"group": "policy", "version": "v1", "kind": "Eviction"})],
            );
        }
    }
    let options = components.of_kind("", "v1", "DeleteOptions");
    let mut kinds = vec![json!({"group": "", "version": "v1", "kind": "DeleteOptions"})];
    if !group.name.is_empty() {
        kinds.push(group_version_kind(group, version, "DeleteOptions"));
    }
    components.add_group_version_kinds(&options, kinds);
    components.schemas
}

/// The name of the schema of a kind: `io.k8s.api.batch.v1.Job`.
pub(super) fn name_of_kind(group: &str, version: &str, kind: &str) -> String {
    match table().kind(group, version, kind) {
        Some(ValueType::Object(of)) => full_name(&table().object(of).name),
        _ => panic!("{group}/{version} {kind} has no schema"),
    }
}

/// A reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The name of a schema of apimachinery.
pub(super) fn meta(name: &str) -> String {
    format!("{META}.{name}")
}

/// A reference inside `allOf`, as fields need it; clients expect it even without other entries.
fn field_reference(name: &str) -> Value {
    json!({"allOf": [reference(name)]})
}

/// `batch.v1.Job` → `io.k8s.api.batch.v1.Job`.
fn full_name(short: &str) -> String {
    match short.strip_prefix("meta.v1.") {
        Some(name) => meta(name),
        None => format!("io.k8s.api.{short}"),
    }
}

struct Components {
    table: &'static SchemaTable,
    schemas: BTreeMap<String, Value>,
}

impl Components {
    /// Adds a kind of this document's group and version.
    fn kind(&mut self, group: &ServedGroup<'_>, version: &ServedVersion<'_>, kind: &str) -> String {
        let name = self.of_kind(group.name, version.name, kind);
        self.add_group_version_kinds(&name, vec![group_version_kind(group, version, kind)]);
        name
    }

    fn of_kind(&mut self, group: &str, version: &str, kind: &str) -> String {
        let name = name_of_kind(group, version, kind);
        let shape = self.table.kind(group, version, kind).expect("a kind with a name has a schema");
        self.schema_of(shape);
        name
    }

    fn add_group_version_kinds(&mut self, name: &str, kinds: Vec<Value>) {
        let schema = self.schemas.get_mut(name).expect("the schema was just added");
        schema["x-kubernetes-group-version-kind"] = Value::Array(kinds);
    }

    /// The schema of a type. Adds the schemas of the types that it refers to.
    fn schema_of(&mut self, shape: ValueType) -> Value {
        match shape {
            ValueType::Text => json!({"type": "string"}),
            ValueType::Bytes => json!({"type": "string", "format": "byte"}),
            ValueType::Time => reference(&meta("Time")),
            ValueType::Quantity => self.scalar(QUANTITY, || json!({"oneOf": [{"type": "string"}, {"type": "number"}]})),
            ValueType::IntOrString => self.scalar(
                INT_OR_STRING,
                || json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
            ),
            ValueType::Int32 => json!({"type": "integer", "format": "int32"}),
            ValueType::Int64 => json!({"type": "integer", "format": "int64"}),
            ValueType::Boolean => json!({"type": "boolean"}),
            ValueType::Any => json!({"type": "object"}),
            ValueType::List(of) => json!({"type": "array", "items": self.schema_of(self.table.element_type(of))}),
            ValueType::Map(of) => {
                json!({"type": "object", "additionalProperties": self.schema_of(self.table.element_type(of))})
            }
            ValueType::Object(of) => {
                let of = self.table.object(of);
                let name = full_name(&of.name);
                if !self.schemas.contains_key(&name) {
                    // A type may contain itself, so its name is inserted before its schema is known.
                    self.schemas.insert(name.clone(), Value::Null);
                    let schema = self.object(of);
                    self.schemas.insert(name.clone(), schema);
                }
                reference(&name)
            }
        }
    }

    /// A scalar that has a schema of its own.
    fn scalar(&mut self, name: &str, schema: fn() -> Value) -> Value {
        self.schemas.entry(name.to_owned()).or_insert_with(schema);
        reference(name)
    }

    fn object(&mut self, of: &ObjectSchema) -> Value {
        let mut properties = Map::new();
        for field in &of.fields {
            properties.insert(field.name.to_string(), self.field(of, field));
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        if let Some(text) = description(&of.name, None) {
            schema.insert("description".to_owned(), json!(text));
        }
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        if !of.required.is_empty() {
            schema.insert("required".to_owned(), json!(of.required));
        }
        if of.is_atomic {
            schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        }
        Value::Object(schema)
    }

    fn field(&mut self, of: &ObjectSchema, field: &FieldSchema) -> Value {
        let mut schema = self.schema_of(field.value_type);
        if schema.get("$ref").is_some() {
            schema = json!({"allOf": [schema]});
        }
        if let Some(text) = description(&of.name, Some(&field.name)) {
            schema["description"] = json!(text);
        }
        if let Some(FieldMarkers { list, keys, map, merge_key, strategy, default }) = field.markers.as_deref() {
            let marks = [
                ("default", default.clone()),
                ("x-kubernetes-list-type", list.map(|list| json!(list.as_str()))),
                ("x-kubernetes-list-map-keys", (!keys.is_empty()).then(|| json!(keys))),
                ("x-kubernetes-map-type", map.as_ref().map(|map| json!(map))),
                ("x-kubernetes-patch-merge-key", merge_key.as_ref().map(|key| json!(key))),
                ("x-kubernetes-patch-strategy", strategy.as_ref().map(|strategy| json!(strategy))),
            ];
            for (name, value) in marks {
                if let Some(value) = value {
                    schema[name] = value;
                }
            }
        }
        schema
    }
}

/// Schemas that every document has: those of lists, patches, deletes and the metadata of all objects.
fn shared_schemas() -> BTreeMap<String, Value> {
    let string = json!({"type": "string"});
    let of = |properties: Value| json!({"type": "object", "properties": properties});
    let mut status = of(json!({
        "apiVersion": string, "kind": string, "message": string, "reason": string, "status": string,
        "code": {"type": "integer", "format": "int32"},
        "details": field_reference(&meta("StatusDetails")),
        "metadata": field_reference(&meta("ListMeta")),
    }));
    status["x-kubernetes-group-version-kind"] = json!([{"group": "", "version": "v1", "kind": "Status"}]);
    let details = of(json!({
        "group": string, "kind": string, "name": string, "uid": string,
        "causes": {
            "type": "array", "items": reference(&meta("StatusCause")), "x-kubernetes-list-type": "atomic",
        },
        "retryAfterSeconds": {"type": "integer", "format": "int32"},
    }));
    let list = of(json!({
        "continue": string, "resourceVersion": string, "selfLink": string,
        "remainingItemCount": {"type": "integer", "format": "int64"},
    }));
    BTreeMap::from([
        (meta("Time"), json!({"type": "string", "format": "date-time"})),
        (meta("Patch"), json!({"type": "object"})),
        (meta("ListMeta"), list),
        (meta("Status"), status),
        (meta("StatusDetails"), details),
        (meta("StatusCause"), of(json!({"field": string, "message": string, "reason": string}))),
    ])
}
