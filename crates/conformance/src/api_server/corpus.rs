//! Valid objects from tests/kube/corpus, to which mutations are applied.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use api::kinds::ApiResource;
use api::schema::{ValueType, table};
use serde::Deserialize;
use serde_json::Value;

use super::document_path::DocumentPath;
use super::kinds::ComparedKind;

/// One object, and the statuses that it may have one after another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusObject {
    pub object: Value,
    #[serde(default)]
    pub statuses: Vec<Value>,
}

impl CorpusObject {
    /// The name in the file; each case has another name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// The file of a kind: its objects, and how their cases are compared.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CorpusFile {
    /// Its share of the cases, relative to other kinds.
    pub weight: usize,
    /// How many of 100 cases must get the same verdict.
    #[serde(default = "all_percent")]
    pub min_same_verdict_percent: f64,
    /// Whether one case can change the response to another, so that they are sent one after another.
    #[serde(default)]
    pub sequential: bool,
    pub objects: Vec<CorpusObject>,
}

fn all_percent() -> f64 {
    100.0
}

/// The folder of the files, below the root of the repository.
pub const FOLDER: &str = "tests/kube/corpus";

/// Where a kind has its file.
fn file_of(root: &Path, resource: &ApiResource) -> PathBuf {
    root.join(FOLDER).join(format!("{}.yaml", resource.unique_name()))
}

/// The file of a kind; `None` for a kind without one.
pub fn open(root: &Path, resource: &ApiResource) -> anyhow::Result<Option<CorpusFile>> {
    let path = file_of(root, resource);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        result => result.with_context(|| path.display().to_string())?,
    };
    Ok(Some(serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?))
}

/// The objects of a kind, in the requested version.
pub fn read(root: &Path, kind: &ComparedKind) -> anyhow::Result<Vec<CorpusObject>> {
    let path = file_of(root, kind.resource);
    let mut bases = open(root, kind.resource)?.with_context(|| path.display().to_string())?.objects;
    for base in &mut bases {
        ensure!(base.object["kind"] == kind.kind, "{}: {} is no {}", path.display(), base.object["kind"], kind.kind);
        base.object["apiVersion"] = kind.api_version().into();
        let mut whole = base.object.clone();
        let findings = api::schema::check(kind.group, kind.version, kind.kind, &mut whole);
        let faults = (&findings.unknown, &findings.type_errors);
        ensure!(findings == Default::default(), "{}: {}: {faults:?}", path.display(), base.name());
    }
    Ok(bases)
}

/// Every value of each field in the corpus.
pub type ValuePool = BTreeMap<String, Vec<Value>>;

/// Collects the values: a value of one object is a plausible change of another.
pub fn collect_values(shape: ValueType, bases: &[CorpusObject]) -> ValuePool {
    let mut pool = ValuePool::new();
    for base in bases {
        gather(&DocumentPath::root(), shape, &base.object, &mut pool);
        if let (ValueType::Object(number), false) = (shape, base.statuses.is_empty())
            && let Some(status) = table().object(number).field("status")
        {
            for value in &base.statuses {
                gather(&DocumentPath::root().key("status"), status.value_type, value, &mut pool);
            }
        }
    }
    pool
}

fn gather(path: &DocumentPath, shape: ValueType, value: &Value, pool: &mut ValuePool) {
    let values = pool.entry(path.field()).or_default();
    if !values.contains(value) {
        values.push(value.clone());
    }
    match (shape, value) {
        (ValueType::Object(number), Value::Object(members)) => {
            for field in &table().object(number).fields {
                if let Some(member) = members.get(&*field.name) {
                    gather(&path.key(&field.name), field.value_type, member, pool);
                }
            }
        }
        (ValueType::List(number), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                gather(&path.index(index), table().element_type(number), item, pool);
            }
        }
        _ => {}
    }
}
