//! Checks a document against the tables in one pass.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::empty_values::EmptyValueEncoding;
use super::table::{FieldSchema, ObjectSchema, SchemaTable, ValueType, table};
use super::{SchemaFindings, TypeError};
use crate::clock::{rfc3339, rfc3339_micros};
use crate::quantity::Quantity;

/// The zero time, which means unset.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// Checks `document`, drops unknown fields, and writes the rest in its storage form.
pub fn check(shape: ValueType, document: &mut Value) -> SchemaFindings {
    let mut walk = SchemaChecker { table: table(), findings: SchemaFindings::default() };
    walk.value(shape, document, &DocumentPosition::Root);
    walk.findings
}

/// Adds the top-level fields that a document of this type always has.
pub fn write_empty_fields(shape: ValueType, document: &mut Value) {
    if let (ValueType::Object(of), Value::Object(fields)) = (shape, document) {
        let mut walk = SchemaChecker { table: table(), findings: SchemaFindings::default() };
        walk.write_empty_fields(walk.table.object(of), fields);
    }
}

struct SchemaChecker {
    table: &'static SchemaTable,
    findings: SchemaFindings,
}

/// The position of the walk: a chain on the stack, turned into text only for a finding.
enum DocumentPosition<'a> {
    Root,
    Field(&'a DocumentPosition<'a>, &'a str),
    Item(&'a DocumentPosition<'a>, usize),
    Key(&'a DocumentPosition<'a>, &'a str),
}

impl DocumentPosition<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        let written = match self {
            DocumentPosition::Root => Ok(()),
            DocumentPosition::Field(parent, name) => {
                parent.write(text);
                let dot = if text.is_empty() { "" } else { "." };
                write!(text, "{dot}{name}")
            }
            DocumentPosition::Item(parent, index) => {
                parent.write(text);
                write!(text, "[{index}]")
            }
            DocumentPosition::Key(parent, key) => {
                parent.write(text);
                write!(text, "[{key}]")
            }
        };
        written.expect("writing to a String cannot fail");
    }
}

impl SchemaChecker {
    fn value(&mut self, shape: ValueType, value: &mut Value, place: &DocumentPosition<'_>) {
        match (shape, &mut *value) {
            (ValueType::Any, _)
            | (ValueType::Text | ValueType::Bytes, Value::String(_))
            | (ValueType::Boolean, Value::Bool(_)) => {}
            (ValueType::Object(of), Value::Object(fields)) => {
                let of = self.table.object(of);
                fields.retain(|name, value| match of.field(name) {
                    Some(field) => self.field(field, value, &DocumentPosition::Field(place, name)),
                    None => {
                        self.findings.unknown.push(DocumentPosition::Field(place, name).text());
                        false
                    }
                });
                self.write_empty_fields(of, fields);
            }
            (ValueType::List(of), Value::Array(items)) => {
                let of = self.table.element_type(of);
                for (index, item) in items.iter_mut().enumerate() {
                    if item.is_null() {
                        *item = zero(of);
                    }
                    self.value(of, item, &DocumentPosition::Item(place, index));
                }
            }
            (ValueType::Map(of), Value::Object(entries)) => {
                let of = self.table.element_type(of);
                entries.retain(|key, value| {
                    if value.is_null() {
                        // A key without a value, as in `labels: {gpu: }`, has the empty string.
                        *value = zero(of);
                    }
                    self.value(of, value, &DocumentPosition::Key(place, key));
                    true
                });
            }
            (ValueType::Quantity, Value::String(_) | Value::Number(_)) => self.quantity(value, place),
            (ValueType::Time, Value::String(text)) if text.parse::<Timestamp>().is_ok() => {}
            (ValueType::Int32, Value::Number(number)) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {}
            (ValueType::Int64, Value::Number(number)) if number.is_i64() => {}
            (ValueType::IntOrString, Value::String(_)) => {}
            (ValueType::IntOrString, Value::Number(number)) if number.is_i64() => {}
            _ => self.push_type_error(shape, value, place),
        }
    }

    /// Checks a field. Returns whether it is kept.
    fn field(&mut self, field: &FieldSchema, value: &mut Value, place: &DocumentPosition<'_>) -> bool {
        if value.is_null() {
            match field.empty_encoding {
                EmptyValueEncoding::AsSent | EmptyValueEncoding::Omitted => return false,
                EmptyValueEncoding::Null => return true,
                EmptyValueEncoding::Written => *value = zero(field.value_type),
            }
        }
        self.value(field.value_type, value, place);
        match field.value_type {
            ValueType::Time => time(field, value),
            shape => field.empty_encoding != EmptyValueEncoding::Omitted || !is_empty(shape, value),
        }
    }

    /// Adds the fields that are always present.
    fn write_empty_fields(&mut self, of: &ObjectSchema, fields: &mut Map<String, Value>) {
        for &at in &of.always_written {
            let field = &of.fields[at];
            if !fields.contains_key(&*field.name) {
                let mut value = Value::Null;
                if field.empty_encoding == EmptyValueEncoding::Written {
                    value = zero(field.value_type);
                    self.value(field.value_type, &mut value, &DocumentPosition::Root);
                }
                fields.insert(field.name.to_string(), value);
            }
        }
    }

    fn quantity(&mut self, value: &mut Value, place: &DocumentPosition<'_>) {
        let parsed = match &*value {
            Value::String(text) => Quantity::parse(text),
            number => Quantity::parse(&number.to_string()),
        };
        match parsed {
            Err(_) => self.push_type_error(ValueType::Quantity, value, place),
            Ok(quantity) => {
                let canonical = quantity.to_string();
                if value.as_str() != Some(&canonical) {
                    *value = Value::String(canonical);
                }
            }
        }
    }

    fn push_type_error(&mut self, shape: ValueType, value: &Value, place: &DocumentPosition<'_>) {
        let error = TypeError { path: place.text(), expected: name(shape, value), found: describe(value) };
        self.findings.type_errors.push(error);
    }
}

/// The value that replaces `null` where a value is required: an item of a list cannot be omitted.
fn zero(shape: ValueType) -> Value {
    match shape {
        ValueType::Object(_) | ValueType::Map(_) => Value::Object(Map::new()),
        ValueType::List(_) => Value::Array(Vec::new()),
        ValueType::Text | ValueType::Bytes => Value::String(String::new()),
        ValueType::Int32 | ValueType::Int64 | ValueType::IntOrString | ValueType::Quantity => Value::from(0),
        ValueType::Boolean => Value::Bool(false),
        ValueType::Time | ValueType::Any => Value::Null,
    }
}

/// Whether the value equals that of an unset field. An object with known fields is never empty.
fn is_empty(shape: ValueType, value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty() && shape != ValueType::Quantity,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(truth) => !truth,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => matches!(shape, ValueType::Map(_)) && entries.is_empty(),
        Value::Null => false,
    }
}

/// Writes a time in its storage form, or as unset. Returns whether the field is kept.
fn time(field: &FieldSchema, value: &mut Value) -> bool {
    let Value::String(text) = &*value else { return true };
    // Nearly all times are in the storage form already and need no parsing.
    let is_plain = text.len() == ZERO_TIME.len() && text.ends_with('Z') && !field.is_micro;
    let canonical = match text.parse::<Timestamp>() {
        _ if text == ZERO_TIME => None,
        _ if is_plain => return true,
        Ok(time) if field.is_micro => Some(rfc3339_micros(time)),
        Ok(time) => Some(rfc3339(time)),
        Err(_) => return true,
    };
    let stays = canonical.is_some() || field.empty_encoding == EmptyValueEncoding::Null;
    *value = canonical.map_or(Value::Null, Value::String);
    stays
}

fn name(shape: ValueType, found: &Value) -> &'static str {
    match shape {
        ValueType::Int32 if found.is_i64() => "integer of 32 bits",
        ValueType::Text | ValueType::Bytes => "string",
        ValueType::Time => "time in RFC 3339 form",
        ValueType::Quantity => "quantity",
        ValueType::IntOrString => "integer or string",
        ValueType::Int32 | ValueType::Int64 => "integer",
        ValueType::Boolean => "boolean",
        ValueType::Any => "value",
        ValueType::Object(_) | ValueType::Map(_) => "object",
        ValueType::List(_) => "array",
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => format!("boolean {truth}"),
        Value::Number(number) => format!("number {number}"),
        Value::String(text) => {
            let short: String = text.chars().take(40).collect();
            let rest = if short.len() < text.len() { "…" } else { "" };
            format!("string {}{rest}", Value::String(short))
        }
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::kinds;
    use crate::schema::{check, has_kind, kubernetes_version, unknown_fields};

    fn pod() -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"fieldsV1": {"f:spec": {".": {}}}}]},
            "spec": {
                "containers": [{
                    "name": "main", "image": "x",
                    "ports": [{"containerPort": 80}],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"port": "http"}},
                }],
                "hostNetwork": true,
                "securityContext": {},
                "priority": 3,
                "schedulingGroup": {"podGroupName": "g"},
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
            },
            "status": {"phase": "Pending"},
        })
    }

    #[test]
    fn schema_has_all_served_kinds() {
        assert_eq!(kubernetes_version(), "1.37.1");
        for resource in kinds::ALL {
            // Kubernetes no longer has older versions, which are converted.
            let versions = if resource.is_stored_elsewhere() { resource.converted_versions } else { resource.versions };
            for version in versions {
                assert!(
                    has_kind(resource.group, version, resource.kind),
                    "{}/{version} {}",
                    resource.group,
                    resource.kind
                );
            }
        }
        // Bodies of requests.
        for kind in ["Binding", "DeleteOptions"] {
            assert!(has_kind("", "v1", kind), "{kind}");
        }
        assert!(!has_kind("apps", "v1", "Deployment"));
    }

    #[test]
    fn valid_pod_does_not_change() {
        let mut document = pod();
        let findings = check("", "v1", "Pod", &mut document);
        assert_eq!((findings.unknown, findings.type_errors), (vec![], vec![]));
        assert_eq!(document, pod());
    }

    #[test]
    fn unknown_field_is_reported_and_dropped() {
        for (kind, mut document, want) in [
            ("Job", json!({"spec": {"template": {"spec": {"contaners": []}}}}), "spec.template.spec.contaners"),
            (
                "Job",
                json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}, {"imag": "x"}]}}}}),
                "spec.template.spec.containers[1].imag",
            ),
            ("Job", json!({"spec": {"paralelism": null}}), "spec.paralelism"),
            ("Job", json!({"specs": {"a": 1}}), "specs"),
            (
                "Job",
                json!({"spec": {"scheduling": {"schedulingPolicy": {"gang": {"mincount": 4}}}}}),
                "spec.scheduling.schedulingPolicy.gang.mincount",
            ),
        ] {
            assert_eq!(unknown_fields("batch", "v1", kind, &document), [want]);
            let findings = check("batch", "v1", kind, &mut document);
            assert_eq!(findings.unknown, [want]);
            assert_eq!(unknown_fields("batch", "v1", kind, &document), Vec::<String>::new(), "{want} is dropped");
        }
    }

    #[test]
    fn all_values_of_the_wrong_type_are_reported() {
        let mut job = json!({
            "metadata": {"labels": {"a": 1}, "creationTimestamp": "yesterday"},
            "spec": {
                "parallelism": "four",
                "completions": 3_000_000_000_i64,
                "suspend": "false",
                "backoffLimit": 1.5,
                "template": {"spec": {"containers": {"name": "a"}, "nodeSelector": [], "initContainers": [
                    {"resources": {"limits": {"cpu": "many", "memory": true}}}]}},
            },
        });
        let found: Vec<String> =
            check("batch", "v1", "Job", &mut job).type_errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "metadata.creationTimestamp: expected time in RFC 3339 form, found string \"yesterday\"",
                "metadata.labels[a]: expected string, found number 1",
                "spec.backoffLimit: expected integer, found number 1.5",
                "spec.completions: expected integer of 32 bits, found number 3000000000",
                "spec.parallelism: expected integer, found string \"four\"",
                "spec.suspend: expected boolean, found string \"false\"",
                "spec.template.spec.containers: expected array, found object",
                "spec.template.spec.initContainers[0].resources.limits[cpu]: expected quantity, found string \"many\"",
                "spec.template.spec.initContainers[0].resources.limits[memory]: expected quantity, found boolean true",
                "spec.template.spec.nodeSelector: expected object, found array",
            ]
        );
    }

    #[test]
    fn nulls_are_removed_and_quantities_become_canonical() {
        let mut pod = json!({
            "metadata": {"creationTimestamp": null, "labels": {"gpu": null}},
            "spec": {"nodeName": null, "containers": [
                {"resources": {"requests": {"cpu": 0.5, "memory": "1024Ki", "example.com/x": 4}}}]},
        });
        assert_eq!(check("", "v1", "Pod", &mut pod), Default::default());
        assert_eq!(
            pod,
            json!({
                "metadata": {"labels": {"gpu": ""}},
                "spec": {"containers": [{
                    "name": "",
                    "resources": {"requests": {"cpu": "500m", "memory": "1Mi", "example.com/x": "4"}}}],
                    "securityContext": {}},
                "status": {},
            })
        );
    }

    #[test]
    fn free_form_values_are_not_checked() {
        let mut pod = json!({"metadata": {"managedFields": [{"fieldsV1": {"f:nonsense": null}}]}});
        let before = pod.clone();
        assert_eq!(check("", "v1", "Pod", &mut pod), Default::default());
        assert_eq!(pod["metadata"], before["metadata"]);
    }

    /// All objects of the document that have known fields, by JSON pointer and by field path.
    const OBJECTS: &[(&str, &str)] = &[
        ("", ""),
        ("/metadata", "metadata."),
        ("/spec", "spec."),
        ("/spec/containers/0", "spec.containers[0]."),
        ("/spec/containers/0/ports/0", "spec.containers[0].ports[0]."),
        ("/spec/containers/0/livenessProbe/httpGet", "spec.containers[0].livenessProbe.httpGet."),
        ("/spec/schedulingGroup", "spec.schedulingGroup."),
        ("/spec/affinity/nodeAffinity", "spec.affinity.nodeAffinity."),
    ];

    proptest! {
        #[test]
        fn unknown_field_is_found_in_any_object(at in 0..OBJECTS.len(), name in "x[a-zA-Z]{0,12}x") {
            let (pointer, path) = OBJECTS[at];
            let mut document = pod();
            let object = document.pointer_mut(pointer).and_then(Value::as_object_mut).expect("the pod has this object");
            object.insert(name.clone(), json!({"any": ["thing"]}));
            let findings = check("", "v1", "Pod", &mut document);
            prop_assert_eq!(findings.unknown, vec![format!("{path}{name}")]);
            prop_assert_eq!(findings.type_errors, vec![]);
            prop_assert_eq!(document, pod());
        }
    }
}
