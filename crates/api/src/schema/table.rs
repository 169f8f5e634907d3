//! The schema file as tables: types with their fields in order of name, shapes interned as numbers.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

const FILE: &str = include_str!("kubernetes-1.37.1.json");

/// All that is known of all kinds. Made once.
pub struct Table {
    /// The version of Kubernetes whose structure this is.
    pub kubernetes: String,
    kinds: Vec<(String, Shape)>,
    types: Vec<Type>,
    /// What lists and maps hold.
    inner: Vec<Shape>,
}

/// The structure of one JSON object.
pub struct Type {
    fields: Box<[(Box<str>, Shape)]>,
}

/// What may stand in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A text.
    Text,
    /// A text in base64.
    Bytes,
    /// A text in the form of RFC 3339.
    Time,
    /// An amount: a text or a number.
    Quantity,
    /// A number or a text.
    IntOrString,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// `true` or `false`.
    Boolean,
    /// Anything; not looked into.
    Any,
    /// An object with known fields.
    Object(u32),
    /// An array whose items have this shape.
    List(u32),
    /// An object with free keys, whose values have this shape.
    Map(u32),
}

impl Table {
    /// The shape of a kind's documents.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Shape> {
        let matches = |name: &str| {
            let mut parts = name.split('/');
            parts.next() == Some(group) && parts.next() == Some(version) && parts.next() == Some(kind)
        };
        self.kinds.iter().find(|(name, _)| matches(name)).map(|(_, shape)| *shape)
    }

    /// The type that `Shape::Object` names.
    pub fn object(&self, number: u32) -> &Type {
        &self.types[number as usize]
    }

    /// The shape that `Shape::List` and `Shape::Map` name.
    pub fn inner(&self, number: u32) -> Shape {
        self.inner[number as usize]
    }
}

impl Type {
    /// The shape of a field, if there is such a field.
    pub fn field(&self, name: &str) -> Option<Shape> {
        let at = self.fields.binary_search_by(|(field, _)| (**field).cmp(name)).ok()?;
        Some(self.fields[at].1)
    }
}

/// The table of the built-in file.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let file: File = serde_json::from_str(FILE).expect("the schema file is the one that xtask wrote");
        Builder::build(&file)
    })
}

#[derive(Deserialize)]
struct File {
    kubernetes: String,
    kinds: BTreeMap<String, String>,
    types: BTreeMap<String, FileType>,
}

#[derive(Deserialize)]
struct FileType {
    fields: BTreeMap<String, FileField>,
}

/// A field's type alone, or with marks that say how it merges.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileField {
    Plain(String),
    Marked {
        #[serde(rename = "type")]
        of: String,
    },
}

struct Builder<'a> {
    numbers: BTreeMap<&'a str, u32>,
    inner: Vec<Shape>,
}

impl<'a> Builder<'a> {
    fn build(file: &'a File) -> Table {
        let numbers = file.types.keys().zip(0..).map(|(name, number)| (name.as_str(), number)).collect();
        let mut builder = Builder { numbers, inner: Vec::new() };
        let types = file.types.values().map(|of| builder.object(of)).collect();
        let kinds = file.kinds.iter().map(|(kind, name)| (kind.clone(), builder.reference(name))).collect();
        Table { kubernetes: file.kubernetes.clone(), kinds, types, inner: builder.inner }
    }

    fn object(&mut self, of: &'a FileType) -> Type {
        let shape = |field: &'a FileField| match field {
            FileField::Plain(of) | FileField::Marked { of } => of.as_str(),
        };
        Type { fields: of.fields.iter().map(|(name, of)| (name.as_str().into(), self.shape(shape(of)))).collect() }
    }

    fn shape(&mut self, text: &'a str) -> Shape {
        if let Some(items) = text.strip_prefix("[]") {
            let items = self.shape(items);
            return Shape::List(self.intern(items));
        }
        if let Some(values) = text.strip_prefix("{}") {
            let values = self.shape(values);
            return Shape::Map(self.intern(values));
        }
        match text {
            "string" => Shape::Text,
            "bytes" => Shape::Bytes,
            "time" => Shape::Time,
            "quantity" => Shape::Quantity,
            "int-or-string" => Shape::IntOrString,
            "int32" => Shape::Int32,
            "int64" => Shape::Int64,
            "boolean" => Shape::Boolean,
            "any" => Shape::Any,
            other => self.reference(other.trim_start_matches('#')),
        }
    }

    fn reference(&self, name: &str) -> Shape {
        Shape::Object(*self.numbers.get(name).expect("the schema file names only types that it has"))
    }

    fn intern(&mut self, shape: Shape) -> u32 {
        let at = self.inner.iter().position(|known| *known == shape).unwrap_or_else(|| {
            self.inner.push(shape);
            self.inner.len() - 1
        });
        u32::try_from(at).expect("a schema has far fewer shapes than u32 holds")
    }
}
