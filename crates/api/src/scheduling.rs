//! The scheduling group: Workloads, PodGroups, CompositePodGroups, priority classes.
//!
//! `v1alpha3` of Workload and PodGroup has the same fields as `v1beta1`, which is validated here.

pub mod defaults; // values of fields that are not set
pub mod prepare; // drops fields of features that are off
pub mod validation; // rules for creation and update

/// Delays the deletion of a PodGroup until it has no live pod.
pub const PROTECTION_FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";
