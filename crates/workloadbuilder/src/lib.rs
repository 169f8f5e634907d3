//! Compiles a controller's scheduling intent into Workload and PodGroup objects (KEP-6089).

pub mod field; // paths and errors
