//! `cargo xtask protobuf check`: decodes objects in protobuf from Go and k8s.io/api, and compares them with their JSON.

pub mod table; // writes the file of messages and fields

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use api::protobuf::Envelope;
use serde::Deserialize;
use serde_json::Value;

use crate::schema::go_types;
use crate::upstream::module_folder;

/// The file of kinds and messages.
const FILE: &str = "crates/api/src/schema/protobuf-1.37.1.json";

/// The kinds of the file.
#[derive(Deserialize)]
struct KindTable {
    kinds: BTreeMap<String, String>,
}

/// An object with every field set to zero, in both forms.
#[derive(Deserialize)]
struct ZeroObject {
    json: Value,
    protobuf: String,
}

/// The objects that k8s.io/api publishes have every field set to a different value. Those of our Go program have every
/// field set to zero, which shows the fields that JSON omits.
pub fn check() -> anyhow::Result<()> {
    let root = supervisor::repository_root()?;
    let known: KindTable = serde_json::from_slice(&std::fs::read(root.join(FILE))?)?;
    let zeros: BTreeMap<String, ZeroObject> = go_types::run("zeros")?;
    let folder = module_folder(&root.join("tests/kube"), "k8s.io/api")?.join("testdata/HEAD");
    let mut wrong = 0;
    for kind in known.kinds.keys() {
        let [group, version, name] = kind.split('/').collect::<Vec<_>>()[..] else { bail!("{kind} is not a kind") };
        let group = if group.is_empty() { "core" } else { group };
        let read = |form: &str| {
            let path = folder.join(format!("{group}.{version}.{name}.{form}"));
            std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
        };
        let published: Value = serde_json::from_slice(&read("json")?)?;
        wrong += usize::from(!matches_document(kind, "filled", &published, &read("pb")?)?);
        let zero = zeros.get(kind).with_context(|| format!("the Go program has no {kind}"))?;
        wrong += usize::from(!matches_document(kind, "zero", &zero.json, &from_hex(&zero.protobuf)?)?);
    }
    ensure!(wrong == 0, "{wrong} objects differ from their JSON");
    println!("protobuf: {} kinds, filled and zero, all equal to their JSON", known.kinds.len());
    Ok(())
}

/// Whether a body decodes to the expected document; prints the differences.
fn matches_document(kind: &str, what: &str, wanted: &Value, body: &[u8]) -> anyhow::Result<bool> {
    let [group, version, name] = kind.split('/').collect::<Vec<_>>()[..] else { bail!("{kind} is not a kind") };
    let found = Envelope::read(body)?.document(group, version, name, usize::MAX)?;
    let result = if found == *wanted { "ok" } else { "DIFFERS" };
    println!("{result:<7} {what:<6} {:>4} values  {kind}", count(wanted));
    differences(wanted, &found).iter().for_each(|difference| println!("  {difference}"));
    Ok(found == *wanted)
}

fn from_hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let digits: Vec<u32> =
        text.chars().map(|c| c.to_digit(16).context("not a hex digit")).collect::<anyhow::Result<_>>()?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8)).collect())
}

/// The number of values in a document that are neither objects nor arrays.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 1,
    }
}

/// The paths at which two documents differ.
fn differences(wanted: &Value, found: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    compare("", Some(wanted), Some(found), &mut differences);
    differences
}

fn compare(path: &str, wanted: Option<&Value>, found: Option<&Value>, differences: &mut Vec<String>) {
    match (wanted, found) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                compare(&format!("{path}/{name}"), left.get(name), right.get(name), differences);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path}/{index}"), Some(left), Some(right), differences);
            }
        }
        _ if wanted == found => {}
        _ => {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            differences.push(format!("{path}: wanted {}, found {}", text(wanted), text(found)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_has_its_path() {
        let wanted = json!({"a": {"b": [1, {"c": "x"}]}, "d": true});
        assert!(differences(&wanted, &wanted).is_empty());
        let found = json!({"a": {"b": [1, {"c": "y"}]}, "e": 0});
        let found_differences = differences(&wanted, &found);
        assert_eq!(
            found_differences,
            ["/a/b/1/c: wanted \"x\", found \"y\"", "/d: wanted true, found nothing", "/e: wanted nothing, found 0"]
        );
    }
}
