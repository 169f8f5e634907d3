//! The file as tables: messages with their fields in order of number.
//!
//! The structure is that of Kubernetes (see `NOTICE`); `cargo xtask protobuf table` makes the file anew.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

const FILE: &str = include_str!("../schema/protobuf-1.37.1.json");

/// All that is known of all kinds. Made once.
pub struct Table {
    kinds: BTreeMap<&'static str, &'static str>,
    names: BTreeMap<&'static str, u16>,
    messages: Vec<Message>,
}

/// A message: its fields, in order of number.
pub struct Message(Box<[Field]>);

/// One field of a message.
pub struct Field {
    /// The number on the wire.
    pub number: i32,
    /// The name in JSON. Empty: JSON has the fields of this message in its place.
    pub name: &'static str,
    /// How many values there are.
    pub many: Many,
    /// What one value is.
    pub of: Type,
    /// Whether JSON leaves the field out when it has the zero value.
    pub omits_zero: bool,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// One: the last, or all of them merged.
    One,
    /// Any number.
    List,
    /// Any number, each by its text.
    Map,
}

/// What one value of a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// An amount, which is a text.
    Quantity,
    /// Seconds.
    Time,
    /// Seconds and a fraction.
    MicroTime,
    /// A number or a text.
    IntOrString,
    /// JSON as it is.
    Json,
    /// A message of this number.
    Message(u16),
}

impl Table {
    /// The number of a kind's message.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<u16> {
        let name = self.kinds.get(format!("{group}/{version}/{kind}").as_str())?;
        self.names.get(name).copied()
    }

    /// The field of this number, if the message has one.
    pub fn field(&self, message: u16, number: i32) -> Option<&Field> {
        let Message(fields) = &self.messages[usize::from(message)];
        let at = fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&fields[at])
    }
}

/// The table of the built-in file.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let file: File = serde_json::from_str(FILE).expect("the protobuf file is the one that xtask wrote");
        let names: BTreeMap<&str, u16> = file.messages.keys().copied().zip(0..).collect();
        let messages = file.messages.values().map(|fields| message(fields, &names)).collect();
        Table { kinds: file.kinds, names, messages }
    })
}

#[derive(Deserialize)]
struct File {
    #[serde(borrow)]
    kinds: BTreeMap<&'static str, &'static str>,
    messages: BTreeMap<&'static str, Vec<&'static str>>,
}

fn message(fields: &[&'static str], names: &BTreeMap<&str, u16>) -> Message {
    let mut fields: Box<[Field]> = fields.iter().map(|text| field(text, names)).collect();
    fields.sort_by_key(|field| field.number);
    Message(fields)
}

/// `NUMBER NAME TYPE`, as the file writes it.
fn field(text: &'static str, names: &BTreeMap<&str, u16>) -> Field {
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
        (Some(items), _) => (items, Many::List),
        (_, Some(values)) => (values, Many::Map),
        _ => (word, Many::One),
    };
    let of = match word {
        "string" => Type::Text,
        "bool" => Type::Boolean,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "quantity" => Type::Quantity,
        "time" => Type::Time,
        "micro-time" => Type::MicroTime,
        "int-or-string" => Type::IntOrString,
        "json" => Type::Json,
        other => {
            let name = other.strip_prefix('#').expect("the file uses the words above, or names a message");
            Type::Message(*names.get(name).expect("the protobuf file names only messages that it has"))
        }
    };
    Field { number, name, many, of, omits_zero }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::schema::{self, Shape};

    /// The two files come from two descriptions of the same kinds, OpenAPI and the types in Go.
    #[test]
    fn every_kind_has_the_fields_of_the_schema_under_the_same_names_and_types() {
        let (table, schema) = (table(), schema::table());
        let mut seen = BTreeSet::new();
        for kind in table.kinds.keys() {
            let [group, version, name] = kind.split('/').collect::<Vec<_>>().try_into().unwrap();
            let shape = schema.kind(group, version, name).unwrap();
            compare(kind, Type::Message(table.kind(group, version, name).unwrap()), shape, &mut seen);
        }
        assert!(seen.len() > 200, "{}", seen.len());
        let file: Value = serde_json::from_str(include_str!("../schema/kubernetes-1.37.1.json")).unwrap();
        assert_eq!(file["types"].as_object().unwrap().len(), seen.len(), "types that protobuf does not reach");
    }

    fn compare(place: &str, of: Type, shape: Shape, seen: &mut BTreeSet<u32>) {
        let (Type::Message(message), Shape::Object(object)) = (of, shape) else {
            let alike = match of {
                Type::Text => shape == Shape::Text,
                Type::Boolean => shape == Shape::Boolean,
                Type::Int32 => shape == Shape::Int32,
                Type::Int64 => shape == Shape::Int64,
                Type::Quantity => shape == Shape::Quantity,
                Type::Time | Type::MicroTime => shape == Shape::Time,
                Type::IntOrString => shape == Shape::IntOrString,
                Type::Json => shape == Shape::Any,
                Type::Message(_) => false,
            };
            assert!(alike, "{place}: {of:?}, {shape:?}");
            return;
        };
        if !seen.insert(object) {
            return;
        }
        let schema = schema::table();
        let known = schema.object(object);
        let mut names: BTreeSet<&str> = known.fields.iter().map(|field| &*field.name).collect();
        for field in in_json(message) {
            let place = format!("{place}.{}", field.name);
            assert!(names.remove(field.name), "{place} is in protobuf alone, or there twice");
            let shape = match (field.many, known.field(field.name).unwrap().shape) {
                (Many::One, shape) => shape,
                (Many::List, Shape::List(items)) => schema.inner(items),
                (Many::Map, Shape::Map(values)) => schema.inner(values),
                (many, shape) => panic!("{place}: {many:?}, {shape:?}"),
            };
            compare(&place, field.of, shape, seen);
        }
        // The envelope says the first two; the third is a draft's, of which no client has a message.
        names.retain(|name| !matches!(*name, "apiVersion" | "kind" | "workloadRef"));
        assert_eq!(names, BTreeSet::new(), "{place} has fields in JSON alone");
    }

    /// The fields of a message and of those that JSON has in their place.
    fn in_json(message: u16) -> Vec<&'static Field> {
        let Message(fields) = &table().messages[usize::from(message)];
        let inner = |field: &'static Field| match (field.name, field.of) {
            ("", Type::Message(inner)) => in_json(inner),
            _ => vec![field],
        };
        fields.iter().flat_map(inner).collect()
    }
}
