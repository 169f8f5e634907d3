//! Writes the compact schema file of `api` from the OpenAPI documents of Kubernetes, and the file of empty values.
//!
//! Structure only: names, types, required fields, and how lists and maps merge. Descriptions are left out.

mod empty_values; // how empty fields are encoded
pub mod go_types; // the Go types

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use self::go_types::{REQUEST_BODIES, described_kinds};
use crate::upstream::module_folder;

/// The version of Kubernetes whose structure is used.
pub const VERSION: &str = "1.37.1";

/// The names of a field's marks, upstream and in the file.
const MARKS: [(&str, &str); 6] = [
    ("x-kubernetes-list-type", "list"),
    ("x-kubernetes-list-map-keys", "keys"),
    ("x-kubernetes-map-type", "map"),
    ("x-kubernetes-patch-merge-key", "mergeKey"),
    ("x-kubernetes-patch-strategy", "strategy"),
    ("default", "default"),
];

/// Writes both files.
pub fn run() -> anyhow::Result<()> {
    let root = supervisor::repository_root()?;
    let folder = module_folder(&root.join("tests/kube"), "k8s.io/kubernetes")?.join("api/openapi-spec/v3");
    let (schemas, kinds) = read(&folder)?;
    let types = reachable(&schemas, kinds.values())?;
    write(&root, "kubernetes", &render(&kinds, &types))?;
    // A binding is never written in a response: its empty fields stay as sent.
    let in_responses = kinds.iter().filter(|(kind, _)| *kind != "/v1/Binding").map(|(_, name)| name);
    let in_responses = reachable(&schemas, in_responses)?;
    let in_responses = in_responses.iter().map(|(name, schema)| (short(name), schema)).collect();
    write(&root, "form", &empty_values::render(&in_responses, &go_types::read()?))?;
    println!("{} kinds, {} types", kinds.len(), types.len());
    Ok(())
}

/// Writes a file of `api`.
pub fn write(root: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = root.join(format!("crates/api/src/schema/{name}-{VERSION}.json"));
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

type Schemas = BTreeMap<String, Value>;

/// The OpenAPI document with a kind: that of its group, or that of the group in which only requests have it.
fn document_name(group: &str, version: &str, kind: &str) -> String {
    let is_of_core = group.is_empty() || REQUEST_BODIES.contains(&(group, version, kind));
    if is_of_core { format!("api__{version}") } else { format!("apis__{group}__{version}") }
}

/// Every schema of the documents that have the kinds, and the type of each kind by `group/version/Kind`.
fn read(folder: &Path) -> anyhow::Result<(Schemas, BTreeMap<String, String>)> {
    let mut schemas = Schemas::new();
    let mut kinds = BTreeMap::new();
    for (group, version, kind) in described_kinds() {
        let path = folder.join(format!("{}_openapi.json", document_name(group, version, kind)));
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let document: Value = serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
        let found = document["components"]["schemas"].as_object().context("no components.schemas")?;
        let wanted = json!({"group": group, "version": version, "kind": kind});
        let is_wanted = |schema: &Value| {
            schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(&wanted))
        };
        let (name, _) = found
            .iter()
            .find(|(_, schema)| is_wanted(schema))
            .with_context(|| format!("no {kind} of {group}/{version} in {}", path.display()))?;
        kinds.insert(format!("{group}/{version}/{kind}"), name.clone());
        schemas.extend(found.iter().map(|(name, schema)| (name.clone(), schema.clone())));
    }
    Ok((schemas, kinds))
}

/// The types that the roots refer to, directly or not, in the file's form.
fn reachable<'a>(
    schemas: &Schemas,
    roots: impl Iterator<Item = &'a String>,
) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut types = BTreeMap::new();
    let mut waiting: BTreeSet<String> = roots.cloned().collect();
    while let Some(name) = waiting.pop_first() {
        let schema = schemas.get(&name).with_context(|| format!("no schema {name}"))?;
        let mut refers_to = BTreeSet::new();
        let mut compact = Map::new();
        for (field, of) in schema["properties"].as_object().into_iter().flatten() {
            compact.insert(field.clone(), field_entry(schemas, of, &mut refers_to).context(format!("{name}.{field}"))?);
        }
        let mut entry = json!({"fields": compact});
        if let Some(required) = schema.get("required") {
            entry["required"] = required.clone();
        }
        if let Some(kind) = schema.get("x-kubernetes-map-type") {
            entry["map"] = kind.clone();
        }
        types.insert(name, entry);
        waiting.extend(refers_to.into_iter().filter(|name| !types.contains_key(name)));
    }
    Ok(types)
}

/// A field's type, alone or with its marks.
fn field_entry(schemas: &Schemas, of: &Value, refers_to: &mut BTreeSet<String>) -> anyhow::Result<Value> {
    let shape = Value::String(type_text(schemas, of, refers_to)?);
    let mut entry = Map::new();
    for (upstream, ours) in MARKS {
        if let Some(mark) = of.get(upstream) {
            entry.insert(ours.to_owned(), mark.clone());
        }
    }
    // Go's zero values follow from the type.
    entry
        .retain(|mark, value| mark != "default" || !(value == &json!({}) || value == &json!("") || value == &json!(0)));
    if entry.is_empty() {
        return Ok(shape);
    }
    entry.insert("type".to_owned(), shape);
    Ok(Value::Object(entry))
}

/// A type in a word: `int32`, `[]string`, `{}quantity`, `#core.v1.Container`.
fn type_text(schemas: &Schemas, of: &Value, refers_to: &mut BTreeSet<String>) -> anyhow::Result<String> {
    let reference = of.get("$ref").or_else(|| of.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    if let Some(name) = reference.and_then(|path| path.rsplit('/').next()) {
        let target = schemas.get(name).with_context(|| format!("no schema {name}"))?;
        return if let Some(scalar) = scalar_type(name) {
            Ok(scalar.to_owned())
        } else if is_struct(target) {
            refers_to.insert(name.to_owned());
            Ok(format!("#{}", short(name)))
        } else {
            type_text(schemas, target, refers_to)
        };
    }
    Ok(match (of["type"].as_str(), of["format"].as_str()) {
        (Some("string"), Some("date-time")) => "time".to_owned(),
        (Some("string"), Some("byte")) => "bytes".to_owned(),
        (Some("string"), None) => "string".to_owned(),
        (Some("boolean"), None) => "boolean".to_owned(),
        (Some("integer"), Some(format @ ("int32" | "int64"))) => format.to_owned(),
        (Some("array"), None) => format!("[]{}", type_text(schemas, &of["items"], refers_to)?),
        (Some("object"), None) => match of.get("additionalProperties") {
            Some(values) => format!("{{}}{}", type_text(schemas, values, refers_to)?),
            None => "any".to_owned(),
        },
        other => bail!("no form for the type {other:?}"),
    })
}

/// Whether a named schema is a struct. A schema without fields, such as `basic: {}`, is a struct, too: every field in it
/// is unknown.
fn is_struct(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("additionalProperties").is_none()
}

/// Types that JSON encodes as a string, as a number, or as any value.
fn scalar_type(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("io.k8s.apimachinery.pkg.")? {
        "api.resource.Quantity" => "quantity",
        "util.intstr.IntOrString" => "int-or-string",
        "apis.meta.v1.Time" | "apis.meta.v1.MicroTime" => "time",
        "apis.meta.v1.FieldsV1" | "runtime.RawExtension" => "any",
        _ => return None,
    })
}

fn short(name: &str) -> &str {
    let name = name.strip_prefix("io.k8s.apimachinery.pkg.apis.").unwrap_or(name);
    name.strip_prefix("io.k8s.api.").unwrap_or(name)
}

/// One type per line, so that the diff of a new version of Kubernetes is readable.
fn render(kinds: &BTreeMap<String, String>, types: &BTreeMap<String, Value>) -> String {
    let kinds: Vec<String> =
        kinds.iter().map(|(kind, name)| format!("{}:{}", json!(kind), json!(short(name)))).collect();
    let types: BTreeMap<&str, &Value> = types.iter().map(|(name, of)| (short(name), of)).collect();
    let types: Vec<String> = types.iter().map(|(name, of)| format!("{}:{of}", json!(name))).collect();
    format!(
        "{{\"kubernetes\":\"{VERSION}\",\n\"kinds\":{{\n{}\n}},\n\"types\":{{\n{}\n}}}}\n",
        kinds.join(",\n"),
        types.join(",\n")
    )
}
