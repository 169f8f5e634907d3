//! The schemas of one document: the served kinds, their lists, and everything that these refer to.

use std::collections::BTreeMap;

use api::schema::{Field, Marks, Shape, Table, Type, description, table};
use serde_json::{Map, Value, json};

use super::group_version_kind;
use crate::discovery::{Group, Version};
use crate::resource::Subresource;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// The schemas by name.
pub(super) fn schemas(group: &Group<'_>, version: &Version<'_>) -> BTreeMap<String, Value> {
    let mut components = Components { table: table(), made: shared() };
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
        components.made.insert(format!("{name}List"), list);
        if resource.has(Subresource::Binding) {
            components.kind(group, version, "Binding");
        }
        if resource.has(Subresource::Eviction) {
            let eviction = components.of_kind("policy", "v1", "Eviction");
            components.mark(&eviction, vec![json!({"group": "policy", "version": "v1", "kind": "Eviction"})]);
        }
    }
    let options = components.of_kind("", "v1", "DeleteOptions");
    let mut kinds = vec![json!({"group": "", "version": "v1", "kind": "DeleteOptions"})];
    if !group.name.is_empty() {
        kinds.push(group_version_kind(group, version, "DeleteOptions"));
    }
    components.mark(&options, kinds);
    components.made
}

/// The name of the schema of a kind: `io.k8s.api.batch.v1.Job`.
pub(super) fn name_of_kind(group: &str, version: &str, kind: &str) -> String {
    match table().kind(group, version, kind) {
        Some(Shape::Object(of)) => full_name(&table().object(of).name),
        _ => panic!("the structure of {group}/{version} {kind} is not known"),
    }
}

/// A pointer to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The name of a schema of the API's own machinery.
pub(super) fn meta(name: &str) -> String {
    format!("{META}.{name}")
}

/// A pointer with room for more beside it, as fields need it; clients expect it even where there is no more.
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
    table: &'static Table,
    made: BTreeMap<String, Value>,
}

impl Components {
    /// Adds a kind of this document's group and version.
    fn kind(&mut self, group: &Group<'_>, version: &Version<'_>, kind: &str) -> String {
        let name = self.of_kind(group.name, version.name, kind);
        self.mark(&name, vec![group_version_kind(group, version, kind)]);
        name
    }

    fn of_kind(&mut self, group: &str, version: &str, kind: &str) -> String {
        let name = name_of_kind(group, version, kind);
        let shape = self.table.kind(group, version, kind).expect("a kind that has a name has a shape");
        self.place(shape);
        name
    }

    fn mark(&mut self, name: &str, kinds: Vec<Value>) {
        let schema = self.made.get_mut(name).expect("the schema was made just now");
        schema["x-kubernetes-group-version-kind"] = Value::Array(kinds);
    }

    /// What stands in one place, with the types behind it added on the way.
    fn place(&mut self, shape: Shape) -> Value {
        match shape {
            Shape::Text => json!({"type": "string"}),
            Shape::Bytes => json!({"type": "string", "format": "byte"}),
            Shape::Time => reference(&meta("Time")),
            Shape::Quantity => self.scalar(QUANTITY, || json!({"oneOf": [{"type": "string"}, {"type": "number"}]})),
            Shape::IntOrString => self.scalar(
                INT_OR_STRING,
                || json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
            ),
            Shape::Int32 => json!({"type": "integer", "format": "int32"}),
            Shape::Int64 => json!({"type": "integer", "format": "int64"}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::Any => json!({"type": "object"}),
            Shape::List(of) => json!({"type": "array", "items": self.place(self.table.inner(of))}),
            Shape::Map(of) => json!({"type": "object", "additionalProperties": self.place(self.table.inner(of))}),
            Shape::Object(of) => {
                let of = self.table.object(of);
                let name = full_name(&of.name);
                if !self.made.contains_key(&name) {
                    // A type may hold itself, so its name stands before its schema is known.
                    self.made.insert(name.clone(), Value::Null);
                    let schema = self.object(of);
                    self.made.insert(name.clone(), schema);
                }
                reference(&name)
            }
        }
    }

    /// A scalar that has a schema of its own.
    fn scalar(&mut self, name: &str, schema: fn() -> Value) -> Value {
        self.made.entry(name.to_owned()).or_insert_with(schema);
        reference(name)
    }

    fn object(&mut self, of: &Type) -> Value {
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

    fn field(&mut self, of: &Type, field: &Field) -> Value {
        let mut schema = self.place(field.shape);
        if schema.get("$ref").is_some() {
            schema = json!({"allOf": [schema]});
        }
        if let Some(text) = description(&of.name, Some(&field.name)) {
            schema["description"] = json!(text);
        }
        if let Some(Marks { list, keys, map, merge_key, strategy, default }) = field.marks.as_deref() {
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

/// Schemas that every document has: what lists, patches, deletes and the metadata of all objects are made of.
fn shared() -> BTreeMap<String, Value> {
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
