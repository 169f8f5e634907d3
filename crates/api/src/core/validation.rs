//! What may be written to the core group, and what may change afterwards.
//!
//! Messages are those of Kubernetes. Of volumes the common sources are judged; only a kubelet reads the others.

pub mod pod; // a pod when created and changed
pub mod pod_status; // what is reported of a pod
mod pod_spec; // the spec, in a pod or in a template
mod volumes; // what containers mount
mod declared_names; // what containers can refer to
mod containers; // containers, their ports and mounts
mod environment; // the variables of a container
mod resources; // requests and limits
mod pod_resources; // those of a pod as a whole
mod claims; // claims of devices
mod probes; // probes and hooks
mod restart; // when a container starts again
mod security; // as whom a pod runs
mod network; // names of hosts, and how they are looked up
mod placement; // node selectors, tolerations, affinity, gates, groups
mod topology_spread; // how evenly pods are spread
pub mod binding; // a pod's way to its node
pub mod node; // taints and amounts
pub mod namespace; // its name, its phase
pub mod event; // what it is about, in the older and the newer form

pub use pod_spec::{SpecParent, validate_pod_spec, validate_pod_template};
pub use resources::is_extended;

/// The message of a number below zero.
const NEGATIVE: &str = "must be greater than or equal to 0";

/// The message of a number outside its range.
fn out_of_range_message(min: i64, max: i64) -> String {
    format!("must be between {min} and {max}, inclusive")
}

#[cfg(test)]
mod tests;
