//! Changes of a document, field by field, as the schema file describes it.

use api::schema::{FieldSchema, ObjectSchema, ValueType, table};
use serde_json::{Map, Value, json};

use super::corpus::ValuePool;
use super::document_path::DocumentPath;

/// One change to a document.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// The class of change: `missing`, `too long`, …
    pub class: &'static str,
    /// The field, for any item.
    pub field: String,
    /// The new values by path.
    pub edits: Vec<(DocumentPath, Option<Value>)>,
}

/// Fields that are never changed, wherever they occur: the fields of server-side apply, and fields of pods that batch
/// workloads do not use (volumes of discontinued vendors, ephemeral containers, options of another operating system).
const SKIPPED_FIELDS: &[&str] = &[
    "managedFields",
    "ephemeralContainers",
    "windowsOptions",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "iscsi",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// At most this many items of a list are changed.
const MAX_ITEMS: usize = 2;
/// The maximum number of values of other objects that are tried in one field.
const MAX_POOL_VALUES: usize = 4;

/// Every mutation of the part of `document` at `path`.
pub fn mutations(path: &DocumentPath, shape: ValueType, document: &Value, pool: &ValuePool) -> Vec<Mutation> {
    let mut all = MutationCollector { pool, mutations: Vec::new() };
    all.walk(path, shape, document);
    all.mutations
}

struct MutationCollector<'a> {
    pool: &'a ValuePool,
    mutations: Vec<Mutation>,
}

impl MutationCollector<'_> {
    fn push(&mut self, class: &'static str, path: &DocumentPath, value: Option<Value>) {
        self.mutations.push(Mutation { class, field: path.field(), edits: vec![(path.clone(), value)] });
    }

    fn push_all(&mut self, class: &'static str, path: &DocumentPath, values: impl IntoIterator<Item = Value>) {
        values.into_iter().for_each(|value| self.push(class, path, Some(value)));
    }

    fn walk(&mut self, path: &DocumentPath, shape: ValueType, value: &Value) {
        match (shape, value) {
            (ValueType::Object(number), Value::Object(members)) => self.object(path, table().object(number), members),
            (ValueType::List(number), Value::Array(items)) => self.list(path, table().element_type(number), items),
            (ValueType::Map(number), Value::Object(members)) => self.map(path, table().element_type(number), members),
            _ => self.scalar(path, shape, value),
        }
        if *path != DocumentPath::root() {
            self.push_all("wrong type", path, wrong_types(shape));
        }
    }

    fn object(&mut self, path: &DocumentPath, of: &ObjectSchema, members: &Map<String, Value>) {
        self.push("unknown field", &path.key("strangeField"), Some(json!("x")));
        if let Some((name, member)) = members.iter().find(|(_, member)| !member.is_object() && !member.is_array()) {
            self.push("duplicate field", &path.duplicate_key(name), Some(member.clone()));
        }
        if *path != DocumentPath::root() {
            self.push("empty", path, Some(json!({})));
        }
        let fields: Vec<&FieldSchema> =
            of.fields.iter().filter(|field| !SKIPPED_FIELDS.contains(&&*field.name)).collect();
        // A union with all members: those that are set, and an example of each other one.
        let absent: Vec<&&FieldSchema> = fields.iter().filter(|field| !members.contains_key(&*field.name)).collect();
        if !absent.is_empty() && fields.len() <= 4 {
            let edits = absent.iter().map(|field| (path.key(&field.name), Some(sample(field.value_type, 2)))).collect();
            self.mutations.push(Mutation { class: "union both", field: path.field(), edits });
        }
        for field in fields {
            let inner = path.key(&field.name);
            match members.get(&*field.name) {
                Some(member) => {
                    self.push("missing", &inner, None);
                    self.push("null", &inner, Some(Value::Null));
                    self.substitute_from_pool(&inner, member);
                    self.walk(&inner, field.value_type, member);
                }
                None => {
                    self.substitute_from_pool(&inner, &Value::Null);
                    self.push_all("added", &inner, additions(field.value_type));
                }
            }
        }
    }

    /// Values of other objects of the corpus at this path.
    fn substitute_from_pool(&mut self, path: &DocumentPath, own: &Value) {
        let values = self.pool.get(&path.field()).map(Vec::as_slice).unwrap_or_default();
        let others: Vec<Value> = values.iter().filter(|value| *value != own).take(MAX_POOL_VALUES).cloned().collect();
        self.push_all("other value", path, others);
    }

    fn list(&mut self, path: &DocumentPath, item: ValueType, items: &[Value]) {
        self.push("empty", path, Some(json!([])));
        if let Some(first) = items.first() {
            let with = |more: Vec<Value>| Value::Array(items.iter().cloned().chain(more).collect());
            self.push("duplicate key", path, Some(with(vec![first.clone()])));
            for count in [2, 5, 9, 21] {
                let more = (items.len()..count).map(|number| with_other_key(first, number)).collect();
                self.push("over the limit", path, Some(with(more)));
            }
            self.push("wrong type", &path.index(0), Some(Value::Null));
        }
        if items.len() > 1 {
            let mut reversed = items.to_vec();
            reversed.reverse();
            self.push("other order", path, Some(reversed.into()));
        }
        self.push_all("added", path, [Value::Array(items.iter().cloned().chain([sample(item, 2)]).collect())]);
        for (index, value) in items.iter().enumerate().take(MAX_ITEMS) {
            self.push("missing", &path.index(index), None);
            self.walk(&path.index(index), item, value);
        }
    }

    fn map(&mut self, path: &DocumentPath, inner: ValueType, members: &Map<String, Value>) {
        self.push("empty", path, Some(json!({})));
        for (class, key) in [
            ("added", "example.com/added".to_owned()),
            ("bad format", "-Not a key!".to_owned()),
            ("bad format", "a/b/c".to_owned()),
            ("empty", String::new()),
            ("too long", "k".repeat(64)),
            ("too long", format!("{}/k", "p".repeat(254))),
        ] {
            let value = members.values().next().cloned().unwrap_or_else(|| sample(inner, 1));
            self.mutations.push(Mutation {
                class,
                field: format!("{}{{}}", path.field()),
                edits: vec![(path.key(&key), Some(value))],
            });
        }
        if let Some((name, _)) = members.iter().next() {
            let inner_path = path.key(name);
            let field = format!("{}{{}}", path.field());
            self.mutations.push(Mutation {
                class: "missing",
                field: field.clone(),
                edits: vec![(inner_path.clone(), None)],
            });
            let mut values: Vec<(&'static str, Value)> =
                wrong_types(inner).into_iter().map(|v| ("wrong type", v)).collect();
            values.extend(scalar_replacements(inner, &members[name]));
            for (class, value) in values {
                let edits = vec![(inner_path.clone(), Some(value))];
                self.mutations.push(Mutation { class, field: field.clone(), edits });
            }
        }
    }

    fn scalar(&mut self, path: &DocumentPath, shape: ValueType, value: &Value) {
        for (class, value) in scalar_replacements(shape, value) {
            self.push(class, path, Some(value));
        }
    }
}

/// Replacements of a scalar of this type.
fn scalar_replacements(shape: ValueType, own: &Value) -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&'static str, Value)> = Vec::new();
    match shape {
        ValueType::Text | ValueType::Bytes => {
            all.push(("empty", json!("")));
            for text in ["Upper", "under_score", "a/b", "-a", "a b", "a..b", "a%b", "..", "ünïcode", "sample-1", "7"]
            {
                all.push(("bad format", json!(text)));
            }
            all.extend([64, 254, 1025, 32769].map(|length| ("too long", json!("a".repeat(length)))));
        }
        ValueType::Int32 | ValueType::Int64 => {
            all.push(("zero", json!(0)));
            all.extend([-1, -2_147_483_648].map(|number: i64| ("negative", json!(number))));
            let own = own.as_i64().unwrap_or_default();
            all.extend([own + 1, own - 1].map(|number| ("other value", json!(number))));
            for number in [65_536_i64, 100_001, 1_000_000_001, 2_147_483_647, 2_147_483_648] {
                all.push(("over the limit", json!(number)));
            }
            all.push(("over the limit", json!(9_223_372_036_854_775_808_u64)));
        }
        ValueType::Boolean => all.push(("other value", json!(own != &json!(true)))),
        ValueType::Time => {
            all.extend(["", "yesterday", "2026-01-02"].map(|text| ("bad format", json!(text))));
            all.extend(["2020-01-01T00:00:00Z", "2030-01-01T00:00:00.123456+02:00"].map(|t| ("other value", json!(t))));
        }
        ValueType::Quantity => {
            all.extend(["", "x", "1x", "1.5.5", "1Ki5"].map(|text| ("bad format", json!(text))));
            all.extend([json!("-1"), json!(-1)].map(|value| ("negative", value)));
            all.extend([json!("0"), json!(0)].map(|value| ("zero", value)));
            all.extend([json!("1500m"), json!("0.1"), json!("3Gi"), json!(2)].map(|value| ("other value", value)));
        }
        ValueType::IntOrString => {
            let values = [json!(0), json!(-1), json!(65_536), json!(""), json!("Not_A_Port"), json!("http")];
            all.extend(values.map(|value| ("bad format", value)));
        }
        ValueType::Any | ValueType::Object(_) | ValueType::List(_) | ValueType::Map(_) => {}
    }
    all
}

/// Values of another type than the field's.
fn wrong_types(shape: ValueType) -> Vec<Value> {
    match shape {
        ValueType::Text | ValueType::Bytes | ValueType::Time => {
            vec![json!(7), json!(true), json!({"a": 1}), json!(["a"])]
        }
        ValueType::Int32 | ValueType::Int64 => vec![json!("7"), json!("x"), json!(true), json!(1.5), json!({"a": 1})],
        ValueType::Boolean => vec![json!("true"), json!(1), json!([])],
        ValueType::Quantity | ValueType::IntOrString => vec![json!(true), json!({"a": 1}), json!([])],
        ValueType::Object(_) | ValueType::Map(_) => vec![json!("x"), json!([]), json!(7)],
        ValueType::List(_) => vec![json!("x"), json!({"a": 1}), json!([7])],
        ValueType::Any => Vec::new(),
    }
}

/// Values of a field that is not set.
fn additions(shape: ValueType) -> Vec<Value> {
    match shape {
        ValueType::Text => vec![json!("sample"), json!(""), json!("Bad_Format!"), json!("a".repeat(64))],
        ValueType::Bytes => vec![json!("YQ==")],
        ValueType::Time => vec![json!("2026-01-02T03:04:05Z"), json!("yesterday")],
        ValueType::Quantity => vec![json!("1"), json!("-1"), json!("x")],
        ValueType::IntOrString => vec![json!(1), json!("x")],
        ValueType::Int32 | ValueType::Int64 => vec![json!(0), json!(1), json!(-1), json!(2_147_483_648_i64)],
        ValueType::Boolean => vec![json!(true), json!(false), json!("x")],
        ValueType::Any => vec![json!({})],
        ValueType::Object(_) => vec![json!({}), sample(shape, 3), json!("x")],
        ValueType::List(number) => {
            let item = sample(table().element_type(number), 3);
            let mut values = vec![json!([]), json!([item]), json!([item, item]), json!({})];
            values.extend(matches!(table().element_type(number), ValueType::Object(_)).then(|| json!([{}])));
            values
        }
        ValueType::Map(number) => {
            let value = sample(table().element_type(number), 1);
            vec![json!({}), json!({"sample": value}), json!({"Not a key!": value}), json!([])]
        }
    }
}

/// An example of a type: the required fields and a few more, to this depth.
fn sample(shape: ValueType, depth: usize) -> Value {
    match shape {
        ValueType::Text => json!("sample"),
        ValueType::Bytes => json!("YQ=="),
        ValueType::Time => json!("2026-01-02T03:04:05Z"),
        ValueType::Quantity => json!("1"),
        ValueType::IntOrString | ValueType::Int32 | ValueType::Int64 => json!(1),
        ValueType::Boolean => json!(true),
        ValueType::Any => json!({}),
        ValueType::List(_) | ValueType::Map(_) if depth == 0 => {
            if matches!(shape, ValueType::List(_)) {
                json!([])
            } else {
                json!({})
            }
        }
        ValueType::List(number) => json!([sample(table().element_type(number), depth - 1)]),
        ValueType::Map(number) => json!({"sample": sample(table().element_type(number), depth - 1)}),
        ValueType::Object(number) => {
            let of = table().object(number);
            let mut members = Map::new();
            let mut more = if depth > 0 { 2 } else { 0 };
            for field in of.fields.iter().filter(|field| !SKIPPED_FIELDS.contains(&&*field.name)) {
                let is_required = of.required.iter().any(|name| **name == *field.name);
                if is_required || more > 0 {
                    more -= usize::from(!is_required);
                    members.insert(field.name.to_string(), sample(field.value_type, depth.saturating_sub(1)));
                }
            }
            Value::Object(members)
        }
    }
}

/// A copy of a list's item with another key.
fn with_other_key(item: &Value, number: usize) -> Value {
    let mut item = item.clone();
    match &mut item {
        Value::Object(members) => {
            for key in ["name", "type", "key", "uid", "ip"] {
                if let Some(Value::String(text)) = members.get_mut(key) {
                    text.push_str(&format!("-{number}"));
                    break;
                }
            }
        }
        Value::String(text) => text.push_str(&format!("-{number}")),
        Value::Number(_) => item = json!(100 + number),
        _ => {}
    }
    item
}
