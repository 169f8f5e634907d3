//! Writes the protobuf file of `api` from the types of the Go module k8s.io/api.

use serde_json::{Value, json};

use crate::schema::go_types::{self, GoTypes};
use crate::schema::{self, VERSION};

/// Writes the file.
pub fn write() -> anyhow::Result<()> {
    let found = go_types::read()?;
    let text = render(&found);
    schema::write(&supervisor::repository_root()?, "protobuf", &text)?;
    println!("{} kinds, {} messages, {} bytes", found.kinds.len(), found.messages.len(), text.len());
    Ok(())
}

/// One message per line, so that the diff of a new version of Kubernetes is readable.
fn render(found: &GoTypes) -> String {
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
