//! Compiles a controller's scheduling intent into Workload and PodGroup objects (KEP-6089).
//!
//! In: a tree of [`WorkloadItem`]s, each with the controller's defaults, the blocks its user wrote and callbacks.
//! Out: field errors, a `Workload`, and the `PodGroup`s made from its templates (`scheduling.k8s.io/v1beta1`).
//! Promises: pure functions of their input; the same item gives the same objects; items are never changed.
//! Never: talks to a cluster, knows a particular controller, manages what it returns.
//!
//! A controller that runs gangs of workers unless its user says otherwise:
//!
//! ```
//! use std::sync::Arc;
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
//! use workloadbuilder::{
//!     BuildOptions, Builder, DisruptionModeKind, PolicyKind, SchedulingConfig, SchedulingPolicy, WorkloadItem,
//!     field::Path, names,
//! };
//!
//! let owner = OwnerReference {
//!     api_version: "example.com/v1".to_owned(),
//!     kind: "Training".to_owned(),
//!     name: "llama".to_owned(),
//!     uid: "0b5e".to_owned(),
//!     controller: Some(true),
//!     ..OwnerReference::default()
//! };
//! let replicas = 4;
//! let item = WorkloadItem {
//!     default_config: SchedulingConfig {
//!         policy: Some(SchedulingPolicy::Gang { min_count: None }),
//!         ..SchedulingConfig::default()
//!     },
//!     callbacks: vec![Arc::new(move |config| config.default_min_count(replicas))],
//!     ..WorkloadItem::new("workers", Path::new("spec").child("scheduling"))
//! };
//! let builder = Builder::new(
//!     item,
//!     BuildOptions {
//!         name: names::workload_name(&owner.name, &owner.uid),
//!         namespace: "training".to_owned(),
//!         owner: Some(owner),
//!         allowed_policies: vec![PolicyKind::Basic, PolicyKind::Gang],
//!         allowed_disruption_modes: vec![DisruptionModeKind::Single, DisruptionModeKind::All],
//!     },
//! );
//! assert!(builder.validate(None).is_empty());
//! let workload = builder.build_workload()?;
//!
//! // The group is made from the Workload as the server took it in, so that what the server dropped stays dropped.
//! let groups = Builder::from_workload(workload, BuildOptions::default());
//! let group = groups.pod_group("llama-workers", "workers")?;
//! assert_eq!(group.spec.scheduling_policy.gang.map(|gang| gang.min_count), Some(4));
//! # Ok::<(), workloadbuilder::BuildError>(())
//! ```

pub mod item; // what a controller hands in; read this first
pub mod build; // items to objects
pub mod validate; // what is refused, before anything is built
pub mod names; // names of objects and templates
pub mod rules; // the rules that blocks and kinds share
pub mod format; // how names and keys are written
pub mod field; // paths and errors

pub use build::{BuildError, BuildOptions, Builder};
pub use item::{
    Blocks, Callback, DisruptionMode, DisruptionModeKind, FieldPaths, PodGroupBlocks, PolicyKind, ResourceClaim,
    SchedulingConfig, SchedulingConstraints, SchedulingPolicy, WorkloadItem,
};
