//! Compiles a controller's scheduling intent into Workload, PodGroup and CompositePodGroup objects (KEP-6089).
//!
//! In: a tree of [`WorkloadItem`]s, each with the controller's defaults, the blocks its user wrote and callbacks.
//! Out: field errors, a `Workload`, and the groups made from its templates, in the order in which to create them.
//! Promises: pure functions of their input; the same items give the same objects; items are never changed; what is built
//! meets every rule that the API server has about it.
//! Never: talks to a cluster, knows a particular controller, manages what it returns.
//!
//! Three controllers that use it stand as examples: one level like a Job here, two levels like a JobSet at [`build`],
//! replicas of a tree like a LeaderWorkerSet at [`groups`]. Which API versions it can write is said at [`target`].
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
//!         ..BuildOptions::default()
//!     },
//! );
//! assert!(builder.validate(None).is_empty());
//! let workload = builder.build_workload()?;
//!
//! // The group is made from the Workload as the server took it in, so that what the server dropped stays dropped.
//! let groups = Builder::from_workload(workload, BuildOptions::default());
//! let group = groups.build_pod_group("llama-workers", "workers")?;
//! assert_eq!(group.spec.scheduling_policy.gang.map(|gang| gang.min_count), Some(4));
//! # Ok::<(), workloadbuilder::BuildError>(())
//! ```

pub mod item; // what a controller hands in; read this first
pub mod blocks; // what its users write, and its translation
pub mod build; // items to a Workload
pub mod groups; // a Workload to groups
pub mod recompile; // what of a Workload follows a change of its owner
pub mod group_annotations; // annotations for children that make their own groups
pub mod target; // what the server can hold
pub mod validate; // what is refused, before anything is built
pub mod names; // names of objects and templates
pub mod rules; // the rules that blocks and kinds share
pub mod format; // how names and keys are written
pub mod field; // paths and errors
mod tree; // items, resolved and checked as a whole
mod template; // a resolved item, written down
mod error; // why nothing could be built

pub use blocks::{Blocks, CompositePodGroupBlocks, PodGroupBlocks, map_composite_group_config, map_pod_group_config};
pub use build::{BuildOptions, Builder};
pub use error::BuildError;
pub use groups::BuiltGroup;
pub use item::{
    Callback, DisruptionMode, DisruptionModeKind, FieldPaths, PolicyKind, ResourceClaim, SchedulingConfig,
    SchedulingConstraints, SchedulingPolicy, WorkloadItem,
};
pub use target::BuildTarget;

/// The README's and the guide's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/guides/controllers.md")]
struct Documents;

#[cfg(test)]
mod tests {
    use crate::target::SchedulingVersion;

    // Shows: S004-35
    #[test]
    fn the_library_needs_four_crates() {
        let manifest = include_str!("../Cargo.toml");
        let (_, after) = manifest.split_once("[dependencies]\n").expect("a list of dependencies");
        let list = after.split_once("\n\n").map_or(after, |(list, _)| list);
        let names: Vec<&str> = list.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
        assert_eq!(names, ["k8s-openapi", "serde", "serde_json", "thiserror"]);
    }

    // Shows: S004-03
    #[test]
    fn the_guide_has_a_word_on_everything_the_proposal_asks_for() {
        let guide = include_str!("../../../docs/guides/controllers.md");
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
    fn the_readme_names_every_version_that_can_be_written() {
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
