//! A custom resource that embeds the blocks, and the scheduling part of its controller.
//!
//! The workers of a `Training` are a gang by default. Its author defines the fields of the blocks and the defaults.
//! Types, schema, rules and objects come from the library. The program prints the CustomResourceDefinition and the
//! objects of one Training.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use workloadbuilder::blocks::{
    WorkloadPodGroupDisruptionMode, WorkloadPodGroupResourceClaim, WorkloadPodGroupSchedulingConstraints,
    WorkloadPodGroupSchedulingPolicy, schema,
};
use workloadbuilder::field::Path;
use workloadbuilder::{
    Blocks, BuildOptions, Builder, BuiltGroup, DisruptionMode, FieldPaths, PodGroupBlocks, PolicyKind,
    SchedulingConfig, SchedulingPolicy, WorkloadItem, names,
};

/// The custom resource.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Training {
    metadata: ObjectMeta,
    spec: TrainingSpec,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct TrainingSpec {
    workers: i32,
    /// The author chooses the names of these fields.
    #[serde(default)]
    placement: TrainingPlacement,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct TrainingPlacement {
    start: Option<WorkloadPodGroupSchedulingPolicy>,
    within: Option<WorkloadPodGroupSchedulingConstraints>,
    eviction: Option<WorkloadPodGroupDisruptionMode>,
    devices: Option<Vec<WorkloadPodGroupResourceClaim>>,
}

/// The CustomResourceDefinition. The schema of the blocks comes from the library.
fn definition() -> Value {
    let placement = json!({
        "type": "object",
        "properties": {
            "start": schema::pod_group_scheduling_policy(),
            "within": schema::pod_group_scheduling_constraints(),
            "eviction": schema::pod_group_disruption_mode(),
            "devices": schema::pod_group_resource_claims(),
        },
    });
    let spec = json!({
        "type": "object",
        "required": ["workers"],
        "properties": {"workers": {"type": "integer", "format": "int32", "minimum": 1}, "placement": placement},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "trainings.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Training", "plural": "trainings"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": spec}}},
            }],
        },
    })
}

/// The mapping of a Training to a tree of items, used by its webhook and its controller.
fn builder(training: &Training) -> Builder {
    let name = training.metadata.name.clone().unwrap_or_default();
    let uid = training.metadata.uid.clone().unwrap_or_default();
    let (path, placement) = (Path::new("spec").child("placement"), training.spec.placement.clone());
    let workers = training.spec.workers;
    let item = WorkloadItem {
        default_config: SchedulingConfig {
            policy: Some(SchedulingPolicy::Gang { min_count: None }),
            ..SchedulingConfig::default()
        },
        input: Blocks::PodGroup(PodGroupBlocks {
            policy: placement.start,
            constraints: placement.within,
            disruption_mode: placement.eviction,
            resource_claims: placement.devices,
        }),
        fields: FieldPaths {
            policy: path.child("start"),
            constraints: path.child("within"),
            disruption_mode: path.child("eviction"),
            resource_claims: path.child("devices"),
        },
        callbacks: vec![Arc::new(move |config| config.default_min_count(workers))],
        ..WorkloadItem::new(names::template_name(&name, 0), path)
    };
    let options = BuildOptions {
        name: names::workload_name(&name, &uid),
        namespace: training.metadata.namespace.clone().unwrap_or_default(),
        owner: Some(OwnerReference {
            api_version: "example.com/v1".to_owned(),
            kind: "Training".to_owned(),
            name,
            uid,
            controller: Some(true),
            block_owner_deletion: Some(true),
        }),
        allowed_policies: vec![PolicyKind::Basic, PolicyKind::Gang],
        allowed_disruption_modes: vec![DisruptionMode::Single, DisruptionMode::All],
        ..BuildOptions::default()
    };
    Builder::new(item, options)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:#}", definition());
    let training: Training = serde_json::from_value(json!({
        "metadata": {"name": "llama", "namespace": "default", "uid": "0b5e"},
        "spec": {
            "workers": 4,
            "placement": {"within": {"topology": [{"key": "topology.kubernetes.io/rack"}]}, "eviction": {"all": {}}},
        },
    }))?;
    let builder = builder(&training);
    for error in builder.validate(None) {
        eprintln!("{error}");
    }
    println!("{:#}", serde_json::to_value(builder.build_workload()?)?);
    for group in builder.build_groups()? {
        match group {
            BuiltGroup::Composite(group) => println!("{:#}", serde_json::to_value(group)?),
            BuiltGroup::Pods(group) => println!("{:#}", serde_json::to_value(group)?),
        }
    }
    Ok(())
}
