//! Builds the Kubernetes objects of workload-aware scheduling for a controller: a `Workload`, and its `PodGroup`s and
//! `CompositePodGroup`s (`scheduling.k8s.io`, KEP-6089).
//!
//! In: a tree of [`WorkloadItem`]s, each with the controller's defaults, the user's blocks and callbacks.
//! Out: field errors, a `Workload`, and the groups of its templates in the order of creation.
//! Promises: pure functions; the same items give the same objects; items are not changed; the API server accepts what
//! is built.
//! Never: talks to a cluster, contains code for a particular controller, manages the objects that it returns.
//!
//! # Setup
//!
//! The library uses the types of Kubernetes 1.37 in `k8s-openapi`. The application chooses that version, as for every
//! library that uses `k8s-openapi`:
//!
//! ```toml
//! [dependencies]
//! k8s-openapi = { version = "0.29", features = ["v1_37"] }
//! workloadbuilder = "0.1"
//! ```
//!
//! The feature `schema` adds [`blocks`]' JSON schema for CustomResourceDefinitions, without a further dependency.
//!
//! # Use
//!
//! 1. Embed the [`blocks`] in the API of your resource.
//! 2. Describe an object of it as a tree of [`WorkloadItem`]s. Write this mapping once, for webhook and controller.
//! 3. In the webhook, return the errors of [`Builder::validate`]. They name fields of your resource.
//! 4. In the controller, create the Workload of [`Builder::build_workload`], then the groups that
//!    [`Builder::from_workload`] builds from the server's response, then pods with
//!    `spec.schedulingGroup.podGroupName`.
//! 5. When the object changes, build again, and apply the counts that [`recompile::diff`] returns.
//!
//! The [`guide`] has the design questions: who creates the groups, defaults, conflicts between levels, limits.
//! [`build`] has an example with two levels (like a JobSet), [`groups`] one with replicas of a tree (like a
//! LeaderWorkerSet). [`target`] has the API versions that can be written.
//!
//! # Example
//!
//! A controller whose workers are a gang by default:
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
//!         ..BuildOptions::default()
//!     },
//! );
//! assert!(builder.validate(None).is_empty());
//! let workload = builder.build_workload()?;
//!
//! // The group is built from the Workload that the server returned. So it lacks the fields that the server dropped.
//! let groups = Builder::from_workload(workload, BuildOptions::default());
//! let group = groups.build_pod_group("llama-workers", "workers")?;
//! assert_eq!(group.spec.scheduling_policy.gang.map(|gang| gang.min_count), Some(4));
//! # Ok::<(), workloadbuilder::BuildError>(())
//! ```

pub mod item; // a controller's input; read this first
pub mod blocks; // its users' input, and the mapping to a configuration
pub mod build; // items to a Workload
pub mod groups; // a Workload to groups
pub mod recompile; // changes of a Workload after a change of its owner
pub mod group_annotations; // annotations for children that create their own groups
pub mod target; // API version and layout of what is built
pub mod validate; // errors in items, before anything is built
pub mod names; // names of objects and templates
pub mod rules; // rules that blocks and kinds share
pub mod format; // formats of names and keys
pub mod field; // field paths and field errors
mod tree; // a tree of items, resolved and validated as a whole
mod template; // a resolved item as a template
mod error; // why a build failed

pub use blocks::{Blocks, CompositePodGroupBlocks, PodGroupBlocks, map_composite_group_config, map_pod_group_config};
pub use build::{BuildOptions, Builder};
pub use error::BuildError;
pub use groups::BuiltGroup;
pub use item::{
    Callback, DisruptionMode, DisruptionModeKind, FieldPaths, PolicyKind, ResourceClaim, SchedulingConfig,
    SchedulingConstraints, SchedulingPolicy, WorkloadItem,
};
pub use target::BuildTarget;

#[doc = include_str!("../docs/controllers.md")]
pub mod guide {}

k8s_openapi::k8s_if_le_1_36! {
    compile_error!("workloadbuilder needs the types of Kubernetes 1.37: enable the feature `v1_37` of k8s-openapi");
}

/// Runs the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use crate::target::SchedulingVersion;

    // Shows: S004-35
    #[test]
    fn library_has_four_dependencies() {
        // The manifest of the repository has one list, that of a package a section for each dependency.
        let manifest = include_str!("../Cargo.toml");
        let sections = manifest.lines().filter_map(|line| line.strip_prefix("[dependencies.")?.strip_suffix(']'));
        let list = manifest.split_once("\n[dependencies]\n").map_or("", |(_, list)| list);
        let entries = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split(['.', ' ']).next());
        let names: Vec<&str> = sections.chain(entries).collect();
        assert_eq!(names, ["k8s-openapi", "serde", "serde_json", "thiserror"]);
    }

    // Shows: S004-03
    #[test]
    fn guide_covers_every_subject_that_the_proposal_lists() {
        let guide = include_str!("../docs/controllers.md");
        for subject in [
            "**Who compiles.**",
            "**Who creates the groups.**",
            "*Centralized*",
            "*Delegated*",
            "**How intent nests.**",
            crate::group_annotations::GROUP_TEMPLATE_ANNOTATION,
            crate::group_annotations::PARENT_COMPOSITE_POD_GROUP_ANNOTATION,
            "**Conflicts between levels.**",
            "**Defaults and opt-outs.**",
        ] {
            assert!(guide.contains(subject), "{subject}");
        }
    }

    // Shows: S004-71
    #[test]
    fn readme_names_every_version_that_can_be_written() {
        let readme = include_str!("../README.md");
        for version in [SchedulingVersion::V1beta1, SchedulingVersion::V1alpha3, SchedulingVersion::V1alpha2] {
            assert!(readme.contains(version.api_version()), "{version:?}");
        }
        assert!(readme.contains(concat!(
            "| ",
            env!("CARGO_PKG_VERSION_MAJOR"),
            ".",
            env!("CARGO_PKG_VERSION_MINOR"),
            " |"
        )));
    }
}
