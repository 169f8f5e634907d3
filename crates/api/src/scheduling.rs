//! The scheduling group: Workloads, PodGroups, CompositePodGroups, priority classes.
//!
//! `v1alpha3` of Workload and PodGroup is field for field the same as `v1beta1`, which is the form judged here.

pub mod defaults; // what is filled in when a field is left out
pub mod prepare; // fields of features that are off are dropped
pub mod validation; // what may be written, and what may change

/// Holds a PodGroup that is being deleted until no live pod belongs to it.
pub const PROTECTION_FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";
