//! How an empty field is encoded: omitted, as `null`, or as its empty value.
//!
//! The schema of Kubernetes does not define it; its Go types do. `cargo xtask schema` generates the file, which has the
//! exceptions from [`EmptyValueEncoding::default_for`].

use std::collections::BTreeMap;

use serde::Deserialize;

use super::table::ValueType;

const EMPTY_VALUES_JSON: &str = include_str!("form-1.37.1.json");

/// How an empty field is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyValueEncoding {
    /// As it was sent. The empty value is kept, and `null` is removed.
    AsSent,
    /// Omitted. The empty value is removed.
    Omitted,
    /// Always present, as its empty value if it was not sent.
    Written,
    /// Always present, as `null` if it was not sent.
    Null,
}

impl EmptyValueEncoding {
    /// The encoding of most fields of this type. Required fields are always present.
    fn default_for(shape: ValueType, required: bool) -> EmptyValueEncoding {
        match shape {
            ValueType::List(_) | ValueType::Map(_) | ValueType::Time if required => EmptyValueEncoding::Null,
            ValueType::Any => EmptyValueEncoding::AsSent,
            _ if required => EmptyValueEncoding::Written,
            ValueType::List(_) | ValueType::Map(_) | ValueType::Time | ValueType::Text | ValueType::Bytes => {
                EmptyValueEncoding::Omitted
            }
            _ => EmptyValueEncoding::AsSent,
        }
    }
}

/// The exceptions of all types.
#[derive(Deserialize)]
pub(super) struct EmptyValueRules {
    types: BTreeMap<String, TypeExceptions>,
}

/// The exceptions of one type.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct TypeExceptions {
    keep: Vec<String>,
    omit: Vec<String>,
    write: Vec<String>,
    null: Vec<String>,
    micro: Vec<String>,
}

impl EmptyValueRules {
    pub(super) fn load() -> EmptyValueRules {
        serde_json::from_str(EMPTY_VALUES_JSON).expect("the file lists fields by type")
    }

    /// The encoding of one field. Nothing is known about types of older versions only: their fields stay as sent.
    pub(super) fn of(&self, of: &str, field: &str, shape: ValueType, required: bool) -> EmptyValueEncoding {
        let Some(learned) = self.types.get(of) else { return EmptyValueEncoding::AsSent };
        let lists = |fields: &[String]| fields.iter().any(|name| name == field);
        let learned = [
            (&learned.keep, EmptyValueEncoding::AsSent),
            (&learned.omit, EmptyValueEncoding::Omitted),
            (&learned.write, EmptyValueEncoding::Written),
            (&learned.null, EmptyValueEncoding::Null),
        ];
        let found = learned.into_iter().find(|(fields, _)| lists(fields));
        found.map_or_else(|| EmptyValueEncoding::default_for(shape, required), |(_, form)| form)
    }

    /// Whether a time has microseconds.
    pub(super) fn is_micro(&self, of: &str, field: &str) -> bool {
        self.types.get(of).is_some_and(|learned| learned.micro.iter().any(|name| name == field))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use crate::kinds;
    use crate::schema::table::{ValueType, table};
    use crate::schema::{check, write_empty_fields};

    fn read(group: &str, version: &str, kind: &str, mut document: Value) -> Value {
        let findings = check(group, version, kind, &mut document);
        assert_eq!((findings.unknown, findings.type_errors), (vec![], vec![]));
        document
    }

    #[test]
    fn empty_fields_are_removed_and_fields_that_are_always_present_are_added() {
        for (kind, sent, want) in [
            (
                "Workload",
                json!({"spec": {"controllerRef": {"apiGroup": "", "kind": "Job", "name": ""},
                    "compositePodGroupTemplates": [], "podGroupTemplates": [{"name": "a", "resourceClaims": [],
                    "priorityClassName": "", "priority": 0, "schedulingConstraints": {"topology": []}}]}}),
                json!({"spec": {"controllerRef": {"kind": "Job", "name": ""}, "podGroupTemplates": [{"name": "a",
                    "priority": 0, "schedulingConstraints": {}, "schedulingPolicy": {}}]}}),
            ),
            (
                "Workload",
                json!({"spec": {"podGroupTemplates": [null]}}),
                json!({"spec": {"podGroupTemplates": [{"name": "", "schedulingConstraints": null,
                    "schedulingPolicy": {}}]}}),
            ),
            ("Workload", json!({"spec": null}), json!({"spec": {"podGroupTemplates": null}})),
            ("Workload", json!({"spec": {"podGroupTemplates": []}}), json!({"spec": {"podGroupTemplates": []}})),
            (
                "PodGroup",
                json!({"metadata": {"labels": {}, "finalizers": [], "generateName": "", "generation": 0}}),
                json!({"metadata": {}, "spec": {"schedulingPolicy": {}}, "status": {}}),
            ),
        ] {
            assert_eq!(read("scheduling.k8s.io", "v1beta1", kind, sent.clone()), want, "{sent}");
        }
    }

    #[test]
    fn times_are_in_whole_seconds_or_microseconds_of_utc_and_the_zero_time_is_null() {
        let condition = |time: &str| {
            let pod = json!({"status": {"conditions": [{"type": "A", "status": "True", "lastProbeTime": time}]}});
            read("", "v1", "Pod", pod)["status"]["conditions"][0]["lastProbeTime"].take()
        };
        assert_eq!(condition("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z");
        assert_eq!(condition("2030-01-01T00:00:00.123456+02:00"), "2029-12-31T22:00:00Z");
        assert_eq!(condition("0001-01-01T00:00:00Z"), Value::Null);
        let event = read("", "v1", "Event", json!({"eventTime": "2030-01-01T00:00:00.5+02:00"}));
        assert_eq!(event["eventTime"], "2029-12-31T22:00:00.500000Z");
    }

    #[test]
    fn removed_field_that_is_always_present_is_added_again() {
        let mut job = json!({"spec": {"a": 1}});
        write_empty_fields("batch", "v1", "Job", &mut job);
        assert_eq!(job, json!({"spec": {"a": 1}, "status": {}}));
        let mut class = json!({"value": 3});
        write_empty_fields("scheduling.k8s.io", "v1", "PriorityClass", &mut class);
        assert_eq!(class, json!({"value": 3}));
    }

    /// A value of this type, or `null`, according to `choices`; empty once these have run out.
    fn sample(shape: ValueType, depth: usize, choices: &mut impl Iterator<Item = u8>) -> Value {
        let choice = choices.next().unwrap_or(0);
        if choice % 5 == 1 && depth > 0 {
            return Value::Null;
        }
        let filled = choice % 5 > 2 && depth < 12;
        match shape {
            ValueType::Text | ValueType::Bytes => json!(if filled { "x" } else { "" }),
            ValueType::Time => json!(if filled { "2030-01-01T00:00:00.5+02:00" } else { "0001-01-01T00:00:00Z" }),
            ValueType::Quantity => json!(if filled { "1500m" } else { "0" }),
            ValueType::IntOrString | ValueType::Int32 | ValueType::Int64 => json!(i32::from(filled)),
            ValueType::Boolean => json!(filled),
            ValueType::Any => json!({}),
            ValueType::List(of) if filled => json!([element(table().element_type(of), depth + 1, choices)]),
            ValueType::Map(of) if filled => json!({"k": element(table().element_type(of), depth + 1, choices)}),
            ValueType::List(_) => json!([]),
            ValueType::Map(_) => json!({}),
            ValueType::Object(of) => {
                let fields = table().object(of).fields.iter().filter(|_| depth < 12);
                let mut object = Map::new();
                for field in fields {
                    if choices.next().unwrap_or(0) % 2 == 1 {
                        object.insert(field.name.to_string(), sample(field.value_type, depth + 1, choices));
                    }
                }
                Value::Object(object)
            }
        }
    }

    /// An item of a list or an entry of a map.
    // Upstream: reads a null time as the zero time. `status.disruptedPods` of a budget has the only times that are
    // entries of a map, and a null there is refused here.
    fn element(shape: ValueType, depth: usize, choices: &mut impl Iterator<Item = u8>) -> Value {
        match (shape, sample(shape, depth, choices)) {
            (ValueType::Time, Value::Null) => json!("0001-01-01T00:00:00Z"),
            (_, value) => value,
        }
    }

    proptest! {
        #[test]
        fn normalized_document_does_not_change(
            resource in prop::sample::select(kinds::ALL),
            choices in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            let (group, version, kind) = (resource.group, resource.version(), resource.kind);
            let shape = table().kind(group, version, kind).expect("it is served");
            let once = read(group, version, kind, sample(shape, 0, &mut choices.into_iter()));
            let mut again = read(group, version, kind, once.clone());
            prop_assert_eq!(&again, &once);
            write_empty_fields(group, version, kind, &mut again);
            prop_assert_eq!(&again, &once);
        }
    }
}
