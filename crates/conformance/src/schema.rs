//! Writes the compact schema file of `api` from the Go module k8s.io/kubernetes.
//!
//! Structure only: names, types, what is required, and how lists and maps merge. No description is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

/// The version of Kubernetes whose structure is taken.
pub const VERSION: &str = "1.37.1";

/// Group, version and kinds that the server takes; what they refer to comes along.
const KINDS: [(&str, &str, &str, &[&str]); 9] = [
    ("api__v1", "", "v1", &["Namespace", "Node", "Pod", "Event", "Binding", "DeleteOptions"]),
    ("apis__events.k8s.io__v1", "events.k8s.io", "v1", &["Event"]),
    ("apis__batch__v1", "batch", "v1", &["Job", "CronJob"]),
    // The one kind that stands in another group's document.
    ("api__v1", "policy", "v1", &["Eviction"]),
    ("apis__policy__v1", "policy", "v1", &["PodDisruptionBudget"]),
    ("apis__coordination.k8s.io__v1", "coordination.k8s.io", "v1", &["Lease"]),
    ("apis__scheduling.k8s.io__v1", "scheduling.k8s.io", "v1", &["PriorityClass"]),
    (
        "apis__scheduling.k8s.io__v1alpha3",
        "scheduling.k8s.io",
        "v1alpha3",
        &["Workload", "PodGroup", "CompositePodGroup"],
    ),
    ("apis__scheduling.k8s.io__v1beta1", "scheduling.k8s.io", "v1beta1", &["Workload", "PodGroup"]),
];

/// How the marks of a field are called upstream and in the file.
const MARKS: [(&str, &str); 6] = [
    ("x-kubernetes-list-type", "list"),
    ("x-kubernetes-list-map-keys", "keys"),
    ("x-kubernetes-map-type", "map"),
    ("x-kubernetes-patch-merge-key", "mergeKey"),
    ("x-kubernetes-patch-strategy", "strategy"),
    ("default", "default"),
];

/// Options of `cargo xtask schema`.
#[derive(clap::Args)]
pub struct Args {
    /// Where the file goes
    #[arg(long)]
    output: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = module_folder(&format!("k8s.io/kubernetes@v{VERSION}"))?.join("api/openapi-spec/v3");
    let (schemas, kinds) = read(&folder)?;
    let types = reachable(&schemas, kinds.values())?;
    let output = args.output.clone().unwrap_or_else(|| {
        let name = format!("../api/src/schema/kubernetes-{VERSION}.json");
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    });
    let text = render(&kinds, &types);
    std::fs::write(&output, &text).with_context(|| format!("writing {}", output.display()))?;
    println!("{} kinds, {} types, {} bytes: {}", kinds.len(), types.len(), text.len(), output.display());
    Ok(())
}

/// Where Go keeps a module (`path@version`); downloads it on the first run.
pub fn module_folder(module: &str) -> anyhow::Result<PathBuf> {
    // Outside any Go module of the caller's, whose settings would otherwise count.
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(std::env::temp_dir())
        .output()
        .context("running `go`: install Go, which is needed only to make or check what is taken from its modules")?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`go mod download {module}` said: {}", String::from_utf8_lossy(&output.stderr)))?;
    match answer["Dir"].as_str() {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => bail!("`go mod download {module}`: {}", answer["Error"].as_str().unwrap_or("no folder in its answer")),
    }
}

type Schemas = BTreeMap<String, Value>;

/// Every schema of the files we need, and the type of each kind by `group/version/Kind`.
fn read(folder: &Path) -> anyhow::Result<(Schemas, BTreeMap<String, String>)> {
    let mut schemas = Schemas::new();
    let mut kinds = BTreeMap::new();
    for (file, group, version, names) in KINDS {
        let path = folder.join(format!("{file}_openapi.json"));
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let document: Value = serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
        let found = document["components"]["schemas"].as_object().context("no components.schemas")?;
        for kind in names {
            let wanted = json!({"group": group, "version": version, "kind": kind});
            let is_wanted = |schema: &Value| {
                schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(&wanted))
            };
            let (name, _) = found
                .iter()
                .find(|(_, schema)| is_wanted(schema))
                .with_context(|| format!("no {kind} of {group}/{version} in {}", path.display()))?;
            kinds.insert(format!("{group}/{version}/{kind}"), name.clone());
        }
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
    // Go's zero values; they say nothing that the type does not.
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

/// Whether a named schema is a struct. One without any field, such as `basic: {}`, is a struct all the same: whatever
/// stands inside is unknown.
fn is_struct(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("additionalProperties").is_none()
}

/// Types that JSON writes as a text or a number, or as whatever they like.
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

/// One type a line, so that a new version of Kubernetes reads as a diff.
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
