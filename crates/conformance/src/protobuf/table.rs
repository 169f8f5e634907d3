//! Writes the protobuf file of `api` from the types of the Go module k8s.io/api.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::schema::VERSION;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../api/src/schema/protobuf-{VERSION}.json"))
}

/// What the Go program says, and what the file holds.
#[derive(Deserialize)]
struct MessageTable {
    kinds: BTreeMap<String, String>,
    messages: BTreeMap<String, Vec<String>>,
}

/// Runs the Go program in tests/kube/wire.
fn read_go_types() -> anyhow::Result<MessageTable> {
    let output = Command::new("go")
        .args(["run", "-mod=readonly", "./wire"])
        .current_dir(supervisor::repository_root()?.join("tests/kube"))
        .output()
        .context("running `go`: install Go, which is needed only to regenerate the file")?;
    ensure!(output.status.success(), "`go run ./wire`: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("reading the output of `go run ./wire`")
}

/// Writes the file.
pub fn write() -> anyhow::Result<()> {
    let found = read_go_types()?;
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
