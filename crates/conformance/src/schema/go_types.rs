//! The kinds that the generated files describe, and their types as the Go program in tests/kube/wire prints them.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, ensure};
use api::kinds;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Request bodies that are not kinds of the registry: group, version, kind.
pub const REQUEST_BODIES: [(&str, &str, &str); 3] =
    [("", "v1", "Binding"), ("", "v1", "DeleteOptions"), ("policy", "v1", "Eviction")];

/// Every kind of the registry in each version that Kubernetes has, and the bodies of requests.
pub fn described_kinds() -> Vec<(&'static str, &'static str, &'static str)> {
    let of_registry = kinds::ALL.iter().flat_map(|resource| {
        // Kubernetes no longer has the converted versions, except those of a kind that is stored in another group.
        let versions = if resource.versions.is_empty() { resource.converted_versions } else { resource.versions };
        versions.iter().map(|version| (resource.group, *version, resource.kind))
    });
    of_registry.chain(REQUEST_BODIES).collect()
}

/// Messages and fields in protobuf, and how JSON encodes each empty field of a type.
#[derive(Deserialize)]
pub struct GoTypes {
    pub kinds: BTreeMap<String, String>,
    pub messages: BTreeMap<String, Vec<String>>,
    /// `keep`, `omit`, `write` or `null`; ` micro` follows for a time in microseconds.
    pub empties: BTreeMap<String, BTreeMap<String, String>>,
}

/// Reads the types.
pub fn read() -> anyhow::Result<GoTypes> {
    run("types")
}

/// Runs the Go program for every kind.
pub fn run<T: DeserializeOwned>(task: &str) -> anyhow::Result<T> {
    let kinds = described_kinds().into_iter().map(|(group, version, kind)| format!("{group}/{version}/{kind}"));
    let output = Command::new("go")
        .args(["run", "-mod=readonly", "./wire", task])
        .args(kinds)
        .current_dir(supervisor::repository_root()?.join("tests/kube"))
        .output()
        .context("running `go`: install Go, which is needed only to write or check the files from its modules")?;
    ensure!(output.status.success(), "`go run ./wire {task}`: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).with_context(|| format!("reading the output of `go run ./wire {task}`"))
}
