//! The scheduling group: Workloads, PodGroups, priority classes.
//!
//! `v1alpha3` of Workload and PodGroup is field for field the same as `v1beta1`, which is the form judged here.

pub mod defaults; // what is filled in when a field is left out
pub mod prepare; // fields of features that are off are dropped
pub mod validation; // what may be written, and what may change
