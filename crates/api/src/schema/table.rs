//! The schema file as tables: types with their fields in order of name. Types are interned as numbers.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use super::empty_values::{EmptyValueEncoding, EmptyValueRules};

/// The schema of Kubernetes.
const KUBERNETES_JSON: &str = include_str!("kubernetes-1.37.1.json");
/// Additions: older versions that Kubernetes no longer serves, and fields of drafts.
const OLDER: &str = include_str!("older.json");

/// The schema of all kinds. Built once.
pub struct SchemaTable {
    /// The version of Kubernetes of the schema.
    pub kubernetes_version: String,
    kinds: Vec<(String, ValueType)>,
    types: Vec<ObjectSchema>,
    /// Types of the elements of lists and maps.
    element_types: Vec<ValueType>,
}

/// The schema of one JSON object.
pub struct ObjectSchema {
    /// The name of the type: `batch.v1.JobSpec`.
    pub name: Box<str>,
    /// Its fields, in order of name.
    pub fields: Box<[FieldSchema]>,
    /// The required fields.
    pub required: Box<[String]>,
    /// Whether the object is atomic: it changes only as a whole.
    pub is_atomic: bool,
    /// The fields that are always present, even if empty.
    pub always_written: Box<[usize]>,
}

/// One field of an object.
pub struct FieldSchema {
    /// The name, as in JSON.
    pub name: Box<str>,
    /// The type of its value.
    pub value_type: ValueType,
    /// Merge markers and default; `None` for most fields.
    pub markers: Option<Box<FieldMarkers>>,
    /// How it is encoded if it is empty.
    pub empty_encoding: EmptyValueEncoding,
    /// Whether it is a time with microseconds.
    pub is_micro: bool,
}

/// How a field merges, and its default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FieldMarkers {
    /// The list type of server-side apply.
    pub list: Option<ListType>,
    /// The fields that identify the items of a `map` list.
    pub keys: Vec<String>,
    /// The map type of server-side apply; only `atomic`.
    pub map: Option<String>,
    /// The field by which a strategic merge patch finds the item to change.
    pub merge_key: Option<String>,
    /// What a strategic merge patch does instead of replacing: `merge`, `retainKeys`, `merge,retainKeys`.
    pub strategy: Option<String>,
    /// The default of the field, if it is not the empty value.
    pub default: Option<Value>,
}

/// The list type of server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListType {
    /// One value, replaced as a whole.
    Atomic,
    /// Unique values.
    Set,
    /// Objects identified by their keys.
    Map,
}

impl ListType {
    /// The value on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        }
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A string.
    Text,
    /// A string in base64.
    Bytes,
    /// A string in RFC 3339 format.
    Time,
    /// An amount: a string or a number.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// `true` or `false`.
    Boolean,
    /// Any value; not checked.
    Any,
    /// An object with known fields.
    Object(u32),
    /// An array with items of this type.
    List(u32),
    /// An object with free keys and values of this type.
    Map(u32),
}

impl SchemaTable {
    /// The type of a kind's documents.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<ValueType> {
        let matches = |name: &str| {
            let mut parts = name.split('/');
            parts.next() == Some(group) && parts.next() == Some(version) && parts.next() == Some(kind)
        };
        self.kinds.iter().find(|(name, _)| matches(name)).map(|(_, shape)| *shape)
    }

    /// Every type, in order of name.
    pub fn types(&self) -> impl Iterator<Item = &ObjectSchema> {
        self.types.iter()
    }

    /// The type with the number of [`ValueType::Object`].
    pub fn object(&self, number: u32) -> &ObjectSchema {
        &self.types[number as usize]
    }

    /// The type with the number of [`ValueType::List`] or [`ValueType::Map`].
    pub fn element_type(&self, number: u32) -> ValueType {
        self.element_types[number as usize]
    }
}

impl ObjectSchema {
    /// The field of this name, if there is one.
    pub fn field(&self, name: &str) -> Option<&FieldSchema> {
        let at = self.fields.binary_search_by(|field| (*field.name).cmp(name)).ok()?;
        Some(&self.fields[at])
    }
}

/// The table of the embedded files.
pub fn table() -> &'static SchemaTable {
    static TABLE: OnceLock<SchemaTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut file: SchemaFile = serde_json::from_str(KUBERNETES_JSON).expect("the schema file was written by xtask");
        file.add(serde_json::from_str(OLDER).expect("the file of older versions has the same format"));
        Builder::build(&file)
    })
}

#[derive(Deserialize)]
struct SchemaFile {
    kubernetes: String,
    kinds: BTreeMap<String, String>,
    types: BTreeMap<String, FileType>,
}

/// Additional kinds and types. A type of upstream gets additional fields.
#[derive(Deserialize)]
struct OlderSchemaFile {
    kinds: BTreeMap<String, String>,
    types: BTreeMap<String, FileType>,
}

impl SchemaFile {
    fn add(&mut self, older: OlderSchemaFile) {
        self.kinds.extend(older.kinds);
        for (name, of) in older.types {
            match self.types.get_mut(&name) {
                Some(known) => known.fields.extend(of.fields),
                None => drop(self.types.insert(name, of)),
            }
        }
    }
}

#[derive(Deserialize)]
struct FileType {
    fields: BTreeMap<String, FileField>,
    #[serde(default)]
    required: Vec<String>,
    /// Only ever `atomic`.
    #[serde(default)]
    map: Option<String>,
}

/// A field's type, or the type with markers.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileField {
    Plain(String),
    Marked {
        #[serde(rename = "type")]
        of: String,
        #[serde(flatten)]
        marks: Box<FieldMarkers>,
    },
}

struct Builder<'a> {
    numbers: BTreeMap<&'a str, u32>,
    element_types: Vec<ValueType>,
    empty_value_rules: EmptyValueRules,
}

impl<'a> Builder<'a> {
    fn build(file: &'a SchemaFile) -> SchemaTable {
        let numbers = file.types.keys().zip(0..).map(|(name, number)| (name.as_str(), number)).collect();
        let mut builder = Builder { numbers, element_types: Vec::new(), empty_value_rules: EmptyValueRules::load() };
        let types = file.types.iter().map(|(name, of)| builder.object(name, of)).collect();
        let kinds = file.kinds.iter().map(|(kind, name)| (kind.clone(), builder.reference(name))).collect();
        SchemaTable { kubernetes_version: file.kubernetes.clone(), kinds, types, element_types: builder.element_types }
    }

    fn object(&mut self, name: &str, of: &'a FileType) -> ObjectSchema {
        let fields: Box<[FieldSchema]> =
            of.fields.iter().map(|(of_name, field)| self.field(name, of, of_name, field)).collect();
        let is_written = |field: &FieldSchema| {
            matches!(field.empty_encoding, EmptyValueEncoding::Written | EmptyValueEncoding::Null)
        };
        ObjectSchema {
            name: name.into(),
            always_written: (0..fields.len()).filter(|&at| is_written(&fields[at])).collect(),
            fields,
            required: of.required.iter().cloned().collect(),
            is_atomic: of.map.as_deref() == Some("atomic"),
        }
    }

    fn field(&mut self, type_name: &str, of: &'a FileType, name: &str, field: &'a FileField) -> FieldSchema {
        let (shape, marks) = match field {
            FileField::Plain(of) => (self.parse_value_type(of), None),
            FileField::Marked { of, marks } => (self.parse_value_type(of), Some(marks.clone())),
        };
        let required = of.required.iter().any(|required| required == name);
        FieldSchema {
            name: name.into(),
            value_type: shape,
            markers: marks,
            empty_encoding: self.empty_value_rules.of(type_name, name, shape, required),
            is_micro: self.empty_value_rules.is_micro(type_name, name),
        }
    }

    fn parse_value_type(&mut self, text: &'a str) -> ValueType {
        if let Some(items) = text.strip_prefix("[]") {
            let items = self.parse_value_type(items);
            return ValueType::List(self.intern(items));
        }
        if let Some(values) = text.strip_prefix("{}") {
            let values = self.parse_value_type(values);
            return ValueType::Map(self.intern(values));
        }
        match text {
            "string" => ValueType::Text,
            "bytes" => ValueType::Bytes,
            "time" => ValueType::Time,
            "quantity" => ValueType::Quantity,
            "int-or-string" => ValueType::IntOrString,
            "int32" => ValueType::Int32,
            "int64" => ValueType::Int64,
            "boolean" => ValueType::Boolean,
            "any" => ValueType::Any,
            other => self.reference(other.trim_start_matches('#')),
        }
    }

    fn reference(&self, name: &str) -> ValueType {
        ValueType::Object(*self.numbers.get(name).expect("the schema file names only types that it has"))
    }

    fn intern(&mut self, shape: ValueType) -> u32 {
        let at = self.element_types.iter().position(|known| *known == shape).unwrap_or_else(|| {
            self.element_types.push(shape);
            self.element_types.len() - 1
        });
        u32::try_from(at).expect("a schema has far fewer types than u32 can count")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object_schema(name: &str) -> &'static ObjectSchema {
        table().types().find(|of| &*of.name == name).expect("the file has this type")
    }

    #[test]
    fn fields_have_merge_markers() {
        let marks = |name: &str, field: &str| {
            object_schema(name).field(field).and_then(|field| field.markers.clone()).map(|m| *m)
        };
        let ports = marks("core.v1.Container", "ports").expect("ports merge");
        assert_eq!(ports.list, Some(ListType::Map));
        assert_eq!(ports.keys, ["containerPort", "protocol"]);
        assert_eq!((ports.merge_key.as_deref(), ports.strategy.as_deref()), (Some("containerPort"), Some("merge")));
        let mode = marks("scheduling.v1beta1.PodGroupSpec", "disruptionMode").expect("the mode has a default");
        assert_eq!(mode, FieldMarkers { default: Some(json!({"single": {}})), ..FieldMarkers::default() });
        assert_eq!(marks("core.v1.Container", "image"), None);
    }

    // `basic: {}` was once treated as any value, and misspelled fields in it were not found.
    #[test]
    fn struct_without_fields_is_an_object() {
        let basic = object_schema("scheduling.v1beta1.PodGroupSchedulingPolicy").field("basic").expect("a member");
        let ValueType::Object(number) = basic.value_type else { panic!("{:?}", basic.value_type) };
        assert!(table().object(number).fields.is_empty());
    }

    #[test]
    fn types_have_required_fields_and_atomicity() {
        assert_eq!(*object_schema("batch.v1.JobSpec").required, ["template"]);
        assert!(object_schema("meta.v1.LabelSelector").is_atomic);
        assert!(!object_schema("batch.v1.JobSpec").is_atomic);
    }
}
