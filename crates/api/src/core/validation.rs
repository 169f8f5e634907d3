//! Validation of the core group, at creation and update.
//!
//! The messages are those of Kubernetes. Only the common sources of volumes are validated; only a kubelet reads the
//! others.

pub mod pod; // creation and update of a pod
pub mod pod_status; // the status of a pod
mod pod_spec; // the spec, in a pod or in a template
mod volumes; // volumes
mod declared_names; // names that containers can refer to
mod containers; // containers, their ports and mounts
mod environment; // environment variables
mod resources; // requests and limits
mod pod_resources; // requests and limits at pod level
mod claims; // resource claims
mod probes; // probes and hooks
mod restart; // restart policies and rules
mod security; // security contexts
mod network; // host names and DNS
mod placement; // node selectors, tolerations, affinity, gates, groups
mod topology_spread; // topology spread constraints
pub mod binding; // the binding of a pod to a node
pub mod node; // taints and amounts
pub mod namespace; // name and phase
pub mod event; // Events of both API groups

pub use pod_spec::{SpecParent, validate_pod_spec, validate_pod_template};
pub use resources::is_extended;

/// The message for a negative number.
const NEGATIVE: &str = "must be greater than or equal to 0";

/// The message for a number outside its range.
fn out_of_range_message(min: i64, max: i64) -> String {
    format!("must be between {min} and {max}, inclusive")
}

#[cfg(test)]
mod tests;
