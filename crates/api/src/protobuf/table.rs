//! The protobuf file as tables: messages with their fields in order of number.
//!
//! The messages are those of Kubernetes (see `NOTICE`). `cargo xtask protobuf table` generates the file.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

const PROTOBUF_JSON: &str = include_str!("../schema/protobuf-1.37.1.json");

/// The messages of all kinds. Built once.
pub struct DescriptorTable {
    kinds: BTreeMap<&'static str, &'static str>,
    names: BTreeMap<&'static str, u16>,
    messages: Vec<MessageDescriptor>,
}

/// A message: its fields, in order of number.
pub struct MessageDescriptor(Box<[FieldDescriptor]>);

/// One field of a message.
pub struct FieldDescriptor {
    /// The number on the wire.
    pub number: i32,
    /// The name in JSON. Empty if JSON has the fields of this message inline.
    pub name: &'static str,
    /// The cardinality.
    pub cardinality: Cardinality,
    /// The type of one value.
    pub field_type: FieldType,
    /// Whether JSON omits the field if it has the zero value.
    pub omits_zero: bool,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// One: the last value, or all merged.
    One,
    /// Any number.
    List,
    /// Any number, by string key.
    Map,
}

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A string.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A quantity, encoded as a string.
    Quantity,
    /// A time in seconds.
    Time,
    /// A time with microseconds.
    MicroTime,
    /// A number or a string.
    IntOrString,
    /// Raw JSON.
    Json,
    /// The message with this number.
    Message(u16),
}

impl DescriptorTable {
    /// The number of a kind's message.
    pub fn message_of_kind(&self, group: &str, version: &str, kind: &str) -> Option<u16> {
        let name = self.kinds.get(format!("{group}/{version}/{kind}").as_str())?;
        self.names.get(name).copied()
    }

    /// The field with this number, if the message has one.
    pub fn field(&self, message: u16, number: i32) -> Option<&FieldDescriptor> {
        let MessageDescriptor(fields) = &self.messages[usize::from(message)];
        let at = fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&fields[at])
    }
}

/// The table of the embedded file.
pub fn table() -> &'static DescriptorTable {
    static TABLE: OnceLock<DescriptorTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let file: DescriptorFile = serde_json::from_str(PROTOBUF_JSON).expect("the protobuf file was written by xtask");
        let names: BTreeMap<&str, u16> = file.messages.keys().copied().zip(0..).collect();
        let messages = file.messages.values().map(|fields| message(fields, &names)).collect();
        DescriptorTable { kinds: file.kinds, names, messages }
    })
}

#[derive(Deserialize)]
struct DescriptorFile {
    #[serde(borrow)]
    kinds: BTreeMap<&'static str, &'static str>,
    messages: BTreeMap<&'static str, Vec<&'static str>>,
}

fn message(fields: &[&'static str], names: &BTreeMap<&str, u16>) -> MessageDescriptor {
    let mut fields: Box<[FieldDescriptor]> = fields.iter().map(|text| field(text, names)).collect();
    fields.sort_by_key(|field| field.number);
    MessageDescriptor(fields)
}

/// `NUMBER NAME TYPE`, the format of the file.
fn field(text: &'static str, names: &BTreeMap<&str, u16>) -> FieldDescriptor {
    let mut words = text.split(' ');
    let mut word = || words.next().expect("a field has three words");
    let number = word().parse().expect("a field begins with its number");
    let name = match word() {
        "." => "",
        name => name,
    };
    let word = word();
    let (word, omits_zero) = word.strip_suffix('?').map_or((word, false), |word| (word, true));
    let (word, many) = match (word.strip_prefix("[]"), word.strip_prefix("{}")) {
        (Some(items), _) => (items, Cardinality::List),
        (_, Some(values)) => (values, Cardinality::Map),
        _ => (word, Cardinality::One),
    };
    let of = match word {
        "string" => FieldType::Text,
        "bool" => FieldType::Boolean,
        "int32" => FieldType::Int32,
        "int64" => FieldType::Int64,
        "quantity" => FieldType::Quantity,
        "time" => FieldType::Time,
        "micro-time" => FieldType::MicroTime,
        "int-or-string" => FieldType::IntOrString,
        "json" => FieldType::Json,
        other => {
            let name = other.strip_prefix('#').expect("the type is one of the above, or a message");
            FieldType::Message(*names.get(name).expect("the protobuf file names only messages that it has"))
        }
    };
    FieldDescriptor { number, name, cardinality: many, field_type: of, omits_zero }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::schema::{self, ValueType};

    /// The two files have different sources for the same kinds: OpenAPI and the Go types.
    #[test]
    fn every_kind_has_the_fields_of_the_schema_with_the_same_names_and_types() {
        let (table, schema) = (table(), schema::table());
        let mut seen = BTreeSet::new();
        for kind in table.kinds.keys() {
            let [group, version, name] = kind.split('/').collect::<Vec<_>>().try_into().unwrap();
            let shape = schema.kind(group, version, name).unwrap();
            assert_same_fields(
                kind,
                FieldType::Message(table.message_of_kind(group, version, name).unwrap()),
                shape,
                &mut seen,
            );
        }
        assert!(seen.len() > 200, "{}", seen.len());
        let file: Value = serde_json::from_str(include_str!("../schema/kubernetes-1.37.1.json")).unwrap();
        assert_eq!(file["types"].as_object().unwrap().len(), seen.len(), "types that protobuf does not reach");
    }

    fn assert_same_fields(place: &str, of: FieldType, shape: ValueType, seen: &mut BTreeSet<u32>) {
        let (FieldType::Message(message), ValueType::Object(object)) = (of, shape) else {
            let same_type = match of {
                FieldType::Text => shape == ValueType::Text,
                FieldType::Boolean => shape == ValueType::Boolean,
                FieldType::Int32 => shape == ValueType::Int32,
                FieldType::Int64 => shape == ValueType::Int64,
                FieldType::Quantity => shape == ValueType::Quantity,
                FieldType::Time | FieldType::MicroTime => shape == ValueType::Time,
                FieldType::IntOrString => shape == ValueType::IntOrString,
                FieldType::Json => shape == ValueType::Any,
                FieldType::Message(_) => false,
            };
            assert!(same_type, "{place}: {of:?}, {shape:?}");
            return;
        };
        if !seen.insert(object) {
            return;
        }
        let schema = schema::table();
        let known = schema.object(object);
        let mut names: BTreeSet<&str> = known.fields.iter().map(|field| &*field.name).collect();
        for field in json_fields(message) {
            let place = format!("{place}.{}", field.name);
            assert!(names.remove(field.name), "{place} is in protobuf alone, or there twice");
            let shape = match (field.cardinality, known.field(field.name).unwrap().value_type) {
                (Cardinality::One, shape) => shape,
                (Cardinality::List, ValueType::List(items)) => schema.element_type(items),
                (Cardinality::Map, ValueType::Map(values)) => schema.element_type(values),
                (many, shape) => panic!("{place}: {many:?}, {shape:?}"),
            };
            assert_same_fields(&place, field.field_type, shape, seen);
        }
        // The first two are in the envelope. The third is a draft's, and no client has a message for it.
        names.retain(|name| !matches!(*name, "apiVersion" | "kind" | "workloadRef"));
        assert_eq!(names, BTreeSet::new(), "{place} has fields in JSON alone");
    }

    /// The fields of a message, including those that JSON has inline.
    fn json_fields(message: u16) -> Vec<&'static FieldDescriptor> {
        let MessageDescriptor(fields) = &table().messages[usize::from(message)];
        let inner = |field: &'static FieldDescriptor| match (field.name, field.field_type) {
            ("", FieldType::Message(inner)) => json_fields(inner),
            _ => vec![field],
        };
        fields.iter().flat_map(inner).collect()
    }
}
