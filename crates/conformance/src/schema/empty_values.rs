//! Writes the file of the encoding of empty fields, from the types of the Go module k8s.io/api.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::go_types::GoTypes;

/// Fields that kube-apiserver encodes otherwise than their types imply: defaults, and fields of disabled features.
const LEARNED: [(&str, &str, &str); 8] = [
    ("batch.v1.PodFailurePolicyOnPodConditionsPattern", "status", "omit"),
    ("coordination.v1.LeaseSpec", "preferredHolder", "omit"),
    ("coordination.v1.LeaseSpec", "strategy", "omit"),
    ("core.v1.AzureDiskVolumeSource", "readOnly", "write"),
    ("core.v1.FileKeySelector", "optional", "write"),
    ("core.v1.GRPCAction", "service", "write"),
    ("core.v1.HostPathVolumeSource", "type", "write"),
    ("core.v1.PodSpec", "securityContext", "write"),
];

/// The exceptions of each type from the encoding that a field's type implies, one type per line.
pub fn render(types: &BTreeMap<&str, &Value>, go: &GoTypes) -> String {
    let lines = types.iter().filter_map(|(name, schema)| {
        let fields = schema["fields"].as_object().filter(|fields| !fields.is_empty())?;
        let mut exceptions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        // The server itself writes the metadata of objects.
        let is_written_by_server = |field: &str| field == "metadata" && fields.contains_key("kind");
        for (field, entry) in fields.iter().filter(|(field, _)| !is_written_by_server(field)) {
            let text = entry["type"].as_str().or_else(|| entry.as_str()).unwrap_or_default();
            let is_required = schema["required"].as_array().is_some_and(|required| required.contains(&json!(field)));
            let found = encoding(go, name, field, text);
            if found.encoding != default_encoding(text, is_required) {
                exceptions.entry(found.encoding).or_default().push(field);
            }
            if found.is_micro {
                exceptions.entry("micro").or_default().push(field);
            }
        }
        Some(format!("{}:{}", json!(name), json!(exceptions)))
    });
    format!("{{\"types\":{{\n{}\n}}}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

/// How one field is encoded.
struct FieldEncoding<'a> {
    encoding: &'a str,
    is_micro: bool,
}

fn encoding<'a>(go: &'a GoTypes, name: &str, field: &str, type_text: &str) -> FieldEncoding<'a> {
    let text = go.empties.get(name).and_then(|fields| fields.get(field)).map_or("keep", String::as_str);
    let (encoding, is_micro) = text.strip_suffix(" micro").map_or((text, false), |encoding| (encoding, true));
    let learned = LEARNED.iter().find(|(known, known_field, _)| (*known, *known_field) == (name, field));
    let encoding = match (learned, encoding) {
        (Some((_, _, learned)), _) => learned,
        // The empty time is written as `null`, and `null` is removed.
        (None, "keep") if type_text == "time" => "omit",
        (None, encoding) => encoding,
    };
    FieldEncoding { encoding, is_micro }
}

/// The encoding that `api::schema` assumes without an exception.
fn default_encoding(type_text: &str, is_required: bool) -> &'static str {
    let is_collection = type_text.starts_with("[]") || type_text.starts_with("{}") || type_text == "time";
    match type_text {
        "any" => "keep",
        _ if is_collection && is_required => "null",
        _ if is_required => "write",
        "string" | "bytes" => "omit",
        _ if is_collection => "omit",
        _ => "keep",
    }
}
