//! Parses bytes into a document and records duplicate fields. The last value wins. The caller decides what to report.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The maximum number of reported duplicates. A body of nothing but duplicates must not cost more than its length.
const MAX_REPORTED: usize = 100;

/// Parses JSON. Also returns the paths of duplicate fields, each once.
pub fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value =
        DuplicateFieldVisitor { path: &FieldPath::Root, duplicates: &mut found }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, found))
}

/// The reader's position: a chain on the stack, formatted only for a duplicate.
enum FieldPath<'a> {
    Root,
    Field(&'a FieldPath<'a>, &'a str),
    Item(&'a FieldPath<'a>, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Root => Ok(()),
            FieldPath::Field(FieldPath::Root, name) => f.write_str(name),
            FieldPath::Field(parent, name) => write!(f, "{parent}.{name}"),
            FieldPath::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Parses the value at one path.
struct DuplicateFieldVisitor<'a> {
    path: &'a FieldPath<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for DuplicateFieldVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateFieldVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let place = FieldPath::Item(self.path, list.len());
            match items.next_element_seed(DuplicateFieldVisitor { path: &place, duplicates: self.duplicates })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let place = FieldPath::Field(self.path, &name);
            let value = fields.next_value_seed(DuplicateFieldVisitor { path: &place, duplicates: self.duplicates })?;
            if object.contains_key(&name) && self.duplicates.len() < MAX_REPORTED {
                let path = place.to_string();
                if !self.duplicates.contains(&path) {
                    self.duplicates.push(path);
                }
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn duplicates_are_reported_once_and_the_last_one_wins() {
        for (text, want, value) in [
            (r#"{"a":1}"#, "", r#"{"a":1}"#),
            (r#"{"a":1,"a":2,"a":3}"#, "a", r#"{"a":3}"#),
            (r#"{"a":{"b":1,"b":2},"c":{"b":1}}"#, "a.b", r#"{"a":{"b":2},"c":{"b":1}}"#),
            (r#"{"a":[{"b":1},{"b":1,"b":{"c":1,"c":2}}]}"#, "a[1].b.c a[1].b", r#"{"a":[{"b":1},{"b":{"c":2}}]}"#),
            (r#"{"a":1,"\u0061":2}"#, "a", r#"{"a":2}"#),
        ] {
            let (document, found) = parse(text.as_bytes()).unwrap();
            assert_eq!((found.join(" ").as_str(), document.to_string().as_str()), (want, value), "{text}");
        }
    }

    #[test]
    fn malformed_json_is_refused() {
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        for text in ["", "{", "{}{}", "{\"a\" 1}", "nul", "1e999", deep.as_str()] {
            assert!(parse(text.as_bytes()).is_err(), "{}", &text[..text.len().min(20)]);
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_document_without_duplicates_is_parsed_as_by_serde_json(value in json()) {
            let text = value.to_string();
            let (document, found) = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(found, Vec::<String>::new());
            prop_assert_eq!(document, serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
