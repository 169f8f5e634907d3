//! `cargo xtask protobuf check`: objects in protobuf, as Go and k8s.io/api have them, decoded by ours and compared with their
//! JSON.

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

/// An object with every field there and zero, in both forms.
#[derive(Deserialize)]
struct ZeroObject {
    json: Value,
    protobuf: String,
}

/// The objects that k8s.io/api publishes have every field set, each to a value of its own. Those that Go makes for us
/// have every field there and zero, which shows what JSON leaves out.
pub fn check() -> anyhow::Result<()> {
    let root = supervisor::repository_root()?;
    let known: KindTable = serde_json::from_slice(&std::fs::read(root.join(FILE))?)?;
    let zeros: BTreeMap<String, ZeroObject> = go_types::run("zeros")?;
    let folder = module_folder(&root.join("tests/kube"), "k8s.io/api")?.join("testdata/HEAD");
    let mut wrong = 0;
    for kind in known.kinds.keys() {
        let [group, version, name] = kind.split('/').collect::<Vec<_>>()[..] else { bail!("{kind} is no kind") };
        let group = if group.is_empty() { "core" } else { group };
        let read = |form: &str| {
            let path = folder.join(format!("{group}.{version}.{name}.{form}"));
            std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
        };
        let published: Value = serde_json::from_slice(&read("json")?)?;
        wrong += usize::from(!matches_document(kind, "filled", &published, &read("pb")?)?);
        let zero = zeros.get(kind).with_context(|| format!("Go made no {kind}"))?;
        wrong += usize::from(!matches_document(kind, "zero", &zero.json, &from_hex(&zero.protobuf)?)?);
    }
    ensure!(wrong == 0, "{wrong} objects differ from their JSON");
    println!("protobuf: {} kinds, filled and zero, all equal to their JSON", known.kinds.len());
    Ok(())
}

/// Whether a body is the document that is wanted; says where not.
fn matches_document(kind: &str, what: &str, wanted: &Value, body: &[u8]) -> anyhow::Result<bool> {
    let [group, version, name] = kind.split('/').collect::<Vec<_>>()[..] else { bail!("{kind} is no kind") };
    let found = Envelope::read(body)?.document(group, version, name, usize::MAX)?;
    let result = if found == *wanted { "ok" } else { "DIFFERS" };
    println!("{result:<7} {what:<6} {:>4} values  {kind}", count(wanted));
    differences(wanted, &found).iter().for_each(|difference| println!("  {difference}"));
    Ok(found == *wanted)
}

fn from_hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).context("no hex")).collect::<anyhow::Result<_>>()?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8)).collect())
}

/// How many values a document holds that are neither objects nor arrays.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 1,
    }
}

/// The places at which two documents differ.
fn differences(wanted: &Value, found: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    compare("", Some(wanted), Some(found), &mut differences);
    differences
}

fn compare(place: &str, wanted: Option<&Value>, found: Option<&Value>, differences: &mut Vec<String>) {
    match (wanted, found) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                compare(&format!("{place}/{name}"), left.get(name), right.get(name), differences);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{place}/{index}"), Some(left), Some(right), differences);
            }
        }
        _ if wanted == found => {}
        _ => {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            differences.push(format!("{place}: wanted {}, found {}", text(wanted), text(found)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_named_by_its_place() {
        let wanted = json!({"a": {"b": [1, {"c": "x"}]}, "d": true});
        assert!(differences(&wanted, &wanted).is_empty());
        let found = json!({"a": {"b": [1, {"c": "y"}]}, "e": 0});
        let places = differences(&wanted, &found);
        assert_eq!(
            places,
            ["/a/b/1/c: wanted \"x\", found \"y\"", "/d: wanted true, found nothing", "/e: wanted nothing, found 0"]
        );
    }
}
