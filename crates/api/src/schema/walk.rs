//! A document held against the tables, in one pass.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::Value;

use super::table::{Shape, Table, table};
use super::{Findings, TypeError};
use crate::quantity::Quantity;

/// Checks `document`, drops what is unknown or `null`, and writes quantities in canonical form.
pub fn check(shape: Shape, document: &mut Value) -> Findings {
    let mut walk = Walk { table: table(), findings: Findings::default() };
    walk.value(shape, document, &Place::Root);
    walk.findings
}

struct Walk {
    table: &'static Table,
    findings: Findings,
}

/// Where the walk stands: a chain on the stack, made into text only for a finding.
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
    Key(&'a Place<'a>, &'a str),
}

impl Place<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        let written = match self {
            Place::Root => Ok(()),
            Place::Field(parent, name) => {
                parent.write(text);
                let dot = if text.is_empty() { "" } else { "." };
                write!(text, "{dot}{name}")
            }
            Place::Item(parent, index) => {
                parent.write(text);
                write!(text, "[{index}]")
            }
            Place::Key(parent, key) => {
                parent.write(text);
                write!(text, "[{key}]")
            }
        };
        written.expect("writing to a String cannot fail");
    }
}

impl Walk {
    fn value(&mut self, shape: Shape, value: &mut Value, place: &Place<'_>) {
        match (shape, &mut *value) {
            (Shape::Any, _) | (Shape::Text | Shape::Bytes, Value::String(_)) | (Shape::Boolean, Value::Bool(_)) => {}
            (Shape::Object(of), Value::Object(fields)) => {
                let of = self.table.object(of);
                fields.retain(|name, value| match of.field(name) {
                    Some(_) if value.is_null() => false,
                    Some(field) => {
                        self.value(field.shape, value, &Place::Field(place, name));
                        true
                    }
                    None => {
                        self.findings.unknown.push(Place::Field(place, name).text());
                        false
                    }
                });
            }
            (Shape::List(of), Value::Array(items)) => {
                let of = self.table.inner(of);
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(of, item, &Place::Item(place, index));
                }
            }
            (Shape::Map(of), Value::Object(entries)) => {
                let of = self.table.inner(of);
                entries.retain(|key, value| {
                    if value.is_null() && of == Shape::Text {
                        // A key written without a value, as in `labels: {gpu: }`, has the empty text.
                        *value = Value::String(String::new());
                    }
                    self.value(of, value, &Place::Key(place, key));
                    true
                });
            }
            (Shape::Quantity, Value::String(_) | Value::Number(_)) => self.quantity(value, place),
            (Shape::Time, Value::String(text)) if text.parse::<Timestamp>().is_ok() => {}
            (Shape::Int32, Value::Number(number)) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {}
            (Shape::Int64, Value::Number(number)) if number.is_i64() => {}
            (Shape::IntOrString, Value::String(_)) => {}
            (Shape::IntOrString, Value::Number(number)) if number.is_i64() => {}
            _ => self.wrong(shape, value, place),
        }
    }

    fn quantity(&mut self, value: &mut Value, place: &Place<'_>) {
        let parsed = match &*value {
            Value::String(text) => Quantity::parse(text),
            number => Quantity::parse(&number.to_string()),
        };
        match parsed {
            Err(_) => self.wrong(Shape::Quantity, value, place),
            Ok(quantity) => {
                let canonical = quantity.to_string();
                if value.as_str() != Some(&canonical) {
                    *value = Value::String(canonical);
                }
            }
        }
    }

    fn wrong(&mut self, shape: Shape, value: &Value, place: &Place<'_>) {
        let error = TypeError { path: place.text(), expected: name(shape, value), found: describe(value) };
        self.findings.type_errors.push(error);
    }
}

fn name(shape: Shape, found: &Value) -> &'static str {
    match shape {
        Shape::Int32 if found.is_i64() => "integer of 32 bits",
        Shape::Text | Shape::Bytes => "string",
        Shape::Time => "time in RFC 3339 form",
        Shape::Quantity => "quantity",
        Shape::IntOrString => "integer or string",
        Shape::Int32 | Shape::Int64 => "integer",
        Shape::Boolean => "boolean",
        Shape::Any => "value",
        Shape::Object(_) | Shape::Map(_) => "object",
        Shape::List(_) => "array",
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

    use crate::schema::{check, knows, kubernetes_version, unknown_fields};

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
                "hostNetwork": false,
                "priority": 3,
                "schedulingGroup": {"podGroupName": "g"},
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
            },
            "status": {"phase": "Pending"},
        })
    }

    #[test]
    fn the_served_kinds_are_known() {
        assert_eq!(kubernetes_version(), "1.37.1");
        for (group, version, kinds) in [
            ("", "v1", &["Namespace", "Node", "Pod", "Event", "Binding", "DeleteOptions"] as &[&str]),
            ("batch", "v1", &["Job", "CronJob"]),
            ("scheduling.k8s.io", "v1", &["PriorityClass"]),
            ("scheduling.k8s.io", "v1beta1", &["Workload", "PodGroup"]),
            ("scheduling.k8s.io", "v1alpha3", &["Workload", "PodGroup", "CompositePodGroup"]),
        ] {
            for kind in kinds {
                assert!(knows(group, version, kind), "{group}/{version} {kind}");
            }
        }
        assert!(!knows("apps", "v1", "Deployment"));
    }

    #[test]
    fn a_good_pod_is_left_as_it_is() {
        let mut document = pod();
        let findings = check("", "v1", "Pod", &mut document);
        assert_eq!((findings.unknown, findings.type_errors), (vec![], vec![]));
        assert_eq!(document, pod());
    }

    #[test]
    fn a_misspelt_field_is_named_and_dropped() {
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
            assert_eq!(unknown_fields("batch", "v1", kind, &document), Vec::<String>::new(), "{want} is gone");
        }
    }

    #[test]
    fn values_of_the_wrong_type_are_all_named() {
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
    fn nulls_go_and_quantities_become_canonical() {
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
                "spec": {"containers": [
                    {"resources": {"requests": {"cpu": "500m", "memory": "1Mi", "example.com/x": "4"}}}]},
            })
        );
    }

    #[test]
    fn free_form_parts_are_not_looked_into() {
        let mut pod = json!({"metadata": {"managedFields": [{"fieldsV1": {"f:nonsense": null}}]}});
        let before = pod.clone();
        assert_eq!(check("", "v1", "Pod", &mut pod), Default::default());
        assert_eq!(pod, before);
    }

    /// Every object in the document that has known fields, by JSON pointer and by field path.
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
        fn one_unknown_field_is_found_wherever_it_stands(at in 0..OBJECTS.len(), name in "x[a-zA-Z]{0,12}x") {
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
