//! Fields of a manifest that the server accepted and dropped. Kubernetes silently drops fields of features that are off.

use api::gates::Gate;
use serde_json::Value;

use crate::manifest::{Manifest, Problem};

/// How many fields of one object are listed.
const MAX_FIELDS: usize = 10;

/// One problem for each field that is in `wanted` and not in the server's `response`, with its line in `manifest`. Values
/// that mean nothing (null, zero, empty) are not reported, because a server may omit them. Fields that have one of the
/// server's `warnings` are not reported again.
pub fn fields(manifest: &Manifest, wanted: &Value, response: &Value, warnings: &[String]) -> Vec<Problem> {
    let mut paths = Vec::new();
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        // The server owns parts of the metadata, and a status is not applied.
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            collect_missing(wanted, response.get(name), name, &mut paths);
        }
    }
    let kind = manifest.document["kind"].as_str().unwrap_or_default();
    paths.retain(|path| !warnings.iter().any(|warning| warning.starts_with(&format!("{path}: "))));
    paths.truncate(MAX_FIELDS);
    paths.iter().map(|path| manifest.problem(path, &text(kind, path))).collect()
}

fn text(kind: &str, path: &str) -> String {
    // A CronJob has the fields of a Job below jobTemplate.
    let (kind, inner) = match path.strip_prefix("spec.jobTemplate.") {
        Some(inner) if kind == "CronJob" => ("Job", inner),
        _ => (kind, path),
    };
    let (kind, inner) = match inner.strip_prefix("spec.template.") {
        Some(inner) if kind == "Job" => ("Pod", inner),
        _ => (kind, inner),
    };
    match Gate::of_field(kind, inner) {
        Some(gate) => {
            let gates: Vec<&str> = [gate].iter().chain(gate.requires()).map(|gate| gate.name()).collect();
            let plural = if gates.len() > 1 { "gates" } else { "gate" };
            format!(
                "{path}: dropped by the server, so it has no effect: the feature {plural} {} must be on there",
                gates.join(" and ")
            )
        }
        None => format!("{path}: dropped by the server, so it has no effect: its feature gate is off there"),
    }
}

fn collect_missing(wanted: &Value, stored: Option<&Value>, path: &str, paths: &mut Vec<String>) {
    match (wanted, stored) {
        (wanted, None | Some(Value::Null)) if !is_empty_value(wanted) => paths.push(path.to_owned()),
        (Value::Object(wanted), Some(stored)) => {
            for (name, wanted) in wanted {
                collect_missing(wanted, stored.get(name), &format!("{path}.{name}"), paths);
            }
        }
        // Lists that the server merged or completed cannot be compared item by item.
        (Value::Array(wanted), Some(Value::Array(stored))) if wanted.len() == stored.len() => {
            for (index, (wanted, stored)) in wanted.iter().zip(stored).enumerate() {
                collect_missing(wanted, Some(stored), &format!("{path}[{index}]"), paths);
            }
        }
        _ => {}
    }
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // An empty object can have a meaning: `schedulingPolicy: {gang: {}}`.
        Value::Object(fields) => fields.values().all(|value| is_empty_value(value) && !value.is_object()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::manifest::parse;

    #[test]
    fn dropped_fields_are_reported_with_their_line_and_gate() {
        let text = "
apiVersion: batch/v1
kind: Job
metadata: {name: a, creationTimestamp: null, labels: {x: y}}
spec:
  parallelism: 2
  suspend: false
  scheduling:
    schedulingPolicy: {gang: {}}
  template:
    spec:
      schedulingGroup: {podGroupName: g}
      containers:
      - {name: a, image: b, resources: {}, new: {field: 1}}
status: {active: 1}
";
        let manifest = &parse(Path::new("f"), text).unwrap()[0];
        let containers = json!([{"name": "a", "image": "b"}]);
        let response = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "spec": {"parallelism": 2, "template": {"spec": {"containers": containers}}},
        });
        let lines = |warnings: &[String]| -> Vec<String> {
            fields(manifest, &manifest.document, &response, warnings).iter().map(Problem::to_string).collect()
        };
        let all = lines(&[]);
        let dropped = "dropped by the server, so it has no effect";
        assert_eq!(
            all,
            [
                format!(
                    "f:8: job/a: spec.scheduling: {dropped}: the feature gates WorkloadWithJob and GenericWorkload must be on \
                     there"
                ),
                format!("f:14: job/a: spec.template.spec.containers[0].new: {dropped}: its feature gate is off there"),
                format!(
                    "f:12: job/a: spec.template.spec.schedulingGroup: {dropped}: the feature gate GenericWorkload must be on \
                     there"
                ),
            ]
        );
        assert!(fields(manifest, &manifest.document, &manifest.document, &[]).is_empty());
        let of_server = "spec.scheduling: dropped, because its gate is off".to_owned();
        assert_eq!(lines(&[of_server]), all[1..], "a field is not reported twice");
    }
}
