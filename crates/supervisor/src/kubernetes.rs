//! The real Kubernetes: its programs built from the Go module in tests/kube, and a throw-away control plane of them.

mod build; // the programs, built into the user's cache folder
mod control_plane; // etcd, kube-apiserver and more, for as long as a value lives

pub use build::{PARALLEL, PROGRAMS, ensure_built, folder as programs_folder, has_go};
pub use control_plane::{ControlPlaneConfig, GENERIC_WORKLOAD, KubeControlPlane, TOKEN};

/// The release; tests/kube/go.mod pins the same.
pub const VERSION: &str = "1.37.1";

/// Builds those of the programs that are missing. `false` where Go is missing; in CI that is an error.
pub fn ensure_programs(names: &[&str]) -> anyhow::Result<bool> {
    ensure_built(names, PARALLEL)
}
