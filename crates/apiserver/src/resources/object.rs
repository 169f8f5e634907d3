//! An object of any kind: its document, with the typed form decoded where a rule needs it.

use serde::Deserialize;
use serde_json::{Map, Value};
use store::StoredObject;

use crate::request::duplicates;

/// A JSON document that is an object and whose `metadata` is an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiObject(Value);

/// Why bytes are not an object.
#[derive(Debug, thiserror::Error)]
pub enum MalformedObject {
    /// The body is empty.
    #[error("the body is empty")]
    Empty,
    /// Not JSON, or nested too deeply.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but not of the form `{"metadata": {…}}`.
    #[error("json: cannot unmarshal {0} into Go value of type {1}")]
    Shape(&'static str, &'static str),
}

impl ApiObject {
    /// Parses a document. A missing `metadata` becomes an empty one. The parser limits nesting.
    pub fn parse(bytes: &[u8]) -> Result<ApiObject, MalformedObject> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(MalformedObject::Empty);
        }
        ApiObject::new(serde_json::from_slice(bytes)?)
    }

    /// The same, with the paths of duplicate fields. The last value wins.
    pub fn parse_with_duplicates(bytes: &[u8]) -> Result<(ApiObject, Vec<String>), MalformedObject> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(MalformedObject::Empty);
        }
        let (document, duplicates) = duplicates::parse(bytes)?;
        Ok((ApiObject::new(document)?, duplicates))
    }

    /// Wraps a document. A missing `metadata` becomes an empty one.
    pub fn new(mut document: Value) -> Result<ApiObject, MalformedObject> {
        let shape = json_type(&document);
        let Value::Object(top) = &mut document else { return Err(MalformedObject::Shape(shape, "object")) };
        match top.get("metadata") {
            Some(Value::Object(_)) => {}
            None | Some(Value::Null) => drop(top.insert("metadata".to_owned(), Value::Object(Map::new()))),
            Some(other) => return Err(MalformedObject::Shape(json_type(other), "v1.ObjectMeta")),
        }
        Ok(ApiObject(document))
    }

    /// Reads a stored object.
    pub fn from_stored(stored: &StoredObject) -> ApiObject {
        ApiObject::parse(&stored.bytes()).expect("the store holds only documents that this server wrote")
    }

    /// The whole document.
    pub fn document(&self) -> &Value {
        &self.0
    }

    /// The whole document, mutable. It must remain an object with an object `metadata`.
    pub fn document_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    /// The top-level fields.
    pub fn top(&self) -> &Map<String, Value> {
        self.0.as_object().expect("an object's document is a JSON object")
    }

    /// The top-level fields, mutable.
    pub fn top_mut(&mut self) -> &mut Map<String, Value> {
        self.0.as_object_mut().expect("an object's document is a JSON object")
    }

    /// `metadata`.
    pub fn metadata(&self) -> &Map<String, Value> {
        self.0["metadata"].as_object().expect("an object's metadata is a JSON object")
    }

    /// `metadata`, mutable.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        self.0["metadata"].as_object_mut().expect("an object's metadata is a JSON object")
    }

    /// The value at the path of a field error: `spec.rules[0].values`.
    pub fn get_path(&self, path: &str) -> Option<&Value> {
        let pointer = path.replace(['.', '['], "/").replace(']', "");
        self.0.pointer(&format!("/{pointer}"))
    }

    /// The string at a path of the document; empty when there is none.
    pub fn text(&self, path: &[&str]) -> &str {
        path.iter().fold(&self.0, |value, &name| &value[name]).as_str().unwrap_or_default()
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.0["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata().contains_key("deletionTimestamp")
    }

    /// The typed form. Fails when a value does not match its type.
    pub fn typed<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.0)
    }

    /// The typed form of one field; its default when the field is missing.
    pub fn typed_field<'a, T: Deserialize<'a> + Default>(&'a self, field: &str) -> Result<T, serde_json::Error> {
        self.0.get(field).map_or_else(|| Ok(T::default()), T::deserialize)
    }

    /// Copies a top-level field from `other`, or removes it when `other` does not have it.
    pub fn copy_field_from(&mut self, other: &ApiObject, field: &str) {
        if self.top().get(field) == other.top().get(field) {
            return;
        }
        match other.top().get(field) {
            Some(value) => drop(self.top_mut().insert(field.to_owned(), value.clone())),
            None => drop(self.top_mut().remove(field)),
        }
    }

    /// Copies a field of the metadata from `other`, or removes it when `other` does not have it.
    pub fn copy_metadata_field_from(&mut self, other: &ApiObject, field: &str) {
        match other.metadata().get(field) {
            Some(value) => drop(self.metadata_mut().insert(field.to_owned(), value.clone())),
            None => drop(self.metadata_mut().remove(field)),
        }
    }
}

/// The API's name for the type of a JSON value.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
