//! Validation of a cluster file.

use std::collections::{BTreeMap, BTreeSet};

use api::field::{Error, ErrorKind, ErrorList, Path};
use api::metadata::{names, validate_labels};
use api::quantity::Quantity;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{API_VERSION, Cluster, HOSTNAME, KIND, NodeSet, SIMULATED_LABEL, Topology};

/// Well above the largest Kubernetes clusters.
const MAX_NODES: usize = 100_000;
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The document. Its sets are decoded one by one, so that an error has the path of its set.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClusterFile {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    nodes: Vec<Value>,
}

pub(super) fn read(document: &Value) -> Result<Cluster, ErrorList> {
    let file = ClusterFile::deserialize(document).map_err(|error| vec![unreadable(&Path::new(""), &error)])?;
    let mut errors = ErrorList::new();
    for (field, value, want) in [("apiVersion", &file.api_version, API_VERSION), ("kind", &file.kind, KIND)] {
        if value != want {
            errors.push(Error::not_supported(&Path::new(field), value.as_str(), &[want]));
        }
    }
    let mut cluster = Cluster::default();
    for (index, set) in file.nodes.iter().enumerate() {
        let path = Path::new("nodes").index(index);
        match NodeSet::deserialize(set) {
            Ok(set) => {
                validate_set(&set, &path, &mut errors);
                cluster.nodes.push(set);
            }
            Err(error) => errors.extend(unreadable_fields(set, &path, &error)),
        }
    }
    // Counts and names are checked only if every set is valid.
    if errors.is_empty() {
        validate_cluster(&cluster, &mut errors);
    }
    if errors.is_empty() { Ok(cluster) } else { Err(errors) }
}

/// The errors of a set that cannot be decoded as a whole because of `error`: every field is decoded alone.
fn unreadable_fields(set: &Value, path: &Path, error: &serde_json::Error) -> ErrorList {
    let fields = set.as_object().into_iter().flatten();
    let errors = fields.filter_map(|(name, value)| {
        let error = NodeSet::deserialize(&json!({ name: value })).err()?;
        Some(unreadable(&path.child(name), &error))
    });
    let errors: ErrorList = errors.collect();
    if errors.is_empty() { vec![unreadable(path, error)] } else { errors }
}

/// The error of a value that cannot be decoded.
fn unreadable(path: &Path, error: &serde_json::Error) -> Error {
    Error { kind: ErrorKind::TypeInvalid, path: path.clone(), value: None, detail: error.to_string() }
}

fn validate_set(set: &NodeSet, path: &Path, errors: &mut ErrorList) {
    if set.count == 0 {
        errors.push(Error::invalid(&path.child("count"), 0, "must be at least 1"));
    }
    // With a number behind it, every valid prefix is a valid name.
    for detail in names::dns_subdomain(&format!("{}0", set.name_prefix)) {
        errors.push(Error::invalid(&path.child("namePrefix"), set.name_prefix.as_str(), detail));
    }
    for (name, amount) in &set.capacity {
        validate_amount(name, &amount.0, &path.child("capacity"), errors);
    }
    let labels = path.child("labels");
    errors.extend(validate_labels(&set.labels, &labels));
    for key in [HOSTNAME, SIMULATED_LABEL] {
        if set.labels.contains_key(key) {
            errors.push(Error::forbidden(&labels.key(key), "set by the simulated node"));
        }
    }
    for (index, taint) in set.taints.iter().enumerate() {
        let path = path.child("taints").index(index);
        for detail in names::qualified_name(&taint.key) {
            errors.push(Error::invalid(&path.child("key"), taint.key.as_str(), detail));
        }
        if !EFFECTS.contains(&taint.effect.as_str()) {
            errors.push(Error::not_supported(&path.child("effect"), taint.effect.as_str(), &EFFECTS));
        }
    }
    validate_topology(&set.topology, &set.labels, &path.child("topology"), errors);
}

fn validate_amount(name: &str, amount: &str, path: &Path, errors: &mut ErrorList) {
    for detail in names::qualified_name(name) {
        errors.push(Error::invalid(path, name, detail));
    }
    match Quantity::parse(amount) {
        Err(bad) => errors.push(Error::invalid(&path.key(name), amount, bad.to_string())),
        Ok(quantity) if quantity.is_negative() => {
            errors.push(Error::invalid(&path.key(name), amount, "must be greater than or equal to 0"));
        }
        // Only cpu may be fractional.
        Ok(quantity) if name != "cpu" && !quantity.is_whole() => {
            errors.push(Error::invalid(&path.key(name), amount, "must be an integer"));
        }
        Ok(_) => {}
    }
}

fn validate_topology(topology: &[Topology], labels: &BTreeMap<String, String>, path: &Path, errors: &mut ErrorList) {
    let mut keys: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
    keys.extend([HOSTNAME, SIMULATED_LABEL]);
    for (index, level) in topology.iter().enumerate() {
        let path = path.index(index);
        let bad_key = names::qualified_name(&level.key);
        // A bad key makes bad values; one error is enough.
        let bad_value = if bad_key.is_empty() { names::label_value(&level.value(MAX_NODES)) } else { Vec::new() };
        for detail in bad_key {
            errors.push(Error::invalid(&path.child("key"), level.key.as_str(), detail));
        }
        for detail in bad_value {
            let (field, value) = level.prefix.as_ref().map_or(("key", &level.key), |prefix| ("prefix", prefix));
            errors.push(Error::invalid(&path.child(field), value.as_str(), detail));
        }
        if !keys.insert(&level.key) {
            errors.push(Error::duplicate(&path.child("key"), level.key.as_str()));
        }
        if level.nodes == 0 {
            errors.push(Error::invalid(&path.child("nodes"), 0, "must be at least 1"));
        }
    }
}

fn validate_cluster(cluster: &Cluster, errors: &mut ErrorList) {
    let path = Path::new("nodes");
    let count = cluster.nodes.iter().fold(0_usize, |sum, set| sum.saturating_add(set.count as usize));
    match count {
        0 => errors.push(Error::required(&path, "a cluster has at least one node")),
        1..=MAX_NODES => {
            let mut names = BTreeSet::new();
            let duplicate = cluster.named_nodes().map(|(_, name)| name).find(|name| !names.insert(name.clone()));
            errors.extend(duplicate.map(|name| Error::duplicate(&path, name)));
        }
        _ => errors.push(Error::too_many(&path, count, MAX_NODES)),
    }
}
