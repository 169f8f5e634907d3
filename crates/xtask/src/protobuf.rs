//! The protobuf form of the kinds that the server takes: its file, written from the Go types, and the check against the
//! objects that Go and k8s.io/api have in both forms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use api::protobuf::Envelope;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::schema::{VERSION, module_folder};

/// What `cargo xtask protobuf` can do.
#[derive(clap::Subcommand)]
pub enum ProtobufTask {
    /// Writes the file of messages and fields from the types of the Go module k8s.io/api
    Table,
    /// Reads an object with every field, filled and zero, of each kind that the server takes, and compares it with its
    /// JSON
    Check,
}

pub fn run(task: &ProtobufTask) -> anyhow::Result<()> {
    match task {
        ProtobufTask::Table => write_table(),
        ProtobufTask::Check => check(),
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../api/src/schema/protobuf-{VERSION}.json"))
}

/// What the Go program says, and what the file holds.
#[derive(Deserialize)]
struct MessageTable {
    kinds: BTreeMap<String, String>,
    messages: BTreeMap<String, Vec<String>>,
}

/// What the Go program in tests/kube/wire says.
fn run_go<T: DeserializeOwned>(arguments: &[&str]) -> anyhow::Result<T> {
    let output = Command::new("go")
        .args(["run", "-mod=readonly", "./wire"])
        .args(arguments)
        .current_dir(crate::repository_root()?.join("tests/kube"))
        .output()
        .context("running `go`: install Go, which is needed only to make the file anew and to check it")?;
    ensure!(output.status.success(), "`go run ./wire` said: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("reading what `go run ./wire` printed")
}

fn write_table() -> anyhow::Result<()> {
    let found: MessageTable = run_go(&[])?;
    let text = render(&found);
    std::fs::write(file(), &text).with_context(|| format!("writing {}", file().display()))?;
    println!("{} kinds, {} messages, {} bytes", found.kinds.len(), found.messages.len(), text.len());
    Ok(())
}

/// One message a line, so that a new version of Kubernetes reads as a diff.
fn render(found: &MessageTable) -> String {
    let lines = |entries: Vec<(&String, Value)>| {
        let lines: Vec<String> = entries.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        lines.join(",\n")
    };
    let kinds = found.kinds.iter().map(|(kind, message)| (kind, json!(message))).collect();
    let messages = found.messages.iter().map(|(message, fields)| (message, json!(fields))).collect();
    format!(
        "{{\"kubernetes\":\"{VERSION}\",\n\"kinds\":{{\n{}\n}},\n\"messages\":{{\n{}\n}}}}\n",
        lines(kinds),
        lines(messages)
    )
}

/// An object with every field there and zero, in both forms.
#[derive(Deserialize)]
struct ZeroObject {
    json: Value,
    protobuf: String,
}

/// The objects that k8s.io/api publishes have every field set, each to a value of its own. Those that Go makes for us
/// have every field there and zero, which shows what JSON leaves out.
fn check() -> anyhow::Result<()> {
    let known: MessageTable = serde_json::from_slice(&std::fs::read(file())?)?;
    let zeros: BTreeMap<String, ZeroObject> = run_go(&["zeros"])?;
    let minor_patch = VERSION.strip_prefix("1.").context("the modules are v0 of version 1")?;
    let folder = module_folder(&format!("k8s.io/api@v0.{minor_patch}"))?.join("testdata/HEAD");
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
